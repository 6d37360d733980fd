// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/dense/cublas/detail/verify_product.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/cuda/common/alignment.h"
#include "engine/cuda/dense/cublas/detail/panel_passes.h"
#include "engine/cuda/runtime/cuda_error.h"
#include "engine/cuda/runtime/relaxed_capture.h"

namespace vicinal::cuda {
namespace {

// Extra rows before and after a panel, for comparisons at other positions.
constexpr int64_t kShift = 131;

// A lack of memory and the loss of the device say nothing about an algorithm; other errors are a reason to take the
// next.
bool GivesUp(const Status& status) {
  if (status.code() == StatusCode::kResourceExhausted) return true;
  const auto detail = DetailOf(status);
  return detail.has_value() && detail->reason == kDeviceLostReason;
}

Status Refusing(const Status& why) { return FailedPrecondition("KERNEL_REFUSED", std::string(why.message())); }

}  // namespace

ProductVerification::ProductVerification(int64_t in_width, int64_t out_width, const GpuLimits& limits,
                                         CudaDevice* device)
    : in_width_(in_width), out_width_(out_width), limits_(limits), device_(*device) {
  why_ = FailedPrecondition("KERNEL_REFUSED",
                            absl::StrCat("cuBLAS proposes no algorithm that adds a row's products in one chain for ",
                                         in_width, " inputs and ", out_width, " outputs"));
}

ProductVerification::~ProductVerification() {
  if (stream_ == nullptr || !device_.MakeCurrent().ok()) return;
  cudaStreamSynchronize(stream_);  // after an error, a run may still use the buffers
  cudaStreamDestroy(stream_);
}

ProductVerification::Sizes ProductVerification::SizesOf() const {
  const int64_t rows = PanelHeights(in_width_, limits_) * PanelStep(limits_);
  const auto floats = [](int64_t count) { return static_cast<size_t>(count) * sizeof(float); };
  return {floats((rows + 2 * kShift) * PackedStride(in_width_)), floats(out_width_ * PackedStride(in_width_)),
          floats(rows * PackedStride(out_width_))};
}

int64_t ProductVerification::bytes() const {
  const Sizes sizes = SizesOf();
  return static_cast<int64_t>(sizes.src + sizes.weight + 2 * sizes.outputs + sizeof(float));
}

ProductVerification::Part ProductVerification::next() const {
  if (result_.has_value()) return Part::kDone;
  return loaded_ ? Part::kRun : Part::kLoad;
}

Status ProductVerification::Begin(const CublasLibrary& library, cublasLtHandle_t handle) {
  product_.reset(new PinnedProduct(library, handle));
  VICINAL_RETURN_IF_ERROR(product_->Describe(in_width_, out_width_, limits_));
  VICINAL_ASSIGN_OR_RETURN(proposals_, product_->Proposals());
  const Sizes sizes = SizesOf();
  VICINAL_ASSIGN_OR_RETURN(src_, device_.Allocate(sizes.src));
  VICINAL_ASSIGN_OR_RETURN(weight_, device_.Allocate(sizes.weight));
  VICINAL_ASSIGN_OR_RETURN(reference_, device_.Allocate(sizes.outputs));
  VICINAL_ASSIGN_OR_RETURN(dst_, device_.Allocate(sizes.outputs));
  VICINAL_ASSIGN_OR_RETURN(differing_, device_.Allocate(sizeof(float)));
  VICINAL_RETURN_IF_ERROR(CudaStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream"));
  ListChecks();
  return OkStatus();
}

void ProductVerification::ListChecks() {
  const int heights = product_->heights();
  checks_.push_back({heights, kShift, 1, "in another run"});
  for (int height = 1; height < heights; ++height) checks_.push_back({height, kShift, 1, "at another height"});
  for (const int64_t row : {int64_t{0}, int64_t{1}, kShift - 1, kShift + 1, 2 * kShift}) {
    checks_.push_back({heights, row, 1, "at another position"});
    checks_.push_back({1, row, 1, "at another position"});
  }
  checks_.push_back({heights, kShift, 2, "beside rows that are not finite"});
}

Status ProductVerification::Load(const CublasLibrary& library, cublasLtHandle_t handle) {
  VICINAL_RETURN_IF_ERROR(device_.MakeCurrent());
  const RelaxedCapture relaxed;
  if (product_ == nullptr) {
    Status begun = Begin(library, handle);
    if (GivesUp(begun)) return begun;
    if (!begun.ok()) {
      result_ = Refusing(begun);
      return OkStatus();
    }
  }
  while (proposal_ < proposals_.size() && product_->ConfigurationOf(proposals_[proposal_]).empty()) ++proposal_;
  if (proposal_ == proposals_.size()) {
    result_ = why_;
    return OkStatus();
  }
  product_->algorithm_ = proposals_[proposal_];
  LoadCode();
  done_ = 0, loaded_ = true;
  return OkStatus();
}

// The library loads an algorithm's code when it is first launched. This launch is captured and never runs. If that
// fails, the first run loads the code.
void ProductVerification::LoadCode() const {
  if (cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed) == cudaSuccess) {
    (void)product_->Multiply(product_->heights(), src_.as<float>(), product_->src_stride_, weight_.as<float>(),
                             dst_.as<float>(), product_->dst_stride_, stream_);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    if (cudaStreamEndCapture(stream_, &graph) == cudaSuccess && cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess)
      cudaGraphExecDestroy(exec);
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
  cudaGetLastError();
}

Status ProductVerification::MakeReference() const {
  const int64_t inputs = static_cast<int64_t>(src_.bytes() / sizeof(float));
  const int64_t weights = static_cast<int64_t>(weight_.bytes() / sizeof(float));
  VICINAL_RETURN_IF_ERROR(CudaStatus(LaunchFillNumbers(weight_.as<float>(), weights, stream_), "filling weights"));
  VICINAL_RETURN_IF_ERROR(CudaStatus(LaunchFillNumbers(src_.as<float>(), inputs, stream_), "filling inputs"));
  VICINAL_RETURN_IF_ERROR(product_->Multiply(product_->heights(), src_.as<float>() + kShift * product_->src_stride_,
                                             product_->src_stride_, weight_.as<float>(), reference_.as<float>(),
                                             product_->dst_stride_, stream_));
  return CudaStatus(cudaStreamSynchronize(stream_), "verifying an algorithm of cuBLAS");
}

// The reference starts kShift rows into src.
Status ProductVerification::ExpectSame(const Check& check) const {
  const int64_t src_stride = product_->src_stride_, dst_stride = product_->dst_stride_;
  VICINAL_RETURN_IF_ERROR(product_->Multiply(check.height, src_.as<float>() + check.row * src_stride, src_stride,
                                             weight_.as<float>(), dst_.as<float>(), dst_stride, stream_));
  const int64_t rows = check.height * product_->step(), highest = product_->heights() * product_->step();
  const int64_t begin = check.row - kShift, skipped = begin < 0 ? -begin : 0;
  const int64_t common = std::min(rows, highest - begin) - skipped;
  int differing = 0;
  int* const on_device = differing_.as<int>();
  cudaError_t error = cudaMemsetAsync(on_device, 0, sizeof(int), stream_);
  if (error == cudaSuccess) {
    error = LaunchCountDiffering(reference_.as<float>() + (begin + skipped) * dst_stride,
                                 dst_.as<float>() + skipped * dst_stride, common, out_width_, dst_stride, check.every,
                                 on_device, stream_);
  }
  if (error == cudaSuccess)
    error = cudaMemcpyAsync(&differing, on_device, sizeof(int), cudaMemcpyDeviceToHost, stream_);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream_);
  VICINAL_RETURN_IF_ERROR(CudaStatus(error, "verifying an algorithm of cuBLAS"));
  if (differing == 0) return OkStatus();
  return FailedPrecondition("KERNEL_REFUSED", absl::StrCat("cuBLAS gives ", differing, " elements of ", rows,
                                                           " rows other bits ", check.what));
}

Status ProductVerification::RunCheck() const {
  if (done_ == 0) return MakeReference();
  const Check& check = checks_[done_ - 1];
  if (check.every > 1) {
    VICINAL_RETURN_IF_ERROR(
        CudaStatus(LaunchDisturbRows(src_.as<float>() + kShift * product_->src_stride_,
                                     product_->heights() * product_->step(), product_->src_stride_, stream_),
                   "disturbing rows"));
  }
  return ExpectSame(check);
}

Status ProductVerification::Run() {
  VICINAL_RETURN_IF_ERROR(device_.MakeCurrent());
  Status ran = RunCheck();
  if (GivesUp(ran)) return ran;
  if (!ran.ok()) {
    why_ = Refusing(ran);
    ++proposal_;
    loaded_ = false;
  } else if (++done_ > checks_.size()) {
    Finish();
  }
  return OkStatus();
}

void ProductVerification::Finish() {
  product_->order_ = {static_cast<int64_t>(product_->library_.GetVersion()), limits_.capability,
                      limits_.multiprocessors, product_->step()};
  const std::vector<int64_t> configuration = product_->ConfigurationOf(product_->algorithm_);
  product_->order_.insert(product_->order_.end(), configuration.begin(), configuration.end());
  result_ = std::shared_ptr<const PinnedProduct>(product_);
}

}  // namespace vicinal::cuda
