// SPDX-License-Identifier: Apache-2.0
// cublas: the vendor's product as a kernel of the operation dense_update, float32 throughout.
//
// Idea. A row's bits must not depend on the number of rows, its position or the other rows. cuBLASLt selects kernels by
// shape, so it must not select again at run time: for each pair of widths, one algorithm is pinned and verified
// (detail/verify_product.h), and rows are multiplied in panels of fixed heights. The last panel is the lowest that
// holds the remaining rows. If there are enough rows it starts earlier and overlaps the previous panel; rows in both
// have equal bits. Rows that are not aligned to 16 bytes, or fewer than the lowest panel, are first copied to scratch
// memory. The epilogue is a pass over each panel while it is in the L2.
//
// The id of the order contains everything that NVIDIA's guarantee of equal bits depends on, so another version of the
// library, or another GPU, gives a new numerics revision.
//
// Who asks for widths that are not verified yet waits for the library and the verification. Tuning prepares them
// between requests (Prepare). Runs, and whoever asks for widths that are verified, wait for neither. What came of it is
// kept for the process, except that a lack of memory passes (detail/cublas_products.h).
//
// Traffic: src once, dst once, the weights once per panel and tile.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/base/error.h"
#include "engine/cuda/common/alignment.h"
#include "engine/cuda/dense/cublas/detail/cublas_library.h"
#include "engine/cuda/dense/cublas/detail/cublas_products.h"
#include "engine/cuda/dense/cublas/detail/panel_passes.h"
#include "engine/cuda/dense/cublas/detail/pinned_product.h"
#include "engine/cuda/dense/cublas/detail/verify_product.h"
#include "engine/cuda/runtime/cuda_device.h"
#include "engine/cuda/runtime/cuda_error.h"
#include "engine/cuda/runtime/relaxed_capture.h"
#include "engine/kernels/registry.h"

namespace vicinal::cuda {
namespace {

// Verifying wider products would take panels of hundreds of megabytes.
constexpr int64_t kMaxInputs = 2048, kMaxOutputs = 1024;

// Measured on an H100, it is faster from about 150,000 rows on, and at best 0.78 times as fast below 100,000
// (docs/notebook/dense_products_gpu.md).
constexpr int64_t kRowsToTry = int64_t{1} << 16;

using Pinned = CublasProducts::Pinned;
using Widths = CublasProducts::Widths;

class CublasKernel final : public DenseUpdateKernel {
 public:
  // `device` must outlive every call, but not the kernel itself. Null: there is no device.
  explicit CublasKernel(CudaDevice* device)
      : device_(device),
        limits_(device != nullptr ? device->limits() : GpuLimits()),
        products_({[this] { return Load(); },
                   [this](const LoadedCublas& cublas, const Widths& widths) { return VerifyAtOnce(cublas, widths); }},
                  Clock::Real()) {}

  std::string_view name() const override { return "cublas"; }
  DeviceKind device() const override { return DeviceKind::kCuda; }
  Refusal WhyUnfit() const override { return CublasProducts::RefusalOf(products_.Load().status()); }
  Refusal WhyUnsupported(const DenseUpdateProblem& problem) const override {
    if (Refusal refusal = WhyUnfit(); !refusal.empty()) return refusal;
    if (Refusal refusal = WhyOutside(problem); !refusal.empty()) return refusal;
    return CublasProducts::RefusalOf(PinnedFor(problem).status());
  }
  // Without loading the library and verifying an algorithm.
  Refusal WhyNotTried(const DenseUpdateProblem& problem) const override {
    if (Refusal refusal = WhyOutside(problem); !refusal.empty()) return refusal;
    if (problem.rows >= kRowsToTry) return {};
    return absl::StrCat("not tried below ", kRowsToTry, " rows, where it is slower; these are ", problem.rows);
  }
  std::unique_ptr<KernelPreparation> Prepare(const DenseUpdateProblem& problem) const override {
    if (device_ == nullptr || !WhyOutside(problem).empty() || products_.IsSettled(WidthsOf(problem))) return nullptr;
    return std::make_unique<Preparation>(*this, WidthsOf(problem));
  }
  DeclaredOrder declared_order() const override { return {"cublas_products", 1}; }
  std::vector<int64_t> OrderParameters(const DenseUpdateProblem& problem, const KernelConfig&) const override {
    const StatusOr<Pinned> pinned = PinnedFor(problem);
    return pinned.ok() ? (*pinned)->order() : std::vector<int64_t>();
  }
  // W [H, F] as it is, rows padded to PackedStride(F).
  size_t PackedBytes(int64_t out_width, int64_t in_width) const override {
    return static_cast<size_t>(out_width * PackedStride(in_width)) * sizeof(float);
  }
  void Pack(ConstMatrixView weight, void* packed) const override {
    float* const out = static_cast<float*>(packed);
    const int64_t stride = PackedStride(weight.cols);
    std::fill(out, out + weight.rows * stride, 0.0f);
    for (int64_t h = 0; h < weight.rows; ++h) std::copy_n(weight.row(h), weight.cols, out + h * stride);
  }
  // The lowest panel of inputs and the highest of outputs.
  size_t ScratchBytes(const DenseUpdateProblem& problem, const KernelConfig&, int) const override {
    const int64_t step = PanelStep(limits_), highest = PanelHeights(problem.in_width, limits_) * step;
    return static_cast<size_t>(step * PackedStride(problem.in_width) + highest * PackedStride(problem.out_width)) *
           sizeof(float);
  }

  Status Run(DeviceContext& context, const DenseUpdateArgs& args, void* scratch) const override {
    CudaContext& cuda = static_cast<CudaContext&>(context);
    VICINAL_RETURN_IF_ERROR(cuda.Prepare());
    if (args.dst.rows == 0 || args.dst.cols == 0) return OkStatus();
    VICINAL_ASSIGN_OR_RETURN(const Pinned pinned, PinnedFor(args.problem));
    const int64_t step = pinned->step();
    const bool copied = !InPacks(args.src) || args.dst.rows < step;
    const int64_t most = copied ? 1 : pinned->heights();
    for (int64_t done = 0; done < args.dst.rows;) {
      const int64_t left = args.dst.rows - done;
      int64_t steps = std::min(most, (left + step - 1) / step);
      if (!copied) steps = std::min(steps, args.dst.rows / step);  // no panel may extend beyond the last row
      const int height = static_cast<int>(steps);
      const int64_t fresh = std::min(left, height * step);
      VICINAL_RETURN_IF_ERROR(MultiplyPanel(*pinned, args, {done, fresh, height, copied}, cuda.target().stream,
                                            static_cast<float*>(scratch)));
      done += fresh;
    }
    return OkStatus();
  }

 private:
  // Rows [first, first + count), at most as many as a panel of `height` steps has.
  struct Panel {
    int64_t first, count;
    int height;
    bool copied;  // copied to scratch memory first
  };

  static Status MultiplyPanel(const PinnedProduct& pinned, const DenseUpdateArgs& args, const Panel& panel,
                              cudaStream_t stream, float* scratch) {
    const int64_t src_stride = PackedStride(args.src.cols), dst_stride = PackedStride(args.dst.cols);
    const int64_t rows = panel.height * pinned.step();
    float* const products = scratch + pinned.step() * src_stride;
    // The panel's first row, moved back if that fills the panel with valid rows.
    const int64_t first = panel.copied ? panel.first : std::min(panel.first, args.dst.rows - rows);
    const float* src = args.src.row(first);
    int64_t stride = args.src.stride;
    if (panel.copied) {
      const size_t width = static_cast<size_t>(args.src.cols) * sizeof(float);
      VICINAL_RETURN_IF_ERROR(
          CudaStatus(cudaMemcpy2DAsync(scratch, src_stride * sizeof(float), src, stride * sizeof(float), width,
                                       static_cast<size_t>(panel.count), cudaMemcpyDeviceToDevice, stream),
                     "cublas"));
      src = scratch, stride = src_stride;
    }
    const auto* const weight = static_cast<const float*>(args.weight);
    const bool whole = !panel.copied || panel.count == rows;
    if (whole && args.epilogue.IsPlain() && InPacks(args.dst))
      return pinned.Multiply(panel.height, src, stride, weight, args.dst.row(first), args.dst.stride, stream);
    VICINAL_RETURN_IF_ERROR(pinned.Multiply(panel.height, src, stride, weight, products, dst_stride, stream));
    return CudaStatus(LaunchFinishPanel(args, panel.first, panel.count, products + (panel.first - first) * dst_stride,
                                        dst_stride, stream),
                      "cublas");
  }

  static Refusal WhyOutside(const DenseUpdateProblem& problem) {
    if (problem.precision != ProductPrecision::kFloat32) return "only float32 products";
    if (problem.in_width <= kMaxInputs && problem.out_width <= kMaxOutputs) return {};
    return absl::StrCat("only up to ", kMaxInputs, " inputs and ", kMaxOutputs, " outputs; these are ",
                        problem.in_width, " and ", problem.out_width);
  }

  static Widths WidthsOf(const DenseUpdateProblem& problem) { return {problem.in_width, problem.out_width}; }

  // Verifies an algorithm, and has the kernel remember the result.
  class Preparation final : public KernelPreparation {
   public:
    Preparation(const CublasKernel& kernel, const Widths& widths)
        : kernel_(kernel),
          widths_(widths),
          verification_(widths.first, widths.second, kernel.limits_, kernel.device_) {}
    int64_t bytes() const override { return verification_.bytes(); }
    Part next() const override { return unfit_ ? Part::kDone : verification_.next(); }
    Status Load() override {
      const StatusOr<LoadedCublas> loaded = kernel_.products_.LoadToTune();
      if (loaded.ok()) return Remembered(verification_.Load(*loaded->library, loaded->handle));
      unfit_ = loaded.status().code() == StatusCode::kFailedPrecondition;
      return unfit_ ? OkStatus() : loaded.status();
    }
    Status Run() override { return Remembered(verification_.Run()); }

   private:
    Status Remembered(Status status) {
      if (verification_.next() == Part::kDone) kernel_.products_.Remember(widths_, verification_.result());
      return status;
    }

    const CublasKernel& kernel_;
    const Widths widths_;
    ProductVerification verification_;
    bool unfit_ = false;  // the library cannot be loaded, which WhyUnfit says
  };

  StatusOr<LoadedCublas> Load() const {
    if (device_ == nullptr) return FailedPrecondition("KERNEL_REFUSED", "there is no GPU to verify its algorithms on");
    const RelaxedCapture relaxed;
    std::string why;
    const CublasLibrary* const library = CublasLibrary::Get(&why);
    if (library == nullptr) return FailedPrecondition("KERNEL_REFUSED", why);
    VICINAL_RETURN_IF_ERROR(device_->MakeCurrent());
    VICINAL_ASSIGN_OR_RETURN(const cublasLtHandle_t handle, library->MakeHandle());
    return LoadedCublas{library, handle};
  }
  StatusOr<Pinned> VerifyAtOnce(const LoadedCublas& cublas, const Widths& widths) const {
    ProductVerification verification(widths.first, widths.second, limits_, device_);
    while (verification.next() != KernelPreparation::Part::kDone) {
      const bool load = verification.next() == KernelPreparation::Part::kLoad;
      VICINAL_RETURN_IF_ERROR(load ? verification.Load(*cublas.library, cublas.handle) : verification.Run());
    }
    return verification.result();
  }
  StatusOr<Pinned> PinnedFor(const DenseUpdateProblem& problem) const { return products_.PinnedFor(WidthsOf(problem)); }

  CudaDevice* const device_;
  const GpuLimits limits_;
  // Most servers never need the library, so that it is loaded on first use.
  mutable CublasProducts products_;
};

}  // namespace

void AddCublas(KernelRegistry& registry, CudaDevice* device) {
  registry.dense_update.Add(std::make_unique<CublasKernel>(device));
}

}  // namespace vicinal::cuda
