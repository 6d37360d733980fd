// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/aggregate/rows/row_finish.cuh"
#include "engine/cuda/common/alignment.h"
#include "engine/cuda/common/larger.cuh"

namespace vicinal::cuda {
namespace {

// With a product, out->dst gets the shape of the sums to multiply, and a null pointer.
void SetProduct(const AggregateArgs& args, RowsEpilogue* out) {
  const int64_t width = args.problem.width;
  out->product = {static_cast<const float4*>(args.weight), static_cast<int>((width + 3) / 4),
                  static_cast<int>(args.problem.out_width), args.dst, args.epilogue};
  out->dst = {nullptr, args.dst.rows, width, 0};
  out->epilogue = args.row_epilogue;
}

}  // namespace

RowsParams RowsParamsOf(const AggregateArgs& args) {
  RowsParams params = {};
  params.work.adjacency = args.adjacency;
  RowsSource& source = params.source;
  source.weights_of = args.adjacency.value == nullptr ? WeightsOf::kSources : WeightsOf::kEdges;
  source.weights = source.weights_of == WeightsOf::kSources ? args.src_scale : args.adjacency.value;
  source.rows = SourceRowsOf(args);
  source.stride_bytes = static_cast<uint32_t>(source.rows.stride * source.rows.element_bytes());
  RowsEpilogue& out = params.out;
  out.dst = args.dst;
  out.epilogue = args.epilogue;
  if (args.problem.out_width > 0) SetProduct(args, &out);
  out.reduce = args.problem.reduce;
  out.self_scale = args.self_scale;
  const bool whole = out.dst.cols % (kPackBytes / source.rows.element_bytes()) == 0;
  out.dst_access = PacksIf(whole && InPacks(out.dst));
  out.residual_access = PacksIf(whole && InPacks(out.epilogue.residual));
  out.combine = IsExtreme(out.reduce) ? Combine::kLarger : Combine::kAdd;
  const bool scaled = out.extremum() || out.reduce == Reduce::kMean || out.self_scale != 0.0f ||
                      out.epilogue.scale != 1.0f || out.epilogue.row_scale != nullptr;
  out.scaling = scaled ? Scaling::kScaled : Scaling::kNone;
  return params;
}

}  // namespace vicinal::cuda
