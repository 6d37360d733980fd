// SPDX-License-Identifier: Apache-2.0
// Dense product with weights, src * W^T, over packed panels ("simd_rows").
//
// Idea: W is packed into panels of 16 outputs, input by input, so that the inner loop streams it. A tile of a few rows
// by 1 to 4 panels stays in registers; one element of src is broadcast to a row of the tile. Bias, residual and
// activation are applied before the one store.
//
// When it wins: always over the reference. A W beyond the caches is streamed once per block of kRowBlock rows.
//
// Bytes moved: rows * (4 F + 4 H) and W, ceil(H / 16) * 64 F, once per block of rows.
//
// Determinism: every element is the sum over blocks of kInputBlock inputs of a chain of multiply-adds in input order,
// in any tile and thread. A row has the same bits alone and in a batch. The blocks also limit the rounding of long
// sums.
//
// Source: register-tiled panel products as in Goto and van de Geijn, "Anatomy of high-performance matrix
// multiplication" (TOMS 2008), without packing the left factor, as rows of features are read only once or twice.
#include <cstring>
#include <memory>

#include "engine/kernels/cpu/kernels.h"
#include "engine/kernels/cpu/work.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/dense_update_simd.cc"
#include "engine/kernels/cpu/simd_targets.h"
#include "hwy/foreach_target.h"
//
#include "engine/kernels/cpu/register_tiles-inl.h"
#include "engine/kernels/cpu/vector-inl.h"

#ifndef VICINAL_ENGINE_KERNELS_CPU_DENSE_UPDATE_ONCE_
#define VICINAL_ENGINE_KERNELS_CPU_DENSE_UPDATE_ONCE_
namespace vicinal::internal {
// Outputs of a panel: the same for all instruction sets, so that packed weights do not depend on the processor.
inline constexpr int64_t kPanel = 16;
// Inputs whose products are summed before they are added to the total.
inline constexpr int64_t kInputBlock = 256;
// Rows that use a group of panels while these are in the near cache.
inline constexpr int64_t kRowBlock = 48;
}  // namespace vicinal::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

inline constexpr int kPanelVectors = static_cast<int>(kPanel / kLanes);

// Rows [row, row + kRows) by panels [panel, panel + kPanels).
template <int kRows, int kPanels>
HWY_NOINLINE void Tile(const DenseUpdateArgs& args, int64_t row, int64_t panel) {
  constexpr int kVectors = kPanels * kPanelVectors;
  const Floats d;
  const int64_t in_width = args.problem.in_width, stride = args.src.stride;
  const float* weights = static_cast<const float*>(args.weight) + panel * kPanel * in_width;
  const float* src = args.src.row(row);
  HWY_ALIGN float total[kLanes * kRows * kVectors];
  VF acc[kRows][kVectors];
  for (int64_t block = 0; block == 0 || block < in_width; block += kInputBlock) {
    VICINAL_UNROLL
    for (int r = 0; r < kRows; ++r) {
      VICINAL_UNROLL
      for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::Zero(d);
    }
    const int64_t end = Smaller(in_width, block + kInputBlock);
    for (int64_t f = block; f < end; ++f) {
      VF b[kVectors];
      VICINAL_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        b[v] =
            hn::LoadU(d, weights + (v / kPanelVectors) * kPanel * in_width + f * kPanel + (v % kPanelVectors) * kLanes);
      }
      VICINAL_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const VF a = hn::Set(d, src[r * stride + f]);
        VICINAL_UNROLL
        for (int v = 0; v < kVectors; ++v) acc[r][v] = hn::MulAdd(a, b[v], acc[r][v]);
      }
    }
    VICINAL_UNROLL
    for (int r = 0; r < kRows; ++r) {
      VICINAL_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        float* sum = total + (r * kVectors + v) * kLanes;
        hn::Store(block == 0 ? acc[r][v] : hn::Add(hn::Load(d, sum), acc[r][v]), d, sum);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      const int64_t col = panel * kPanel + v * kLanes, count = args.dst.cols - col;
      if (count <= 0) break;
      const VF sum = hn::Load(d, total + (r * kVectors + v) * kLanes);
      StoreSome(Finish(sum, args.epilogue, row + r, col, count), args.dst.row(row + r) + col, count);
    }
  }
}

// Rows [begin, end) by kPanels panels: full tiles, then the rest in halves.
template <int kRows, int kPanels>
VICINAL_INLINE void Tiles(const DenseUpdateArgs& args, int64_t begin, int64_t end, int64_t panel) {
  for (; begin + kRows <= end; begin += kRows) Tile<kRows, kPanels>(args, begin, panel);
  if constexpr (kRows > 1) {
    if (begin < end) Tiles<kRows / 2, kPanels>(args, begin, end, panel);
  }
}

template <int kPanels>
HWY_NOINLINE void PanelGroup(const DenseUpdateArgs& args, int64_t begin, int64_t end, int64_t panel) {
  Tiles<TileRows<kPanels>(), kPanels>(args, begin, end, panel);
}

HWY_NOINLINE void DenseUpdateRows(const DenseUpdateArgs& args, int64_t begin, int64_t end) {
  const int64_t panels = DivideUp(args.dst.cols, kPanel);
  for (int64_t block = begin; block < end; block += kRowBlock) {
    const int64_t block_end = Smaller(end, block + kRowBlock);
    ForPanelGroups(panels, [&](auto kPanels, int64_t panel) { PanelGroup<kPanels>(args, block, block_end, panel); });
  }
}

void DenseUpdate(const DenseUpdateArgs& args, ThreadPool* pool) {
  // A core does about 25 multiply-adds per nanosecond.
  const double row_ns = 2 + static_cast<double>(args.problem.in_width) *
                                static_cast<double>(DivideUp(args.dst.cols, kPanel) * kPanel) / 25;
  ForRows(pool, {nullptr, args.dst.rows, 0, row_ns},
          [&](int64_t begin, int64_t end, int) { DenseUpdateRows(args, begin, end); });
}

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vicinal::internal {
namespace {

HWY_EXPORT(DenseUpdate);

class SimdDenseUpdate final : public DenseUpdateKernel {
 public:
  std::string_view name() const override { return "simd_rows"; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return {"panels", 1, true}; }
  Refusal WhyUnsupported(const DenseUpdateProblem&) const override { return {}; }

  // Panels of kPanel outputs, padded with zeros: [ceil(H / kPanel)][F][kPanel].
  size_t PackedBytes(int64_t out_width, int64_t in_width) const override {
    return static_cast<size_t>((out_width + kPanel - 1) / kPanel * kPanel) * static_cast<size_t>(in_width) *
           sizeof(float);
  }
  void Pack(ConstMatrixView weight, void* packed) const override {
    if (weight.rows == 0 || weight.cols == 0) return;
    float* out = static_cast<float*>(packed);
    std::memset(out, 0, PackedBytes(weight.rows, weight.cols));
    for (int64_t h = 0; h < weight.rows; ++h) {
      float* panel = out + h / kPanel * kPanel * weight.cols + h % kPanel;
      for (int64_t f = 0; f < weight.cols; ++f) panel[f * kPanel] = weight.row(h)[f];
    }
  }

  Status Run(DeviceContext& context, const DenseUpdateArgs& args, void*) const override {
    HWY_DYNAMIC_DISPATCH(DenseUpdate)(args, context.thread_pool());
    return OkStatus();
  }
};

}  // namespace

std::unique_ptr<const DenseUpdateKernel> MakeSimdDenseUpdate() { return std::make_unique<SimdDenseUpdate>(); }

}  // namespace vicinal::internal
#endif  // HWY_ONCE
