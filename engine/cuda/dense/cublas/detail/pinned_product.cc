// SPDX-License-Identifier: Apache-2.0
// cuBLASLt is column-major. To it, the packed weights [H, F] are an F x H matrix, the rows of src are columns of length
// F, and the rows of dst are columns of length H: dst^T = W * src^T, with the weights transposed.
#include "engine/cuda/dense/cublas/detail/pinned_product.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/cuda/common/alignment.h"
#include "engine/cuda/dense/cublas/detail/panel_passes.h"
#include "engine/cuda/runtime/cuda_error.h"

namespace vicinal::cuda {
namespace {

constexpr float kOne = 1.0f, kZero = 0.0f;
constexpr int kProposals = 16;
// Extra rows before and after a panel, for comparisons at other positions.
constexpr int64_t kShift = 131;

// A matrix as the library describes it. Owns the descriptor.
class Layout {
 public:
  Layout(const CublasLibrary& library, int64_t rows, int64_t cols, int64_t stride)
      : library_(library),
        status_(library.MatrixLayoutCreate(&layout_, CUDA_R_32F, static_cast<uint64_t>(rows),
                                           static_cast<uint64_t>(cols), stride)) {}
  ~Layout() {
    if (layout_ != nullptr) library_.MatrixLayoutDestroy(layout_);
  }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  Status status() const { return library_.StatusOf(status_, "cublasLtMatrixLayoutCreate"); }
  cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  const CublasLibrary& library_;
  cublasLtMatrixLayout_t layout_ = nullptr;
  const cublasStatus_t status_;
};

}  // namespace

// Test data for verifying an algorithm: inputs [2 * kShift + rows of the highest panel], weights, and two sets of
// outputs of the highest panel.
struct PinnedProduct::Trial {
  Buffer src, weight, reference, dst, differing;
  cudaStream_t stream = nullptr;

  ~Trial() {
    if (stream != nullptr) cudaStreamDestroy(stream);
  }
  Status Make(const PinnedProduct& product, Device& device) {
    const int64_t rows = product.heights_ * product.step_;
    const auto floats = [&](int64_t count) { return device.Allocate(static_cast<size_t>(count) * sizeof(float)); };
    const int64_t inputs = (rows + 2 * kShift) * product.src_stride_, outputs = rows * product.dst_stride_;
    const int64_t weights = product.out_width_ * product.src_stride_;
    VICINAL_ASSIGN_OR_RETURN(src, floats(inputs));
    VICINAL_ASSIGN_OR_RETURN(weight, floats(weights));
    VICINAL_ASSIGN_OR_RETURN(reference, floats(outputs));
    VICINAL_ASSIGN_OR_RETURN(dst, floats(outputs));
    VICINAL_ASSIGN_OR_RETURN(differing, floats(1));
    VICINAL_RETURN_IF_ERROR(CudaStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream"));
    return CudaStatus(LaunchFillNumbers(weight.as<float>(), weights, stream), "filling weights");
  }
};

PinnedProduct::~PinnedProduct() {
  if (product_ != nullptr) library_.MatmulDescDestroy(product_);
}

Status PinnedProduct::Describe(int64_t in_width, int64_t out_width, const GpuLimits& limits) {
  in_width_ = in_width, out_width_ = out_width;
  step_ = PanelStep(limits), heights_ = PanelHeights(in_width, limits);
  src_stride_ = PackedStride(in_width), dst_stride_ = PackedStride(out_width);
  VICINAL_RETURN_IF_ERROR(library_.StatusOf(
      library_.MatmulDescCreate(&product_, CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F), "cublasLtMatmulDescCreate"));
  const cublasOperation_t transposed = CUBLAS_OP_T;
  return library_.StatusOf(
      library_.MatmulDescSetAttribute(product_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed)),
      "cublasLtMatmulDescSetAttribute");
}

StatusOr<std::vector<cublasLtMatmulAlgo_t>> PinnedProduct::Proposals() const {
  const int64_t rows = heights_ * step_;
  const Layout a(library_, in_width_, out_width_, src_stride_), b(library_, in_width_, rows, src_stride_),
      d(library_, out_width_, rows, dst_stride_);
  for (const Layout* layout : {&a, &b, &d}) VICINAL_RETURN_IF_ERROR(layout->status());
  cublasLtMatmulPreference_t preference = nullptr;
  VICINAL_RETURN_IF_ERROR(library_.StatusOf(library_.PreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate"));
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    if (status == CUBLAS_STATUS_SUCCESS)
      status = library_.PreferenceSetAttribute(preference, attribute, &value, sizeof(value));
  };
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE});
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{0});
  for (const auto alignment :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(alignment, uint32_t{kPackBytes});
  }
  cublasLtMatmulHeuristicResult_t results[kProposals];
  int count = 0;
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = library_.AlgoGetHeuristic(handle_, product_, a.get(), b.get(), d.get(), d.get(), preference, kProposals,
                                       results, &count);
  }
  library_.PreferenceDestroy(preference);
  VICINAL_RETURN_IF_ERROR(library_.StatusOf(status, "cublasLtMatmulAlgoGetHeuristic"));
  std::vector<cublasLtMatmulAlgo_t> proposals;
  for (int i = 0; i < count; ++i) {
    if (results[i].state == CUBLAS_STATUS_SUCCESS && results[i].workspaceSize == 0)
      proposals.push_back(results[i].algo);
  }
  return proposals;
}

std::vector<int64_t> PinnedProduct::ConfigurationOf(const cublasLtMatmulAlgo_t& algorithm) const {
  std::vector<int64_t> configuration;
  // Values have 32 bits, the last two 16: bits that are not written stay zero.
  const auto get = [&](cublasLtMatmulAlgoConfigAttributes_t attribute, size_t bytes) {
    uint32_t value = 0;
    size_t written = 0;
    library_.AlgoConfigGetAttribute(&algorithm, attribute, &value, bytes, &written);
    configuration.push_back(value);
    return value;
  };
  get(CUBLASLT_ALGO_CONFIG_ID, 4);
  get(CUBLASLT_ALGO_CONFIG_TILE_ID, 4);
  get(CUBLASLT_ALGO_CONFIG_STAGES_ID, 4);
  if (get(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4) > 1) return {};
  if (get(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4) != CUBLASLT_REDUCTION_SCHEME_NONE) return {};
  get(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4);
  get(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 4);
  get(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 2);
  get(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2);
  return configuration;
}

Status PinnedProduct::Multiply(int height, const float* src, int64_t src_stride, const float* weight, float* dst,
                               int64_t dst_stride, cudaStream_t stream) const {
  const int64_t rows = height * step_;
  const Layout a(library_, in_width_, out_width_, src_stride_), b(library_, in_width_, rows, src_stride),
      d(library_, out_width_, rows, dst_stride);
  for (const Layout* layout : {&a, &b, &d}) VICINAL_RETURN_IF_ERROR(layout->status());
  return library_.StatusOf(library_.Matmul(handle_, product_, &kOne, weight, a.get(), src, b.get(), &kZero, dst,
                                           d.get(), dst, d.get(), &algorithm_, nullptr, 0, stream),
                           "cublasLtMatmul");
}

// Multiplies `height` steps of rows from row `row` on. Compares every `every`-th row with the same row of the
// reference, which starts kShift rows into src.
Status PinnedProduct::ExpectSame(const Trial& trial, int height, int64_t row, int every, const char* what) const {
  VICINAL_RETURN_IF_ERROR(Multiply(height, trial.src.as<float>() + row * src_stride_, src_stride_,
                                   trial.weight.as<float>(), trial.dst.as<float>(), dst_stride_, trial.stream));
  const int64_t rows = height * step_, begin = row - kShift;
  const int64_t skipped = begin < 0 ? -begin : 0, common = std::min(rows, heights_ * step_ - begin) - skipped;
  int differing = 0;
  int* const on_device = trial.differing.as<int>();
  cudaError_t error = cudaMemsetAsync(on_device, 0, sizeof(int), trial.stream);
  if (error == cudaSuccess) {
    error = LaunchCountDiffering(trial.reference.as<float>() + (begin + skipped) * dst_stride_,
                                 trial.dst.as<float>() + skipped * dst_stride_, common, out_width_, dst_stride_, every,
                                 on_device, trial.stream);
  }
  if (error == cudaSuccess)
    error = cudaMemcpyAsync(&differing, on_device, sizeof(int), cudaMemcpyDeviceToHost, trial.stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(trial.stream);
  VICINAL_RETURN_IF_ERROR(CudaStatus(error, "verifying an algorithm of cuBLAS"));
  if (differing == 0) return OkStatus();
  return FailedPrecondition("KERNEL_REFUSED",
                            absl::StrCat("cuBLAS gives ", differing, " elements of ", rows, " rows other bits ", what));
}

Status PinnedProduct::Verify(const Trial& trial) const {
  const int64_t highest = heights_ * step_;
  float* const src = trial.src.as<float>();
  VICINAL_RETURN_IF_ERROR(
      CudaStatus(LaunchFillNumbers(src, (highest + 2 * kShift) * src_stride_, trial.stream), "filling inputs"));
  VICINAL_RETURN_IF_ERROR(Multiply(heights_, trial.src.as<float>() + kShift * src_stride_, src_stride_,
                                   trial.weight.as<float>(), trial.reference.as<float>(), dst_stride_, trial.stream));
  VICINAL_RETURN_IF_ERROR(ExpectSame(trial, heights_, kShift, 1, "in another run"));
  for (int height = 1; height < heights_; ++height) {
    VICINAL_RETURN_IF_ERROR(ExpectSame(trial, height, kShift, 1, "at another height"));
  }
  for (const int64_t row : {int64_t{0}, int64_t{1}, kShift - 1, kShift + 1, 2 * kShift}) {
    VICINAL_RETURN_IF_ERROR(ExpectSame(trial, heights_, row, 1, "at another position"));
    VICINAL_RETURN_IF_ERROR(ExpectSame(trial, 1, row, 1, "at another position"));
  }
  VICINAL_RETURN_IF_ERROR(
      CudaStatus(LaunchDisturbRows(src + kShift * src_stride_, highest, src_stride_, trial.stream), "disturbing rows"));
  return ExpectSame(trial, heights_, kShift, 2, "beside rows that are not finite");
}

StatusOr<std::shared_ptr<const PinnedProduct>> PinnedProduct::Pin(const CublasLibrary& library, cublasLtHandle_t handle,
                                                                  int64_t in_width, int64_t out_width,
                                                                  const GpuLimits& limits, Device& device) {
  std::shared_ptr<PinnedProduct> product(new PinnedProduct(library, handle));
  VICINAL_RETURN_IF_ERROR(product->Describe(in_width, out_width, limits));
  VICINAL_ASSIGN_OR_RETURN(const std::vector<cublasLtMatmulAlgo_t> proposals, product->Proposals());
  Trial trial;
  VICINAL_RETURN_IF_ERROR(trial.Make(*product, device));
  Status status = FailedPrecondition(
      "KERNEL_REFUSED", absl::StrCat("cuBLAS proposes no algorithm that adds a row's products in one chain for ",
                                     in_width, " inputs and ", out_width, " outputs"));
  for (const cublasLtMatmulAlgo_t& algorithm : proposals) {
    const std::vector<int64_t> configuration = product->ConfigurationOf(algorithm);
    if (configuration.empty()) continue;
    product->algorithm_ = algorithm;
    status = product->Verify(trial);
    if (!status.ok()) continue;
    product->order_ = {static_cast<int64_t>(library.GetVersion()), limits.capability, limits.multiprocessors,
                       product->step_};
    product->order_.insert(product->order_.end(), configuration.begin(), configuration.end());
    return std::shared_ptr<const PinnedProduct>(std::move(product));
  }
  return status;
}

}  // namespace vicinal::cuda
