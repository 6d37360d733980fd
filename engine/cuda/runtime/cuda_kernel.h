// SPDX-License-Identifier: Apache-2.0
// Base classes of CUDA kernels: name, device, and a Run() that prepares the context, launches, and converts the error
// to a Status.
#ifndef VICINAL_ENGINE_CUDA_RUNTIME_CUDA_KERNEL_H_
#define VICINAL_ENGINE_CUDA_RUNTIME_CUDA_KERNEL_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/cuda/common/alignment.h"
#include "engine/cuda/runtime/cuda_device.h"
#include "engine/cuda/runtime/cuda_error.h"
#include "engine/kernels/kernel.h"

namespace vicinal::cuda {

// Maximum width: kernels count columns in 32 bits.
inline constexpr int64_t kMaxWidth = int64_t{1} << 20;
inline Refusal WhyWidthUnsupported(int64_t width) {
  return width > kMaxWidth ? absl::StrCat("only widths up to ", kMaxWidth, "; this is ", width) : Refusal();
}
// Maximum rows, or cells of long rows, of a grid.
inline constexpr int64_t kMaxItems = int64_t{1} << 31;
// Minimum edges per block, for grids whose blocks are counted by edges.
inline constexpr int64_t kMinBlockEdges = 32;
inline Refusal WhySizeUnsupported(int64_t rows, int64_t edges, int64_t width) {
  if (Refusal refusal = WhyWidthUnsupported(width); !refusal.empty()) return refusal;
  if (rows < kMaxItems && edges / kMinBlockEdges < kMaxItems) return {};
  return "only graphs of fewer than 2^31 rows and 2^36 edges";
}

// Base is AggregateKernel, AttentionKernel, ...
template <class Base>
class CudaKernel : public Base {
 public:
  using typename Base::Args;
  using typename Base::Problem;

  explicit CudaKernel(std::string name) : name_(std::move(name)) {}
  std::string_view name() const override { return name_; }
  DeviceKind device() const override { return DeviceKind::kCuda; }
  Refusal WhyUnsupported(const Problem&) const override { return {}; }

  Status Run(DeviceContext& context, const Args& args, void* scratch) const final {
    CudaContext& cuda = static_cast<CudaContext&>(context);
    VICINAL_RETURN_IF_ERROR(cuda.Prepare());
    return CudaStatus(Launch(args, cuda.target(), scratch), name_);
  }

 protected:
  virtual cudaError_t Launch(const Args& args, const LaunchTarget& target, void* scratch) const = 0;

 private:
  const std::string name_;
};

// Packs weights W [H, F] as their transpose, with rows padded to PackedStride(H).
template <class Base>
class CudaWeightedKernel : public CudaKernel<Base> {
 public:
  using CudaKernel<Base>::CudaKernel;

  size_t PackedBytes(int64_t out_width, int64_t in_width) const override {
    return static_cast<size_t>(PackedStride(out_width) * in_width) * sizeof(float);
  }
  void Pack(ConstMatrixView weight, void* packed) const override {
    float* out = static_cast<float*>(packed);
    const int64_t stride = PackedStride(weight.rows);
    std::memset(out, 0, PackedBytes(weight.rows, weight.cols));
    for (int64_t h = 0; h < weight.rows; ++h) {
      for (int64_t f = 0; f < weight.cols; ++f) out[f * stride + h] = weight.row(h)[f];
    }
  }
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_RUNTIME_CUDA_KERNEL_H_
