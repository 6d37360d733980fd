// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/run_for_nodes.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/execute/selection.h"
#include "engine/prepare/counted_features.h"

namespace vicinal {
namespace {

// A field is run if its predicted cost is below this share of the full graph's. It is less than 1 because a field's
// prediction is less exact and the search costs time, too.
constexpr double kWorthOfFull = 0.8;

Status NoField(const std::string& why) {
  return FailedPrecondition("NO_RECEPTIVE_FIELD", absl::StrCat("execution.receptive_field is 'always', but ", why,
                                                               "; use 'auto', which computes the full graph"));
}

bool IsRefusedMemory(const Status& status) {
  return status.code() == StatusCode::kResourceExhausted || status.code() == StatusCode::kFailedPrecondition;
}

// A copy of all features with the rows replaced.
StatusOr<std::shared_ptr<const FeatureMatrix>> Whole(const FeatureMatrix& stored, const ReplacedRows& replaced,
                                                     Device& device, MemoryBudget* budget) {
  VICINAL_ASSIGN_OR_RETURN(auto memory, ReserveLarge(stored.size_bytes(), "replacing rows of features", budget));
  return Counted(WithRows(stored, replaced.rows, replaced.positions, device), std::move(memory));
}

// Searches the receptive field of the wanted rows. True if the field, now in the workspace's finder, is to be run.
StatusOr<bool> FindField(const Plan& plan, const WantedRows& wanted, const RunParts& parts) {
  const bool always = wanted.receptive_field == ReceptiveField::kAlways;
  if (wanted.ids == nullptr || wanted.receptive_field == ReceptiveField::kNever) return false;
  const ReceptiveFieldShape& shape = plan.field();
  if (!shape.refusal.empty()) return always ? StatusOr<bool>(NoField(shape.refusal)) : false;
  const ThreadPool* pool = parts.context->thread_pool();
  const MonotonicTime begin = parts.clock->Now();
  StatusOr<bool> found = parts.workspace->finder.Find(
      shape, *wanted.ids, *wanted.permutation, always ? ReceptiveFieldFinder::kNoLimit : kWorthOfFull * shape.full_cost,
      pool != nullptr ? pool->num_threads() : 1);
  parts.stats->PhaseSeconds("receptive_field", SecondsBetween(begin, parts.clock->Now()));
  if (!found.ok() && !always && IsRefusedMemory(found.status())) return false;
  return found;
}

}  // namespace

StatusOr<ComputedRows> RunForNodes(Plan& plan, const WantedRows& wanted, const RunParts& parts) {
  VICINAL_ASSIGN_OR_RETURN(const bool found, FindField(plan, wanted, parts));
  if (found) {
    const StatusOr<ConstMatrixView> rows = plan.RunReceptiveField(
        *parts.context, *parts.features, parts.replaced, parts.workspace, *parts.stop, *parts.stats, *parts.clock);
    if (rows.ok()) {
      const double full = plan.field().full_cost;
      const ReceptiveFieldFinder& field = parts.workspace->finder;
      return ComputedRows{*rows, true, field.num_nodes(), full > 0 ? std::min(field.cost() / full, 1.0) : 1.0};
    }
    if (wanted.receptive_field == ReceptiveField::kAlways || !IsRefusedMemory(rows.status())) return rows.status();
  }
  ComputedRows computed;
  const FeatureMatrix* features = parts.features;
  if (parts.replaced != nullptr) {
    VICINAL_ASSIGN_OR_RETURN(computed.features, Whole(*parts.features, *parts.replaced, *parts.device, parts.budget));
    features = computed.features.get();
  }
  VICINAL_ASSIGN_OR_RETURN(computed.rows, plan.Run(*parts.context, *features, *parts.stop, *parts.stats, *parts.clock));
  computed.computed_nodes = features->rows();
  return computed;
}

StatusOr<std::vector<float>> GatherWanted(const ComputedRows& computed, const WantedRows& wanted,
                                          const RunParts& parts) {
  const ConstMatrixView& rows = computed.rows;
  if (!computed.receptive_field) {
    return GatherRows(rows, *wanted.permutation, wanted.ids, *parts.stop, *parts.context);
  }
  std::vector<int64_t> positions(wanted.ids->size());
  for (size_t i = 0; i < positions.size(); ++i) {
    const NodeId id = static_cast<NodeId>((*wanted.ids)[i]);
    positions[i] =
        parts.workspace->finder.RowOf(wanted.permutation->is_identity() ? id : wanted.permutation->ToNew(id));
  }
  return CopyRows(rows, positions, *parts.stop, *parts.context);
}

}  // namespace vicinal
