// SPDX-License-Identifier: Apache-2.0
#include "engine/tuning/graph_tuner.h"

#include <chrono>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/out_of_memory.h"
#include "engine/tuning/forced_setting.h"
#include "engine/tuning/tuning_request.h"
#include "engine/tuning/tuning_text.h"

namespace vicinal {
namespace {

// One call may not occupy the idle time of the executor for longer.
constexpr Nanoseconds kLongestOrder = std::chrono::hours(1);

Status CheckLength(size_t works, Nanoseconds budget) {
  if (works == 0 || budget <= kLongestOrder / static_cast<int64_t>(works)) return OkStatus();
  return InvalidArgument("TUNING_TOO_LONG", "budget",
                         absl::StrCat(works, " kinds of work, ", std::chrono::duration<double>(budget).count(),
                                      " s each, would take more than an hour; name fewer kinds of work in one call, or "
                                      "lower the budget"));
}

}  // namespace

Status GraphTuner::Force(const PreparedGraph& graph, const std::vector<TuningWork>& works,
                         const ForcedConfiguration& forced) const {
  const TuningService::Parts& parts = service_.parts();
  static constexpr char kLayouts[] = "what the forced kernel prepares";
  VICINAL_ASSIGN_OR_RETURN(Reservation memory, parts.budget->Reserve(Account::kTuning, 0, kLayouts));
  const auto admit = [&memory](int64_t bytes) { return memory.Grow(bytes, kLayouts); };
  StatusOr<std::vector<TuningRecord>> made =
      ForcedRecords({parts.registry, parts.device->kind(), parts.clock, admit}, graph, works, forced);
  graph.SettleReservation(&memory);
  VICINAL_ASSIGN_OR_RETURN(std::vector<TuningRecord> records, std::move(made));
  TuningChange change;
  for (size_t i = 0; i < works.size(); ++i) change.entries.push_back({works[i], std::move(records[i])});
  VICINAL_RETURN_IF_ERROR(service_.Change(graph, change).status());
  for (size_t i = 0; i < works.size(); ++i) parts.stats->TuningRun("forced", 0.0, 0, 0);
  return OkStatus();
}

StatusOr<std::vector<TuningWork>> GraphTuner::Import(const PreparedGraph& graph, const std::string& text) const {
  const TuningService::Parts& parts = service_.parts();
  static constexpr char kLayouts[] = "what imported kernels prepare";
  VICINAL_ASSIGN_OR_RETURN(Reservation memory, parts.budget->Reserve(Account::kTuning, 0, kLayouts));
  const auto admit = [&memory](int64_t bytes) { return memory.Grow(bytes, kLayouts); };
  const StatusOr<TuningChange> change =
      ImportTuning({parts.registry, parts.device->kind(), parts.clock, admit}, parts.device_kind, graph, text);
  graph.SettleReservation(&memory);
  VICINAL_RETURN_IF_ERROR(change.status());
  VICINAL_RETURN_IF_ERROR(service_.Change(graph, *change).status());
  std::vector<TuningWork> works;
  for (const TuningEntry& entry : change->entries) works.push_back(entry.work);
  return works;
}

StatusOr<std::string> GraphTuner::Export(const std::string& graph) const {
  VICINAL_ASSIGN_OR_RETURN(const GraphHandle handle, graphs_.Find(graph, 0, "", 0));
  const TuningService::Parts& parts = service_.parts();
  return ExportTuning(*parts.registry, parts.device->kind(), parts.device_kind, *handle.graph);
}

Status GraphTuner::CheckTogether(const TuneGraphRequest& request) {
  if (request.reset && request.force.has_value()) {
    return InvalidArgument("RESET_AND_FORCE", "reset", "a request resets or forces, not both");
  }
  if (request.budget < Nanoseconds::zero()) {
    return InvalidArgument("BAD_BUDGET", "budget", "a budget is not negative; 0 means the server's own");
  }
  if (request.strategy.has_value() && (request.reset || request.force.has_value())) {
    return InvalidArgument("STRATEGY_UNUSED", "strategy",
                           "a request that resets or forces measures nothing: leave the strategy out");
  }
  const bool other = !NamesNothing(request) || request.reset || request.force.has_value() || !request.wait ||
                     request.budget > Nanoseconds::zero() || request.strategy.has_value();
  if (!request.import_text.has_value() || !other) return OkStatus();
  return InvalidArgument("IMPORT_ALONE", "import_text",
                         "an import measures nothing and selects no work: leave all fields but name and version empty");
}

StatusOr<TuningReport> GraphTuner::Tune(const TuneGraphRequest& request) const try {
  VICINAL_RETURN_IF_ERROR(CheckTogether(request));
  const TuningService::Parts& parts = service_.parts();
  VICINAL_ASSIGN_OR_RETURN(const GraphHandle handle, graphs_.Find(request.graph, request.graph_version, "", 0));
  const PreparedGraph& graph = *handle.graph;
  std::vector<TuningWork> works;
  if (!request.import_text.has_value()) {
    VICINAL_ASSIGN_OR_RETURN(works, WorksOf(request, graph, *parts.registry, parts.device->kind()));
  }
  if (request.import_text.has_value()) {
    VICINAL_ASSIGN_OR_RETURN(works, Import(graph, *request.import_text));
    parts.on_change();
  } else if (request.force.has_value()) {
    VICINAL_RETURN_IF_ERROR(Force(graph, works, *request.force));
    parts.on_change();
  } else if (request.reset) {
    TuningChange change;
    for (const TuningWork& work : works) change.entries.push_back({work, TuningTable::ResetRecord(work.key)});
    VICINAL_RETURN_IF_ERROR(service_.Change(graph, change).status());
    parts.on_change();
  } else {
    constexpr Nanoseconds kOrdered = std::chrono::milliseconds(500);
    const Nanoseconds own = parts.budget_per_key > Nanoseconds::zero() ? parts.budget_per_key : kOrdered;
    const Nanoseconds budget = request.budget > Nanoseconds::zero() ? request.budget : own;
    VICINAL_RETURN_IF_ERROR(CheckLength(works.size(), budget));
    for (const TuningWork& work : works) graph.tuning().Note(work);
    VICINAL_RETURN_IF_ERROR(
        service_.Order(handle.graph, works, budget, request.strategy, request.wait, request.limits));
  }
  TuningReport report = {request.graph, graph.parts().version, {}};
  for (const TuningWork& work : works) report.records.push_back(*graph.tuning().Record(work.key));
  return report;
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

StatusOr<TuningReport> GraphTuner::Report(const std::string& graph) const {
  VICINAL_ASSIGN_OR_RETURN(const GraphHandle handle, graphs_.Find(graph, 0, "", 0));
  return TuningReport{graph, handle.graph->parts().version, handle.graph->tuning().Records()};
}

}  // namespace vicinal
