// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/load/record.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/errors.h"

namespace vicinal::client::load {

void CallOutcome::Fail(absl::StatusCode with, const std::string& reason, std::string text) {
  code = with;
  error = reason.empty() ? CodeName(with) : absl::StrCat(CodeName(with), " ", reason);
  message = std::move(text);
}

void Tally::Merge(const Tally& other) {
  latency.Merge(other.latency);
  service.Merge(other.service);
  server.Merge(other.server);
  failed.Merge(other.failed);
  reply_bytes += other.reply_bytes;
}

Tally Record::Step::Total() const {
  Tally total;
  for (const auto& [method, tally] : methods) total.Merge(tally);
  return total;
}

Record::Step& Record::StepAt(int step) {
  const auto index = static_cast<size_t>(step);
  if (index >= steps_.size()) steps_.resize(index + 1);
  return steps_[index];
}

void Record::Add(const CallOutcome& outcome) {
  if (outcome.step < 0) return;
  Step& step = StepAt(outcome.step);
  Tally& tally = step.methods[outcome.method];
  step.late.Record(outcome.sent - outcome.intended);
  step.last_end = std::max(step.last_end, outcome.ended);
  tally.reply_bytes += outcome.reply_bytes;
  if (!outcome.error.empty()) {
    tally.failed.Record(outcome.ended - outcome.intended);
    Error& error = errors_[outcome.error];
    if (error.count++ == 0) error.code = outcome.code, error.message = outcome.message;
    return;
  }
  tally.latency.Record(outcome.ended - outcome.intended);
  tally.service.Record(outcome.ended - outcome.sent);
  if (outcome.server >= 0) tally.server.Record(outcome.server);
}

void Record::AddEnd(int step) {
  if (step >= 0) ++StepAt(step).ended;
}

void Record::Merge(const Record& other) {
  for (size_t i = 0; i < other.steps_.size(); ++i) {
    const Step& from = other.steps_[i];
    Step& to = StepAt(static_cast<int>(i));
    for (const auto& [method, tally] : from.methods) to.methods[method].Merge(tally);
    to.late.Merge(from.late);
    to.ended += from.ended;
    to.last_end = std::max(to.last_end, from.last_end);
  }
  for (const auto& [name, error] : other.errors_) {
    Error& mine = errors_[name];
    if (mine.count == 0) mine.code = error.code, mine.message = error.message;
    mine.count += error.count;
  }
}

}  // namespace vicinal::client::load
