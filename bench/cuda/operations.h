// SPDX-License-Identifier: Apache-2.0
// What the GPU benchmark measures: operations as GNN layers use them, each over all widths.
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
  kRankOne,  // d_i * d_j: one factor read with the source, one applied at the store, as GCN's normalisation is
};

// Which of the listed peers' columns (listed_peers.h) an operation is held against.
enum class Listed { kSum, kMax, kDot, kGatOneHead, kGatFourHeads, kNothing };

struct Operation {
  std::string_view name;
  Family family = Family::kAggregate;
  Reduce reduce = Reduce::kSum;
  Weights weights = Weights::kNone;
  Storage storage = Storage::kFloat32;  // of the rows that are gathered
  AttentionKind attention = AttentionKind::kGat;
  int64_t heads = 1;        // the width is divided among them
  float self_scale = 0.0f;  // times the row's own source, added to its sum, as in GIN
  Listed listed = Listed::kNothing;

  // cuSPARSE has sums with values (means and rank-1 weights among them) and sampled products; nothing else of this.
  bool has_cusparse() const {
    return family == Family::kEdgeScores ||
           (family == Family::kAggregate && self_scale == 0.0f && (reduce == Reduce::kSum || reduce == Reduce::kMean));
  }
};

std::span<const Operation> AllOperations();
// Those of the names; all for none. INVALID_ARGUMENT, naming the known ones.
StatusOr<std::vector<Operation>> FindOperations(const std::vector<std::string>& names);

}  // namespace vicinal::bench

#endif  // VICINAL_BENCH_CUDA_OPERATIONS_H_
