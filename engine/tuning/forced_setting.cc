// SPDX-License-Identifier: Apache-2.0
#include "engine/tuning/forced_setting.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/tune/work.h"

namespace vicinal {
namespace {

// Turns the kernel's refusal of the graph into an error of the request.
Status NotForThisGraph(const TuningKey& key, const std::string& kernel, const Status& refused) {
  const auto detail = DetailOf(refused);
  return InvalidArgument(detail.has_value() ? detail->reason : "KERNEL_REFUSED", "force.kernel",
                         absl::StrCat("kernel '", kernel, "' cannot be forced for ", Describe(key), " on this graph: ",
                                      std::string(refused.message()), "; force another, or let tuning choose"));
}

template <class K>
Status MakeLayout(const ForceTools& tools, const PreparedGraph& graph, const TuningWork& work, const K& kernel,
                  const typename K::Problem& problem, const KernelConfig& config) {
  // Only kernels that read edges have layouts.
  if constexpr (requires { problem.edges; }) {
    const std::string layout = kernel.LayoutName(problem, config);
    if (layout.empty()) return OkStatus();
    VICINAL_RETURN_IF_ERROR(graph.Adjacency(work.adjacency).status());
    if (tools.admit && !graph.Holds(work.adjacency, kernel.name(), layout)) {
      VICINAL_RETURN_IF_ERROR(tools.admit(kernel.LayoutBytesBound(problem.rows, problem.edges)));
    }
    Status made = LayoutFor(graph, work.adjacency, kernel, problem, config).status();
    if (made.code() != StatusCode::kFailedPrecondition) return made;
    return NotForThisGraph(work.key, std::string(kernel.name()), made);
  } else {
    return OkStatus();
  }
}

StatusOr<TuningCandidate> Candidate(const ForceTools& tools, const PreparedGraph& graph, const TuningWork& work,
                                    const ForcedConfiguration& forced) {
  const AdjacencyShape shape = graph.ShapeOf(work.adjacency);
  VICINAL_ASSIGN_OR_RETURN(TuningCandidate candidate,
                           NamedCandidate(*tools.registry, tools.device, work.key, shape.rows, shape.cols, shape.edges,
                                          forced.kernel, forced.parameters));
  candidate.outcome = CandidateOutcome::kChosen;
  VICINAL_RETURN_IF_ERROR(MakeLayoutOf(tools, graph, work, candidate.setting));
  return candidate;
}

}  // namespace

Status MakeLayoutOf(const ForceTools& tools, const PreparedGraph& graph, const TuningWork& work,
                    const KernelSetting& setting) {
  const AdjacencyShape shape = graph.ShapeOf(work.adjacency);
  return WithProblem(*tools.registry, work.key, shape.rows, shape.cols, shape.edges,
                     [&](const auto& operation, const auto& problem) {
                       const auto choice = operation.Choose(problem, tools.device, setting.kernel);
                       if (!choice.ok()) return choice.status();
                       return MakeLayout(tools, graph, work, choice->kernel->kernel(), problem, setting.config);
                     });
}

StatusOr<std::vector<TuningRecord>> ForcedRecords(const ForceTools& tools, const PreparedGraph& graph,
                                                  const std::vector<TuningWork>& works,
                                                  const ForcedConfiguration& forced) {
  if (forced.kernel.empty()) {
    return InvalidArgument("KERNEL_MISSING", "force.kernel",
                           "force needs the name of a kernel; GetCapabilities lists them");
  }
  std::vector<TuningRecord> records;
  for (const TuningWork& work : works) {
    VICINAL_ASSIGN_OR_RETURN(TuningCandidate candidate, Candidate(tools, graph, work, forced));
    TuningRecord record;
    record.key = work.key;
    record.state = TuningState::kForced;
    record.candidates = {std::move(candidate)};
    record.finish_time = tools.clock->WallNow();
    record.note = "forced";
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace vicinal
