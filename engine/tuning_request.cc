// SPDX-License-Identifier: Apache-2.0
#include "engine/tuning_request.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/tune/work.h"

namespace vicinal {
namespace {

bool NamesNothing(const TuneGraphRequest& request) {
  return request.operation.empty() && request.kinds.empty() && request.widths.empty() && request.heads.empty() &&
         request.weights.empty();
}

template <class T>
std::vector<T> OrDefault(const std::vector<T>& given, std::vector<T> otherwise) {
  return given.empty() ? std::move(otherwise) : given;
}

Status CheckOperation(const std::string& operation) {
  if (std::find(std::begin(kTunedOperations), std::end(kTunedOperations), operation) != std::end(kTunedOperations)) {
    return OkStatus();
  }
  std::string names;
  for (const std::string_view known : kTunedOperations)
    absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(known));
  return InvalidArgument("OPERATION_UNKNOWN", "operation",
                         absl::StrCat("'", operation, "' is no operation that is tuned; there are: ", names));
}

Status CheckAtLeastOne(const std::vector<int64_t>& values, const std::string& field) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= 1 && values[i] <= kMaxTuningColumns) continue;
    return InvalidArgument("BAD_WIDTH", absl::StrCat(field, "[", i, "]"),
                           absl::StrCat(field, " lie between 1 and ", kMaxTuningColumns, "; this is ", values[i]));
  }
  return OkStatus();
}

// What a request lists, with defaults filled in.
struct Lists {
  std::string operation;
  std::vector<std::string> kinds;
  std::vector<int64_t> widths, heads;
  std::vector<std::string> weights;  // empty: as models use them

  bool attention() const { return operation == "attention"; }
};

StatusOr<Lists> ListsOf(const TuneGraphRequest& request) {
  Lists lists;
  lists.operation = request.operation.empty() ? "aggregate" : request.operation;
  VICINAL_RETURN_IF_ERROR(CheckOperation(lists.operation));
  lists.kinds = OrDefault(request.kinds, lists.attention() ? std::vector<std::string>{"gat"}
                                                           : std::vector<std::string>{"sum", "mean", "max"});
  for (size_t i = 0; i < lists.kinds.size(); ++i) {
    if (IsKindOf(lists.operation, lists.kinds[i])) continue;
    return InvalidArgument("KIND_UNKNOWN", absl::StrCat("kinds[", i, "]"),
                           absl::StrCat("'", lists.kinds[i], "' is no kind of ", lists.operation,
                                        "; there are: ", KindsOf(lists.operation)));
  }
  if (request.widths.empty()) {
    return InvalidArgument("WIDTHS_MISSING", "widths",
                           "name the widths to tune for, or name nothing to tune what was asked for so far");
  }
  lists.widths = request.widths;
  VICINAL_RETURN_IF_ERROR(CheckAtLeastOne(lists.widths, "widths"));
  if (!lists.attention() && !request.heads.empty()) {
    return InvalidArgument("HEADS_UNEXPECTED", "heads", "only attention has heads; leave it empty");
  }
  lists.heads = OrDefault(request.heads, {1});
  VICINAL_RETURN_IF_ERROR(CheckAtLeastOne(lists.heads, "heads"));
  if (lists.attention() && !request.weights.empty()) {
    return InvalidArgument("WEIGHTS_UNEXPECTED", "weights", "attention takes no edge weights; leave it empty");
  }
  lists.weights = request.weights;
  for (size_t i = 0; i < lists.weights.size(); ++i) {
    if (EdgeWeightsNamed(lists.weights[i]).has_value()) continue;
    return InvalidArgument("WEIGHTS_UNKNOWN", absl::StrCat("weights[", i, "]"),
                           absl::StrCat("'", lists.weights[i], "' is unknown; there are: none, per_edge, per_source"));
  }
  return lists;
}

// The adjacency that models propagate over with such weights.
AdjacencySpec AdjacencyFor(const TuningKey& key, bool graph_weighted) {
  if (key.operation == "attention") return {SelfLoops::kReplace, 1.0f, EdgeWeighting::kNone};
  switch (key.weights) {
    case EdgeWeights::kPerEdge:
      if (graph_weighted) return {SelfLoops::kAsSent, 1.0f, EdgeWeighting::kSent};
      return {SelfLoops::kAddRemaining, 1.0f, EdgeWeighting::kGcnOnes};
    case EdgeWeights::kPerSource:
      return {SelfLoops::kAddRemaining, 1.0f, EdgeWeighting::kNone};
    case EdgeWeights::kNone:
      break;
  }
  return {};
}

// GCN sums with weights, one per source where the graph has none of its own; the rest counts edges as they are.
std::vector<EdgeWeights> WeightsOf(const Lists& lists, const std::string& kind, bool graph_weighted) {
  std::vector<EdgeWeights> weights;
  for (const std::string& name : lists.weights) weights.push_back(*EdgeWeightsNamed(name));
  if (!weights.empty()) return weights;
  if (!lists.attention() && kind == "sum") {
    weights.push_back(graph_weighted ? EdgeWeights::kPerEdge : EdgeWeights::kPerSource);
  }
  weights.push_back(EdgeWeights::kNone);
  return weights;
}

}  // namespace

StatusOr<std::vector<TuningWork>> WorksOf(const TuneGraphRequest& request, const PreparedGraph& graph) {
  if (NamesNothing(request)) return graph.tuning().Works();
  VICINAL_ASSIGN_OR_RETURN(const Lists lists, ListsOf(request));
  std::vector<TuningWork> works;
  TuningWork work;
  work.key.operation = lists.operation;
  for (const std::string& kind : lists.kinds) {
    work.key.kind = kind;
    for (const EdgeWeights weights : WeightsOf(lists, kind, graph.weighted())) {
      work.key.weights = weights;
      work.adjacency = AdjacencyFor(work.key, graph.weighted());
      for (const int64_t width : lists.widths) {
        for (const int64_t heads : lists.heads) {
          work.key.width = width;
          work.key.heads = heads;
          if (width * heads > kMaxTuningColumns) {
            return InvalidArgument(
                "BAD_WIDTH", "heads",
                absl::StrCat("heads times width is at most ", kMaxTuningColumns, "; this is ", heads, " x ", width));
          }
          works.push_back(work);
        }
      }
    }
  }
  if (static_cast<int64_t>(works.size()) > kMaxTuningWorks) {
    return InvalidArgument(
        "TOO_MANY_COMBINATIONS", "widths",
        absl::StrCat("these are ", works.size(), " combinations; ask for at most ", kMaxTuningWorks, " at once"));
  }
  return works;
}

}  // namespace vicinal
