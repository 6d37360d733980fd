// SPDX-License-Identifier: Apache-2.0
// Factories of the CPU kernels, one per operation and strategy; register_cpu.cc orders them. Private to the CPU
// kernels.
#ifndef VICINAL_ENGINE_KERNELS_CPU_KERNELS_H_
#define VICINAL_ENGINE_KERNELS_CPU_KERNELS_H_

#include <memory>

#include "engine/kernels/kernel.h"

namespace vicinal::internal {

std::unique_ptr<const AggregateKernel> MakeReferenceAggregate();
std::unique_ptr<const AttentionKernel> MakeReferenceAttention();
std::unique_ptr<const MessageReduceKernel> MakeReferenceMessageReduce();
std::unique_ptr<const ExpressionKernel> MakeReferenceExpression();
std::unique_ptr<const EdgeScoresKernel> MakeReferenceEdgeScores();
std::unique_ptr<const DenseUpdateKernel> MakeReferenceDenseUpdate();
std::unique_ptr<const SparseUpdateKernel> MakeReferenceSparseUpdate();
std::unique_ptr<const SparseAggregateUpdateKernel> MakeReferenceSparseAggregateUpdate();
std::unique_ptr<const RowwiseKernel> MakeReferenceRowwise();

std::unique_ptr<const AggregateKernel> MakeSimdAggregate();
std::unique_ptr<const AggregateKernel> MakeTiledAggregate();
std::unique_ptr<const AttentionKernel> MakeSimdAttention();
std::unique_ptr<const MessageReduceKernel> MakeTemplateSpmm();
std::unique_ptr<const ExpressionKernel> MakeEdgeTiles();
std::unique_ptr<const EdgeScoresKernel> MakeTemplateSddmm();
std::unique_ptr<const DenseUpdateKernel> MakeSimdDenseUpdate();
std::unique_ptr<const SparseUpdateKernel> MakeSimdSparseUpdate();
std::unique_ptr<const SparseAggregateUpdateKernel> MakeSimdSparseAggregateUpdate();
std::unique_ptr<const RowwiseKernel> MakeSimdRowwise();

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_KERNELS_CPU_KERNELS_H_
