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

// Logits that a host ranks in the time that a GPU takes longer for doing it.
constexpr int64_t kWorthRanking = 4096;

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
    const StatusOr<ConstMatrixView> rows =
        plan.RunReceptiveField(*parts.context, {*parts.features, parts.edges}, parts.replaced, parts.workspace,
                               *parts.stop, *parts.stats, *parts.clock);
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
  VICINAL_ASSIGN_OR_RETURN(computed.rows,
                           plan.Run(*parts.context, {*features, parts.edges}, *parts.stop, *parts.stats, *parts.clock));
  computed.computed_nodes = features->rows();
  return computed;
}

std::vector<int64_t> PlacesOf(const ComputedRows& computed, const WantedRows& wanted, const RunParts& parts) {
  const Permutation& permutation = *wanted.permutation;
  if (!computed.receptive_field) return PlacesOfNodes(computed.rows.rows, permutation, wanted.ids);
  std::vector<int64_t> places(wanted.ids->size());
  for (size_t i = 0; i < places.size(); ++i) {
    const NodeId id = static_cast<NodeId>((*wanted.ids)[i]);
    places[i] = parts.workspace->finder.RowOf(permutation.is_identity() ? id : permutation.ToNew(id));
  }
  return places;
}

StatusOr<std::vector<float>> GatherWanted(const ComputedRows& computed, const WantedRows& wanted,
                                          const RunParts& parts) {
  return CopyRows(computed.rows, PlacesOf(computed, wanted, parts), *parts.stop, *parts.context);
}

ClassRanker* RankerFor(const ComputedRows& computed, const WantedRows& wanted, const WantedClasses& classes,
                       DeviceContext& context) {
  auto* const ranker = dynamic_cast<ClassRanker*>(&context);
  const int64_t rows = wanted.ids != nullptr ? static_cast<int64_t>(wanted.ids->size()) : computed.rows.rows;
  if (ranker == nullptr || rows * computed.rows.cols < kWorthRanking) return nullptr;
  return ranker->RanksClasses(computed.rows.cols, classes.top_k) ? ranker : nullptr;
}

Status RankWanted(ClassRanker& ranker, const ComputedRows& computed, const WantedRows& wanted,
                  const WantedClasses& classes, bool multi_label, const RunParts& parts, RankedRows* ranked,
                  std::vector<float>* values) {
  const std::vector<int64_t> places = PlacesOf(computed, wanted, parts);
  const auto rows = static_cast<int64_t>(places.size());
  const int64_t width = computed.rows.cols, k = classes.top_k;
  ranked->top_k = k;
  const int64_t piece = RowsOfPiece(2 * k + width * ((classes.probabilities ? 1 : 0) + (classes.logits ? 1 : 0)));
  for (int64_t first = 0; first < rows; first += piece) {
    VICINAL_RETURN_IF_ERROR((*parts.stop)());
    const int64_t count = std::min(piece, rows - first);
    // Grown piece by piece, as in CopyRows.
    const auto grown = [&](auto* all, int64_t of_row) {
      all->resize(static_cast<size_t>((first + count) * of_row));
      return all->data() + first * of_row;
    };
    ClassRowsJob job{computed.rows, places.data() + first, count, k, multi_label};
    job.classes = grown(&ranked->classes, k);
    job.scores = grown(&ranked->scores, k);
    if (classes.probabilities) job.probabilities = grown(&ranked->probabilities, width);
    if (classes.logits) job.values = grown(values, width);
    VICINAL_RETURN_IF_ERROR(ranker.ClassRowsToHost(job));
  }
  return OkStatus();
}

}  // namespace vicinal
