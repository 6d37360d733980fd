// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda/operations.h"

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal::bench {
namespace {

constexpr Operation Aggregation(std::string_view name, Reduce reduce, Weights weights, Storage storage, Listed listed) {
  Operation operation;
  operation.name = name;
  operation.reduce = reduce;
  operation.weights = weights;
  operation.storage = storage;
  operation.listed = listed;
  return operation;
}

constexpr Operation SumWithSelf(std::string_view name) {
  Operation operation;
  operation.name = name;
  operation.self_scale = 1.5f;
  return operation;
}

constexpr Operation Attention(std::string_view name, AttentionKind kind, int64_t heads, Listed listed) {
  Operation operation;
  operation.name = name;
  operation.family = Family::kAttention;
  operation.attention = kind;
  operation.heads = heads;
  operation.listed = listed;
  return operation;
}

constexpr Operation EdgeProduct(std::string_view name) {
  Operation operation;
  operation.name = name;
  operation.family = Family::kEdgeScores;
  operation.listed = Listed::kDot;
  return operation;
}

constexpr Operation kOperations[] = {
    Aggregation("sum_weighted", Reduce::kSum, Weights::kPerEdge, Storage::kFloat32, Listed::kSum),
    Aggregation("sum", Reduce::kSum, Weights::kNone, Storage::kFloat32, Listed::kSum),
    Aggregation("sum_rank_1", Reduce::kSum, Weights::kRankOne, Storage::kFloat32, Listed::kSum),
    SumWithSelf("sum_self"),
    Aggregation("mean", Reduce::kMean, Weights::kNone, Storage::kFloat32, Listed::kSum),
    Aggregation("max", Reduce::kMax, Weights::kNone, Storage::kFloat32, Listed::kMax),
    Aggregation("min", Reduce::kMin, Weights::kNone, Storage::kFloat32, Listed::kMax),
    Aggregation("sum_weighted_bf16", Reduce::kSum, Weights::kPerEdge, Storage::kBfloat16, Listed::kNothing),
    Aggregation("sum_bf16", Reduce::kSum, Weights::kNone, Storage::kBfloat16, Listed::kNothing),
    Aggregation("sum_weighted_fp16", Reduce::kSum, Weights::kPerEdge, Storage::kFloat16, Listed::kNothing),
    Aggregation("sum_fp16", Reduce::kSum, Weights::kNone, Storage::kFloat16, Listed::kNothing),
    Attention("gat_1", AttentionKind::kGat, 1, Listed::kGatOneHead),
    Attention("gat_4", AttentionKind::kGat, 4, Listed::kGatFourHeads),
    Attention("gat_8", AttentionKind::kGat, 8, Listed::kNothing),
    Attention("gatv2_8", AttentionKind::kGatV2, 8, Listed::kNothing),
    Attention("dot_1", AttentionKind::kDot, 1, Listed::kNothing),
    Attention("dot_8", AttentionKind::kDot, 8, Listed::kNothing),
    EdgeProduct("edge_dot"),
};

}  // namespace

std::span<const Operation> AllOperations() { return kOperations; }

StatusOr<std::vector<Operation>> FindOperations(const std::vector<std::string>& names) {
  std::vector<Operation> found;
  std::string known;
  for (const Operation& operation : kOperations) {
    absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(operation.name));
    if (names.empty()) found.push_back(operation);
  }
  for (const std::string& name : names) {
    const size_t before = found.size();
    for (const Operation& operation : kOperations) {
      if (operation.name == name) found.push_back(operation);
    }
    if (found.size() == before) {
      return InvalidArgument("UNKNOWN_OPERATION", "operations",
                             absl::StrCat("there is no operation '", name, "'; there are: ", known));
    }
  }
  return found;
}

}  // namespace vicinal::bench
