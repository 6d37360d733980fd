// SPDX-License-Identifier: Apache-2.0
#include "server/convert_tuning.h"

#include <chrono>
#include <optional>
#include <string>

#include "engine/base/error.h"
#include "server/convert.h"
#include "server/convert_resources.h"

namespace vicinal::server {
namespace {

constexpr std::chrono::seconds kMaxBudget = std::chrono::minutes(10);

StatusOr<Nanoseconds> BudgetOf(const google::protobuf::Duration& budget) {
  const Nanoseconds nanos(budget.nanos());
  const bool seconds_fit = budget.seconds() >= 0 && budget.seconds() <= kMaxBudget.count();
  const Nanoseconds time = (seconds_fit ? std::chrono::seconds(budget.seconds()) : std::chrono::seconds(-1)) + nanos;
  const bool nanos_fit = nanos.count() >= 0 && nanos < std::chrono::seconds(1);
  if (seconds_fit && nanos_fit && time > Nanoseconds::zero() && time <= kMaxBudget) return time;
  return InvalidArgument("BAD_BUDGET", "budget", "the budget must be above 0 and at most 10 minutes");
}

v1::Precision PrecisionOf(Storage storage) {
  switch (storage) {
    case Storage::kFloat32:
      return v1::PRECISION_FLOAT32;
    case Storage::kBfloat16:
      return v1::PRECISION_BFLOAT16;
    case Storage::kFloat16:
      return v1::PRECISION_FLOAT16;
  }
  return v1::PRECISION_UNSPECIFIED;
}

v1::TuningStrategy ToProto(TuningStrategy strategy) {
  return strategy == TuningStrategy::kEstimated ? v1::TUNING_STRATEGY_ESTIMATED : v1::TUNING_STRATEGY_MEASURED;
}

StatusOr<std::optional<TuningStrategy>> FromProto(v1::TuningStrategy strategy) {
  switch (strategy) {
    case v1::TUNING_STRATEGY_UNSPECIFIED:
      return std::optional<TuningStrategy>();
    case v1::TUNING_STRATEGY_MEASURED:
      return TuningStrategy::kMeasured;
    case v1::TUNING_STRATEGY_ESTIMATED:
      return TuningStrategy::kEstimated;
    default:
      return InvalidArgument("STRATEGY_UNKNOWN", "strategy", "the strategy must be MEASURED, ESTIMATED or UNSPECIFIED");
  }
}

// Whether the record is about a choice that was measured, here or on a similar graph.
bool WasMeasured(const TuningRecord& record) {
  return record.state == TuningState::kTuned || record.state == TuningState::kSeeded;
}

v1::TuningRecord::State StateOf(TuningState state) {
  switch (state) {
    case TuningState::kDefault:
      return v1::TuningRecord::STATE_DEFAULT;
    case TuningState::kQueued:
      return v1::TuningRecord::STATE_QUEUED;
    case TuningState::kRunning:
      return v1::TuningRecord::STATE_RUNNING;
    case TuningState::kTuned:
      return v1::TuningRecord::STATE_TUNED;
    case TuningState::kForced:
      return v1::TuningRecord::STATE_FORCED;
    case TuningState::kFailed:
      return v1::TuningRecord::STATE_FAILED;
    case TuningState::kSeeded:
      return v1::TuningRecord::STATE_SEEDED;
  }
  return v1::TuningRecord::STATE_UNSPECIFIED;
}

v1::TuningCandidate::Outcome OutcomeOf(CandidateOutcome outcome) {
  switch (outcome) {
    case CandidateOutcome::kWaiting:
      return v1::TuningCandidate::OUTCOME_WAITING;
    case CandidateOutcome::kPruned:
      return v1::TuningCandidate::OUTCOME_PRUNED;
    case CandidateOutcome::kEliminated:
      return v1::TuningCandidate::OUTCOME_ELIMINATED;
    case CandidateOutcome::kMeasured:
      return v1::TuningCandidate::OUTCOME_MEASURED;
    case CandidateOutcome::kChosen:
      return v1::TuningCandidate::OUTCOME_CHOSEN;
  }
  return v1::TuningCandidate::OUTCOME_UNSPECIFIED;
}

v1::TuningCandidate ToProto(const TuningCandidate& candidate) {
  v1::TuningCandidate out;
  out.set_kernel(candidate.setting.kernel);
  AddParameters(candidate.parameters, &out);
  out.set_outcome(OutcomeOf(candidate.outcome));
  out.set_predicted_seconds(candidate.predicted_seconds);
  out.set_measured_seconds(candidate.measured_seconds);
  out.set_spread(candidate.spread);
  out.set_ratio(candidate.ratio);
  out.set_sample_count(candidate.samples);
  out.set_dropped_sample_count(candidate.dropped_samples);
  return out;
}

v1::TuningKey ToProto(const TuningKey& key) {
  v1::TuningKey out;
  out.set_operation(key.operation);
  out.set_kind(key.kind);
  out.set_width(key.width);
  out.set_heads(key.heads);
  out.set_concat(key.concat);
  out.set_weights(std::string(ToString(key.weights)));
  out.set_precision(PrecisionOf(key.storage));
  out.set_outputs(key.outputs);
  out.set_epilogue(key.epilogue);
  out.set_program(key.program);
  return out;
}

}  // namespace

StatusOr<TuneGraphRequest> FromProto(const v1::TuneGraphRequest& request) {
  VICINAL_RETURN_IF_ERROR(CheckName(request.name(), "name"));
  if (request.version() < 0) {
    return InvalidArgument("BAD_VERSION", "version", "versions must not be negative; 0 means the latest");
  }
  TuneGraphRequest out;
  out.graph = request.name();
  out.graph_version = request.version();
  out.operation = request.operation();
  out.kinds.assign(request.kinds().begin(), request.kinds().end());
  out.widths.assign(request.widths().begin(), request.widths().end());
  out.heads.assign(request.heads().begin(), request.heads().end());
  out.outputs.assign(request.outputs().begin(), request.outputs().end());
  out.weights.assign(request.weights().begin(), request.weights().end());
  out.programs.assign(request.programs().begin(), request.programs().end());
  if (request.has_budget()) {
    VICINAL_ASSIGN_OR_RETURN(out.budget, BudgetOf(request.budget()));
  }
  VICINAL_ASSIGN_OR_RETURN(out.strategy, FromProto(request.strategy()));
  out.reset = request.reset();
  if (request.has_force()) {
    out.force = ForcedConfiguration{request.force().kernel(),
                                    {request.force().parameters().begin(), request.force().parameters().end()}};
  }
  out.wait = !request.no_wait();
  if (request.has_import_text()) out.import_text = request.import_text();
  return out;
}

v1::TuningRecord ToProto(const TuningRecord& record) {
  v1::TuningRecord out;
  *out.mutable_key() = ToProto(record.key);
  out.set_state(StateOf(record.state));
  for (const TuningCandidate& candidate : record.candidates) *out.add_candidates() = ToProto(candidate);
  for (const KernelRefusal& refused : record.refused) {
    v1::Refusal* entry = out.add_refusals();
    entry->set_kernel(refused.kernel);
    entry->set_reason(refused.reason);
  }
  out.set_gain(record.gain);
  out.set_budget_seconds(record.budget_seconds);
  out.set_used_seconds(record.used_seconds);
  out.set_use_count(record.uses);
  if (record.finish_time != WallTime()) *out.mutable_finish_time() = ToProto(record.finish_time);
  out.set_note(record.note);
  if (WasMeasured(record)) out.set_strategy(ToProto(record.strategy));
  out.set_modelled_count(record.modelled);
  out.set_model_seconds(record.model_seconds);
  out.set_profile_seconds(record.profile_seconds);
  return out;
}

}  // namespace vicinal::server
