// SPDX-License-Identifier: Apache-2.0
// The operations of the GPU benchmark, as GNN layers use them; each is measured at all widths.
#ifndef VICINAL_BENCH_CUDA_OPERATIONS_H_
#define VICINAL_BENCH_CUDA_OPERATIONS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/vocabulary.h"

namespace vicinal::bench {

enum class Family { kAggregate, kAttention, kEdgeScores };

enum class Weights {
  kNone,     // every edge counts 1
  kPerEdge,  // a value per edge
  kRankOne,  // d_i * d_j, as in GCN: one factor is read with the source, one applied at the store
};

// The column of the listed peers (listed_peers.h) to which an operation is compared.
enum class Listed { kSum, kMax, kDot, kGatOneHead, kGatFourHeads, kNothing };

struct Operation {
  std::string_view name;
  Family family = Family::kAggregate;
  Reduce reduce = Reduce::kSum;
  Weights weights = Weights::kNone;
  Storage storage = Storage::kFloat32;  // of the gathered rows
  AttentionKind attention = AttentionKind::kGat;
  int64_t heads = 1;        // they divide the width
  float self_scale = 0.0f;  // factor of the row's own source, which is added to the sum, as in GIN
  Listed listed = Listed::kNothing;

  // cuSPARSE has sums with edge values, which include means and rank-1 weights, and sampled products, but no more of
  // these.
  bool has_cusparse() const {
    return family == Family::kEdgeScores ||
           (family == Family::kAggregate && self_scale == 0.0f && (reduce == Reduce::kSum || reduce == Reduce::kMean));
  }
};

std::span<const Operation> AllOperations();
// The named operations; all if there are no names. Errors: INVALID_ARGUMENT, which lists the known names.
StatusOr<std::vector<Operation>> FindOperations(const std::vector<std::string>& names);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_CUDA_OPERATIONS_H_
