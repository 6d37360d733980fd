// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/aggregate/rows/row_finish.cuh"
#include "engine/cuda/common/alignment.h"
#include "engine/cuda/common/larger.cuh"

namespace vicinal::cuda {
namespace {

// What is summed up takes the place of dst; it has rows, but no memory.
void SetProduct(const AggregateArgs& args, RowsParams* params) {
  const int64_t width = args.problem.width;
  params->product = {static_cast<const float4*>(args.weight), static_cast<int>((width + 3) / 4),
                     static_cast<int>(args.problem.out_width), args.dst, args.epilogue};
  params->dst = {nullptr, args.dst.rows, width, 0};
  params->epilogue = args.row_epilogue;
}

}  // namespace

RowsParams RowsParamsOf(const AggregateArgs& args, const LaunchTarget& target) {
  RowsParams params = {};
  params.adjacency = args.adjacency;
  params.weight_of_source = args.adjacency.value == nullptr;
  params.weights = params.weight_of_source ? args.src_scale : args.adjacency.value;
  params.src = SourceRowsOf(args);
  params.src_stride_bytes = static_cast<uint32_t>(params.src.stride * params.src.element_bytes());
  params.dst = args.dst;
  params.epilogue = args.epilogue;
  if (args.problem.out_width > 0) SetProduct(args, &params);
  params.overlap = target.overlap;
  params.reduce = args.problem.reduce;
  params.self_scale = args.self_scale;
  params.extremum = IsExtreme(params.reduce);
  const Epilogue& epilogue = params.epilogue;
  const bool whole = params.dst.cols % (kPackBytes / params.src.element_bytes()) == 0;
  params.vector_store = whole && InPacks(params.dst);
  params.vector_residual = whole && InPacks(epilogue.residual);
  params.scaled = params.extremum || params.reduce == Reduce::kMean || params.self_scale != 0.0f ||
                  epilogue.scale != 1.0f || epilogue.row_scale != nullptr;
  params.simple =
      params.self_scale == 0.0f && epilogue.residual.empty() &&
      (epilogue.activation.kind == ActivationKind::kNone || epilogue.activation.kind == ActivationKind::kRelu);
  return params;
}

}  // namespace vicinal::cuda
