// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/cli/describe_tuning.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/cli/output.h"

namespace vicinal::client::cli {
namespace {

// "queued" of STATE_QUEUED.
std::string Word(const std::string& name, const std::string& prefix) {
  return absl::AsciiStrToLower(name.rfind(prefix, 0) == 0 ? name.substr(prefix.size()) : name);
}

std::string WorkOf(const v1::TuningKey& key) {
  std::string work = absl::StrCat(key.operation(), " ", key.kind(), ", width ", key.width());
  if (key.operation() == "attention") {
    absl::StrAppend(&work, " x ", key.heads(), key.heads() == 1 ? " head" : " heads", key.concat() ? "" : ", averaged");
  } else if (key.operation() == "dense_update") {
    absl::StrAppend(&work, ", outputs ", key.outputs(), key.epilogue() ? ", with epilogue" : "");
  } else {
    absl::StrAppend(&work, ", weights ", key.weights());
    if (!key.program().empty()) absl::StrAppend(&work, ", program ", key.program());
  }
  if (key.precision() != v1::PRECISION_FLOAT32) {
    absl::StrAppend(&work, ", ", Word(v1::Precision_Name(key.precision()), "PRECISION_"));
  }
  return work;
}

std::string SettingOf(const v1::TuningCandidate& candidate) {
  return SettingText(candidate.kernel(), candidate.parameters());
}

// "tuned", or "tuned (estimated)".
std::string StateOf(const v1::TuningRecord& record) {
  const std::string state = Word(v1::TuningRecord::State_Name(record.state()), "STATE_");
  return record.strategy() == v1::TUNING_STRATEGY_ESTIMATED ? absl::StrCat(state, " (estimated)") : state;
}

// What an estimate cost beside its measurements.
std::string CostOf(const v1::TuningRecord& record) {
  return absl::StrCat("  estimated: models ranked ", record.modelled_count(), " settings in ",
                      FormatSeconds(record.model_seconds()), "; of the measuring time, communities took ",
                      FormatSeconds(record.profile_seconds()));
}

std::string SecondsOr(double seconds) { return seconds > 0 ? FormatSeconds(seconds) : "-"; }

void PrintCandidates(const v1::TuningRecord& record, std::ostream& out) {
  if (record.candidates_size() == 0 && record.refusals_size() == 0) return;
  out << '\n' << WorkOf(record.key()) << ":\n";
  Table table({"tried", "outcome", "predicted", "measured", "spread", "of the default", "samples", "dropped"});
  for (const v1::TuningCandidate& candidate : record.candidates()) {
    table.Add({SettingOf(candidate), Word(v1::TuningCandidate::Outcome_Name(candidate.outcome()), "OUTCOME_"),
               SecondsOr(candidate.predicted_seconds()), SecondsOr(candidate.measured_seconds()),
               candidate.sample_count() > 0 ? FormatShare(candidate.spread()) : "-",
               candidate.ratio() > 0 ? FormatFixed(candidate.ratio(), 3) : "-", absl::StrCat(candidate.sample_count()),
               absl::StrCat(candidate.dropped_sample_count())});
  }
  if (record.candidates_size() > 0) table.Print(out);
  if (record.strategy() == v1::TUNING_STRATEGY_ESTIMATED) out << CostOf(record) << '\n';
  for (const v1::Refusal& refusal : record.refusals()) {
    out << "  unsupported: " << refusal.kernel() << ": " << refusal.reason() << '\n';
  }
}

}  // namespace

std::string SettingText(const std::string& kernel, const KernelParameters& parameters) {
  std::string text = kernel;
  for (const v1::KernelParameter& parameter : parameters) {
    if (parameter.value() != 0) absl::StrAppend(&text, " ", parameter.name(), "=", parameter.value());
  }
  return text;
}

void PrintTuning(const std::vector<v1::TuningRecord>& records, bool candidates, std::ostream& out) {
  if (records.empty()) {
    out << "nothing has been tuned yet\n";
    return;
  }
  Table table({"work", "state", "kernel", "gain", "took", "uses", "note"});
  for (const v1::TuningRecord& record : records) {
    std::string kernel = "the default";
    for (const v1::TuningCandidate& candidate : record.candidates()) {
      if (candidate.outcome() == v1::TuningCandidate::OUTCOME_CHOSEN) kernel = SettingOf(candidate);
    }
    table.Add({WorkOf(record.key()), StateOf(record), kernel, record.gain() > 0 ? FormatFixed(record.gain(), 2) : "-",
               SecondsOr(record.used_seconds()), absl::StrCat(record.use_count()), record.note()});
  }
  table.Print(out);
  if (!candidates) return;
  for (const v1::TuningRecord& record : records) PrintCandidates(record, out);
}

}  // namespace vicinal::client::cli
