// SPDX-License-Identifier: Apache-2.0
#include "engine/tuning/tuning_request.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/tune/kept_record.h"
#include "engine/tune/work.h"

namespace vicinal {
namespace {

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
                         absl::StrCat(Quoted(operation), " is not a tuned operation; there are: ", names));
}

Status CheckAtLeastOne(const std::vector<int64_t>& values, const std::string& field) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= 1 && values[i] <= kMaxTuningColumns) continue;
    return InvalidArgument("BAD_WIDTH", absl::StrCat(field, "[", i, "]"),
                           absl::StrCat(field, " lie between 1 and ", kMaxTuningColumns, "; this is ", values[i]));
  }
  return OkStatus();
}

// Removes duplicates; keeps the order of first occurrence.
template <class T>
std::vector<T> OnceEach(std::vector<T> values) {
  std::set<T> seen;
  std::erase_if(values, [&](const T& value) { return !seen.insert(value).second; });
  return values;
}

// What a request lists, with defaults filled in.
struct Lists {
  std::string operation;
  std::vector<std::string> kinds;
  std::vector<int64_t> widths, heads, outputs;
  std::vector<std::string> weights;  // empty: as models use them
  std::vector<bool> epilogues;       // products are tuned with and without

  bool attention() const { return operation == "attention"; }
  bool products() const { return operation == "dense_update"; }
  bool expressions() const { return operation == "expression"; }
};

std::vector<std::string> UsualKinds(const Lists& lists) {
  if (lists.attention()) return {"gat"};
  if (lists.products()) return {"float32"};
  return {"sum", "mean", "max"};
}

Status CheckOutputs(const TuneGraphRequest& request, const Lists& lists) {
  if (!lists.products() && !request.outputs.empty()) {
    return InvalidArgument("OUTPUTS_UNEXPECTED", "outputs",
                           "only products (dense_update) have outputs; leave it empty");
  }
  if (lists.products() && !request.widths.empty() && request.outputs.empty()) {
    return InvalidArgument(
        "OUTPUTS_MISSING", "outputs",
        "the widths of products are their inputs: name the outputs, too, or leave both empty for the "
        "products that models have asked this graph for");
  }
  return CheckAtLeastOne(request.outputs, "outputs");
}

// Programs come with models, so none can be named that no plan has asked for.
Status CheckPrograms(const TuneGraphRequest& request, const Lists& lists) {
  if (!lists.expressions() && !request.programs.empty()) {
    return InvalidArgument("PROGRAMS_UNEXPECTED", "programs",
                           "only message functions (operation expression) have programs; leave it empty");
  }
  if (lists.expressions() && !request.widths.empty()) {
    return InvalidArgument("WIDTHS_UNEXPECTED", "widths",
                           "message functions (expression) are tuned as models have used them on the graph: leave "
                           "widths empty, and name programs to select some");
  }
  return OkStatus();
}

StatusOr<Lists> ListsOf(const TuneGraphRequest& request, const std::string& operation) {
  Lists lists;
  lists.operation = operation;
  VICINAL_RETURN_IF_ERROR(CheckOperation(lists.operation));
  lists.kinds = OrDefault(request.kinds, UsualKinds(lists));
  for (size_t i = 0; i < lists.kinds.size(); ++i) {
    if (IsKindOf(lists.operation, lists.kinds[i])) continue;
    return InvalidArgument("KIND_UNKNOWN", absl::StrCat("kinds[", i, "]"),
                           absl::StrCat(Quoted(lists.kinds[i]), " is not a kind of ", lists.operation,
                                        "; there are: ", KindsOf(lists.operation)));
  }
  VICINAL_RETURN_IF_ERROR(CheckAtLeastOne(request.widths, "widths"));
  if (!lists.attention() && !request.heads.empty()) {
    return InvalidArgument("HEADS_UNEXPECTED", "heads", "only attention has heads; leave it empty");
  }
  VICINAL_RETURN_IF_ERROR(CheckAtLeastOne(request.heads, "heads"));
  VICINAL_RETURN_IF_ERROR(CheckOutputs(request, lists));
  VICINAL_RETURN_IF_ERROR(CheckPrograms(request, lists));
  if ((lists.attention() || lists.products()) && !request.weights.empty()) {
    return InvalidArgument("WEIGHTS_UNEXPECTED", "weights",
                           absl::StrCat(lists.operation, " takes no edge weights; leave it empty"));
  }
  for (size_t i = 0; i < request.weights.size(); ++i) {
    if (EdgeWeightsNamed(request.weights[i]).has_value()) continue;
    return InvalidArgument(
        "WEIGHTS_UNKNOWN", absl::StrCat("weights[", i, "]"),
        absl::StrCat(Quoted(request.weights[i]), " is unknown; there are: none, per_edge, per_source"));
  }
  lists.kinds = OnceEach(std::move(lists.kinds));
  lists.widths = OnceEach(request.widths);
  lists.heads = OnceEach(OrDefault(request.heads, {1}));
  lists.weights = OnceEach(request.weights);
  lists.outputs = OnceEach(OrDefault(request.outputs, {0}));
  lists.epilogues = lists.products() ? std::vector<bool>{false, true} : std::vector<bool>{false};
  return lists;
}

// The operations that a request may mean: the named one, those that have the forced kernel, or all. A request that
// lists works without an operation means the first of them.
StatusOr<std::vector<std::string>> OperationsOf(const TuneGraphRequest& request, const KernelRegistry& registry,
                                                DeviceKind device) {
  if (!request.operation.empty()) return std::vector<std::string>{request.operation};
  if (request.force.has_value() && !request.force->kernel.empty()) {
    return OperationsWith(registry, device, request.force->kernel, request.force->parameters);
  }
  return std::vector<std::string>(std::begin(kTunedOperations), std::end(kTunedOperations));
}

template <class T>
bool IsOneOf(const std::vector<T>& values, const T& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

Status NothingToTune(const std::string& operation, const std::string& kernel) {
  return FailedPrecondition("NOTHING_TO_TUNE",
                            absl::StrCat("the device of this server has one kernel for ", operation, ", '", kernel,
                                         "', and it has no parameters: there is nothing to choose or to measure; "
                                         "leave the operation out to tune what plans on this graph use"));
}

// The works in the table (needed by plans, or tuned before) that match the request's non-empty lists.
StatusOr<std::vector<TuningWork>> KnownWorks(const TuneGraphRequest& request,
                                             const std::vector<std::string>& operations, const TuningTable& table,
                                             const KernelRegistry& registry, DeviceKind device) {
  std::vector<TuningWork> works = table.Works();
  std::erase_if(works, [&](const TuningWork& work) {
    const TuningKey& key = work.key;
    return !IsOneOf(operations, key.operation) || (!request.kinds.empty() && !IsOneOf(request.kinds, key.kind)) ||
           (!request.heads.empty() && !IsOneOf(request.heads, key.heads)) ||
           (!request.outputs.empty() && !IsOneOf(request.outputs, key.outputs)) ||
           (!request.programs.empty() && !IsOneOf(request.programs, key.program)) ||
           (!request.weights.empty() && !IsOneOf(request.weights, std::string(ToString(key.weights))));
  });
  if (!works.empty() || (NamesNothing(request) && !request.force.has_value())) return works;
  if (operations.size() == 1) {
    // Plans note no work where there is no choice, so that models will not bring any either.
    const std::string only = OnlyKernelOf(registry, device, operations.front());
    if (!only.empty()) return NothingToTune(operations.front(), only);
  }
  if (operations == std::vector<std::string>{"expression"}) {
    return InvalidArgument("PROGRAM_UNKNOWN", request.programs.empty() ? "operation" : "programs",
                           "no model has run such a message function on this graph so far: run one, then GetTuning "
                           "lists its programs");
  }
  return InvalidArgument("WIDTHS_MISSING", "widths",
                         absl::StrCat("no model has asked this graph for such work (", absl::StrJoin(operations, ", "),
                                      ") so far: name the widths to tune for"));
}

// The adjacency that models use with these weights.
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

// By default every kind is tuned without weights, and sums also with the weights of GCN: per edge if the graph has
// weights, otherwise per source.
std::vector<EdgeWeights> WeightsOf(const Lists& lists, const std::string& kind, bool graph_weighted) {
  std::vector<EdgeWeights> weights;
  for (const std::string& name : lists.weights) weights.push_back(*EdgeWeightsNamed(name));
  if (!weights.empty()) return weights;
  if (lists.operation == "aggregate" && kind == "sum") {
    weights.push_back(graph_weighted ? EdgeWeights::kPerEdge : EdgeWeights::kPerSource);
  }
  weights.push_back(EdgeWeights::kNone);
  return weights;
}

// Called before the combinations are built: a short request can list very many.
Status CheckCombinations(const Lists& lists, bool graph_weighted) {
  int64_t kinds = 0;
  for (const std::string& kind : lists.kinds)
    kinds += static_cast<int64_t>(WeightsOf(lists, kind, graph_weighted).size());
  const double count = static_cast<double>(kinds) * static_cast<double>(lists.widths.size() * lists.heads.size()) *
                       static_cast<double>(lists.outputs.size() * lists.epilogues.size());
  if (count <= kMaxTuningWorks) return OkStatus();
  return InvalidArgument(
      "TOO_MANY_COMBINATIONS", "widths",
      absl::StrCat("these are ", count, " combinations; ask for at most ", kMaxTuningWorks, " at once"));
}

// Those of one kind and weighting.
Status AddWidths(const Lists& lists, TuningWork work, std::vector<TuningWork>* works) {
  for (const int64_t width : lists.widths) {
    for (const int64_t heads : lists.heads) {
      if (width > kMaxTuningColumns / heads) {
        return InvalidArgument(
            "BAD_WIDTH", "heads",
            absl::StrCat("heads times width is at most ", kMaxTuningColumns, "; this is ", heads, " x ", width));
      }
      work.key.width = width;
      work.key.heads = heads;
      for (const int64_t outputs : lists.outputs) {
        for (const bool epilogue : lists.epilogues) {
          work.key.outputs = outputs;
          work.key.epilogue = epilogue;
          works->push_back(work);
        }
      }
    }
  }
  return OkStatus();
}

StatusOr<std::vector<TuningWork>> Combinations(const Lists& lists, bool graph_weighted) {
  std::vector<TuningWork> works;
  TuningWork work;
  work.key.operation = lists.operation;
  for (const std::string& kind : lists.kinds) {
    work.key.kind = kind;
    for (const EdgeWeights weights : WeightsOf(lists, kind, graph_weighted)) {
      work.key.weights = weights;
      work.adjacency = AdjacencyFor(work.key, graph_weighted);
      VICINAL_RETURN_IF_ERROR(AddWidths(lists, work, &works));
    }
  }
  return works;
}

}  // namespace

bool NamesNothing(const TuneGraphRequest& request) {
  return request.operation.empty() && request.kinds.empty() && request.widths.empty() && request.heads.empty() &&
         request.outputs.empty() && request.weights.empty() && request.programs.empty();
}

Status CheckRoom(const std::vector<TuningWork>& works, const TuningTable& table) {
  const auto is_new = [&](const TuningWork& work) { return !table.Record(work.key).has_value(); };
  const int64_t more = std::count_if(works.begin(), works.end(), is_new);
  const int64_t known = static_cast<int64_t>(table.Works().size());
  if (more == 0 || known + more <= kMaxTuningKeys) return OkStatus();
  return FailedPrecondition("TUNING_TABLE_FULL",
                            absl::StrCat("this version of the graph knows ", known, " kinds of work and may know ",
                                         kMaxTuningKeys, "; upload the graph again to start with an empty table"));
}

StatusOr<std::vector<TuningWork>> WorksOf(const TuneGraphRequest& request, const PreparedGraph& graph,
                                          const KernelRegistry& registry, DeviceKind device) {
  VICINAL_ASSIGN_OR_RETURN(const std::vector<std::string> operations, OperationsOf(request, registry, device));
  if (NamesNothing(request)) return KnownWorks(request, operations, graph.tuning(), registry, device);
  VICINAL_ASSIGN_OR_RETURN(const Lists lists, ListsOf(request, operations.front()));
  if (lists.widths.empty()) return KnownWorks(request, {lists.operation}, graph.tuning(), registry, device);
  VICINAL_RETURN_IF_ERROR(CheckCombinations(lists, graph.weighted()));
  VICINAL_ASSIGN_OR_RETURN(std::vector<TuningWork> works, Combinations(lists, graph.weighted()));
  VICINAL_RETURN_IF_ERROR(CheckRoom(works, graph.tuning()));
  return works;
}

}  // namespace vicinal
