// SPDX-License-Identifier: Apache-2.0
// The launcher of source_panels: chooses the groups of lanes from the width, copies the sources if needed, sums the
// pieces, then finishes the rows.
#include <algorithm>

#include "engine/cuda/aggregate/rows/finish_rows.h"
#include "engine/cuda/aggregate/source_panels/detail/source_panels.cuh"
#include "engine/cuda/common/alignment.h"

namespace vicinal::cuda {
namespace {

using panels::kMaxWarps;
using panels::kPanelBytes;
using panels::kVec;
using panels::Panel;
using panels::PanelParams;
using panels::Reduction;

constexpr int kMaxPlaces = 512;

int GroupsFor(int64_t width) { return width > 64 ? 1 : width > 32 ? 2 : width > 16 ? 4 : 8; }

struct ScratchPlan {
  int64_t stride, sums_bytes, bytes;

  ScratchPlan(const AggregateProblem& problem, const PanelShape& shape) {
    stride = RoundUp(problem.width, kWarpLanes / shape.groups * kVec);
    sums_bytes = MaxPanelPieces(problem.rows, shape) * shape.rows() * stride * int64_t{sizeof(float)};
    bytes = sums_bytes + problem.cols * stride * int64_t{sizeof(float)};
  }
};

// The arguments of a launch that are not template parameters.
struct PanelLaunch {
  const PanelParams& params;
  const PanelShape& shape;
  int64_t pieces;
  const LaunchTarget& target;
};

template <class P>
cudaError_t LaunchPanel(const PanelLaunch& launch) {
  const int bytes = panels::Shared::Bytes(launch.shape);
  const cudaError_t error = AllowShared(panels::SumPanels<P>, bytes, launch.target.limits);
  if (error != cudaSuccess) return error;
  const dim3 grid(static_cast<unsigned>(launch.pieces),
                  static_cast<unsigned>((launch.params.columns + P::kTile - 1) / P::kTile));
  panels::SumPanels<P><<<grid, launch.shape.warps * kWarpLanes, bytes, launch.target.stream>>>(launch.params);
  return cudaGetLastError();
}

template <class Element, Reduction kReduction>
cudaError_t LaunchGroups(const PanelLaunch& launch) {
  switch (launch.shape.groups) {
    case 1:
      return LaunchPanel<Panel<Element, 1, kReduction>>(launch);
    case 2:
      return LaunchPanel<Panel<Element, 2, kReduction>>(launch);
    case 4:
      return LaunchPanel<Panel<Element, 4, kReduction>>(launch);
    default:
      return LaunchPanel<Panel<Element, 8, kReduction>>(launch);
  }
}

template <class Element>
cudaError_t LaunchReduction(Reduction reduction, const PanelLaunch& launch) {
  switch (reduction) {
    case Reduction::kSum:
      return LaunchGroups<Element, Reduction::kSum>(launch);
    case Reduction::kWeightedSum:
      return LaunchGroups<Element, Reduction::kWeightedSum>(launch);
    case Reduction::kMax:
      return LaunchGroups<Element, Reduction::kMax>(launch);
  }
  return cudaErrorInvalidValue;
}

cudaError_t LaunchStorage(Storage storage, Reduction reduction, const PanelLaunch& launch) {
  if (storage == Storage::kBfloat16) return LaunchReduction<Bfloat16>(reduction, launch);
  if (storage == Storage::kFloat16) return LaunchReduction<Float16>(reduction, launch);
  return LaunchReduction<float>(reduction, launch);
}

}  // namespace

PanelShape PanelShapeFor(const AggregateProblem& problem, int warps, int uses, const GpuLimits& limits) {
  PanelShape shape;
  shape.warps = warps == kMaxWarps / 2 ? warps : kMaxWarps;
  shape.groups = GroupsFor(problem.width);
  // More places would make too few panels to distribute.
  shape.places = std::min(kMaxPlaces, kPanelBytes / shape.pitch()) * shape.warps / kMaxWarps;
  shape.uses = uses > 0 ? std::min(uses, kMaxUses) : 8;
  // Source ids are copied four at a time.
  while (!limits.Fits(panels::Shared::Bytes(shape)) && shape.places > 8) shape.places -= 8;
  shape.multiprocessors = limits.multiprocessors;
  return shape;
}

size_t SourcePanelsScratchBytes(const AggregateProblem& problem, const PanelShape& shape) {
  return static_cast<size_t>(ScratchPlan(problem, shape).bytes);
}

cudaError_t LaunchSourcePanels(const AggregateArgs& args, const SourcePanelsLayout& layout, const PanelShape& shape,
                               const LaunchTarget& target, void* scratch) {
  if (args.dst.rows == 0 || args.dst.cols == 0) return cudaSuccess;
  const ScratchPlan plan(args.problem, shape);
  float* const sums = static_cast<float*>(scratch);
  SourceRows rows = SourceRowsOf(args);
  if (args.src_scale != nullptr || !InPacks(rows)) {
    const MatrixView copy = {sums + plan.sums_bytes / sizeof(float), args.problem.cols, args.problem.width,
                             plan.stride};
    const cudaError_t error = LaunchCopySources(args, copy, target);
    if (error != cudaSuccess) return error;
    rows = {copy.data, copy.stride, Storage::kFloat32};
  }
  const bool extremum = IsExtreme(args.problem.reduce);
  const bool weighted = args.adjacency.value != nullptr;
  const Reduction reduction = extremum ? Reduction::kMax : weighted ? Reduction::kWeightedSum : Reduction::kSum;
  const PanelParams params = {layout.source(),
                              layout.cell(),
                              layout.stream(),
                              layout.weight(),
                              layout.pieces(),
                              layout.begin(),
                              layout.row(),
                              shape.places,
                              static_cast<const char*>(rows.data),
                              rows.stride * rows.element_bytes(),
                              static_cast<int>(args.dst.cols),
                              sums,
                              plan.stride,
                              args.problem.reduce == Reduce::kMin ? -1.0f : 1.0f};
  if (layout.num_pieces() > 0) {
    const cudaError_t error = LaunchStorage(rows.storage, reduction, {params, shape, layout.num_pieces(), target});
    if (error != cudaSuccess) return error;
  }
  const RowPieces pieces = {sums, layout.first_piece(), shape.rows(), static_cast<int32_t>(plan.stride)};
  return LaunchFinishRows(args, nullptr, 0, pieces, {}, target);
}

}  // namespace vicinal::cuda
