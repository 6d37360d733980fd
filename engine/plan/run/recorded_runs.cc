// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/run/recorded_runs.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/base/error.h"

namespace vicinal::internal {
namespace {

bool IsRefusal(const Status& status) {
  const auto detail = DetailOf(status);
  return detail.has_value() && detail->reason == kCannotRecordReason;
}

}  // namespace

FeatureAddress FeatureAddress::Of(const RunInputs& inputs) {
  const FeatureMatrix& features = inputs.features;
  FeatureAddress address;
  if (features.sparse()) {
    const CsrView csr = features.csr();
    address = {csr.value, csr.col, csr.row_ptr, csr.nnz};
  } else {
    address = {features.dense().data, nullptr, nullptr, features.entries()};
  }
  if (inputs.edges == nullptr) return address;
  address.edges = inputs.edges->values();
  address.edge_means = inputs.edges->means();
  return address;
}

Status RecordedRuns::Run(DeviceContext& context, const RunInputs& inputs, const StopCheck& stop, StatsSink& stats) {
  if (stop) VICINAL_RETURN_IF_ERROR(stop());
  const FeatureAddress address = FeatureAddress::Of(inputs);
  Entry* const entry = Find(address);
  Status ran;
  if (entry == nullptr) {
    ran = RunFirst(context, address, stop);
  } else if (untimed_runs_ >= kTimedEvery) {
    ran = RunTimed(context, stats);
  } else if (refused_) {
    ran = RunOneByOne(context, stop);
  } else {
    ran = Replay(context, entry);
    if (ran.ok()) ran = context.Synchronize();
  }
  ++untimed_runs_;
  return ran;
}

Status RecordedRuns::RunQueued(DeviceContext& context, const RunInputs& inputs, int count) {
  const FeatureAddress address = FeatureAddress::Of(inputs);
  for (int run = 0; run < count; ++run) {
    Entry* const entry = Find(address);
    VICINAL_RETURN_IF_ERROR(entry != nullptr ? Replay(context, entry) : RunFirst(context, address, nullptr));
  }
  return context.Synchronize();
}

std::string RecordedRuns::refusal() const {
  MutexLock lock(&mutex_);
  return refusal_;
}

RecordedRuns::Entry* RecordedRuns::Find(const FeatureAddress& address) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.address == address; });
  if (found != entries_.end()) {
    std::rotate(found, found + 1, entries_.end());
    return &entries_.back();
  }
  const auto seen = std::find(seen_once_.begin(), seen_once_.end(), address);
  if (seen == seen_once_.end()) return nullptr;
  seen_once_.erase(seen);
  if (entries_.size() == kMaxRecordings) entries_.erase(entries_.begin());
  entries_.push_back({address, {}});
  return &entries_.back();
}

Status RecordedRuns::RunFirst(DeviceContext& context, const FeatureAddress& address, const StopCheck& stop) {
  VICINAL_RETURN_IF_ERROR(RunOneByOne(context, stop));
  if (seen_once_.size() == kMaxSeenOnce) seen_once_.erase(seen_once_.begin());
  seen_once_.push_back(address);
  return OkStatus();
}

Status RecordedRuns::LaunchAll(DeviceContext& context, DeviceTimer* timer) const {
  if (timer != nullptr) VICINAL_RETURN_IF_ERROR(timer->Mark(0));
  int point = 0;
  for (const auto& launch : launches_) {
    VICINAL_RETURN_IF_ERROR(launch->RunUncounted(context));
    if (timer != nullptr) VICINAL_RETURN_IF_ERROR(timer->Mark(++point));
  }
  return OkStatus();
}

Status RecordedRuns::RunOneByOne(DeviceContext& context, const StopCheck& stop) const {
  for (const auto& launch : launches_) {
    if (stop) VICINAL_RETURN_IF_ERROR(stop());
    VICINAL_RETURN_IF_ERROR(launch->Run(context));
    launch->full.Count();
  }
  return context.Synchronize();
}

Status RecordedRuns::RunTimed(DeviceContext& context, StatsSink& stats) {
  VICINAL_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceTimer> timer,
                           context.MakeTimer(static_cast<int>(launches_.size()) + 1));
  std::unique_ptr<Recording> recording;
  if (!refused_) {
    VICINAL_ASSIGN_OR_RETURN(recording, Record(context, timer.get()));
  }
  CountRuns();
  VICINAL_RETURN_IF_ERROR(recording != nullptr ? context.Replay(*recording) : LaunchAll(context, timer.get()));
  VICINAL_RETURN_IF_ERROR(context.Synchronize());
  int point = 0;
  for (const auto& launch : launches_) {
    VICINAL_ASSIGN_OR_RETURN(const double seconds, timer->Seconds(point, point + 1));
    ++point;
    launch->full.AddTime(std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(seconds)));
    stats.PhaseSeconds(launch->info.operation, seconds);
  }
  untimed_runs_ = 0;
  return OkStatus();
}

Status RecordedRuns::Replay(DeviceContext& context, Entry* entry) {
  CountRuns();
  for (const auto& recording : entry->recordings) {
    Status replayed = context.Replay(*recording);
    if (!IsRefusal(replayed)) return replayed;
  }
  // This context has recorded nothing yet.
  std::unique_ptr<Recording> recording;
  if (!refused_) {
    VICINAL_ASSIGN_OR_RETURN(recording, Record(context, nullptr));
  }
  if (recording == nullptr) return LaunchAll(context, nullptr);
  if (entry->recordings.size() == kMaxContexts) entry->recordings.erase(entry->recordings.begin());
  entry->recordings.push_back(std::move(recording));
  return context.Replay(*entry->recordings.back());
}

StatusOr<std::unique_ptr<Recording>> RecordedRuns::Record(DeviceContext& context, DeviceTimer* timer) {
  StatusOr<std::unique_ptr<Recording>> recording =
      context.Record([this, &context, timer] { return LaunchAll(context, timer); });
  if (recording.ok() || !IsRefusal(recording.status())) return recording;
  refused_ = true;
  MutexLock lock(&mutex_);
  refusal_ = std::string(recording.status().message());
  return std::unique_ptr<Recording>();
}

void RecordedRuns::CountRuns() const {
  for (const auto& launch : launches_) launch->CountRun(), launch->full.Count();
}

}  // namespace vicinal::internal
