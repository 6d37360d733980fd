// SPDX-License-Identifier: Apache-2.0
#include "engine/api/tuning.h"

#include "absl/strings/str_cat.h"

namespace vicinal {

std::string_view ToString(EdgeWeights weights) {
  switch (weights) {
    case EdgeWeights::kNone:
      return "none";
    case EdgeWeights::kPerEdge:
      return "per_edge";
    case EdgeWeights::kPerSource:
      return "per_source";
  }
  return "";
}

std::string_view ToString(CandidateOutcome outcome) {
  switch (outcome) {
    case CandidateOutcome::kWaiting:
      return "waiting";
    case CandidateOutcome::kPruned:
      return "pruned";
    case CandidateOutcome::kEliminated:
      return "eliminated";
    case CandidateOutcome::kMeasured:
      return "measured";
    case CandidateOutcome::kChosen:
      return "chosen";
  }
  return "";
}

std::string_view ToString(TuningStrategy strategy) {
  return strategy == TuningStrategy::kEstimated ? "estimated" : "measured";
}

std::string_view ToString(TuningState state) {
  switch (state) {
    case TuningState::kDefault:
      return "default";
    case TuningState::kQueued:
      return "queued";
    case TuningState::kRunning:
      return "running";
    case TuningState::kTuned:
      return "tuned";
    case TuningState::kForced:
      return "forced";
    case TuningState::kFailed:
      return "failed";
    case TuningState::kSeeded:
      return "seeded";
  }
  return "";
}

std::string Describe(const TuningKey& key) {
  std::string text = absl::StrCat(key.operation, " ", key.kind, ", width ", key.width);
  if (key.operation == "attention") {
    absl::StrAppend(&text, " x ", key.heads, key.heads == 1 ? " head" : " heads", key.concat ? "" : ", averaged");
  } else if (key.operation == "dense_update") {
    absl::StrAppend(&text, ", outputs ", key.outputs, key.epilogue ? ", with epilogue" : "");
  } else {
    absl::StrAppend(&text, ", weights ", std::string(ToString(key.weights)));
    if (!key.program.empty()) absl::StrAppend(&text, ", program ", key.program);
  }
  if (key.storage != Storage::kFloat32) absl::StrAppend(&text, ", ", std::string(ToString(key.storage)));
  return text;
}

}  // namespace vicinal
