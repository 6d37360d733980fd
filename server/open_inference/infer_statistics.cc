// SPDX-License-Identifier: Apache-2.0
#include "server/open_inference/infer_statistics.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace vicinal::server {

InferStatistics::Entry& InferStatistics::Touch(const std::string& name, WallTime now) {
  auto found = entries_.find(name);
  if (found == entries_.end()) {
    if (entries_.size() >= kMostModels) {
      entries_.erase(std::min_element(entries_.begin(), entries_.end(),
                                      [](const auto& a, const auto& b) { return a.second.last < b.second.last; }));
    }
    found = entries_.emplace(name, Entry{}).first;
  }
  found->second.last = now;
  return found->second;
}

void InferStatistics::Succeeded(const std::string& name, int64_t version, const v1::Timing& timing, double seconds,
                                WallTime now) {
  MutexLock lock(&mutex_);
  Entry& entry = Touch(name, now);
  entry.version = version;
  entry.last_success = now;
  entry.success.Add(seconds);
  entry.queue.Add(timing.queue_seconds());
  entry.plan.Add(timing.plan_seconds());
  entry.execute.Add(timing.execute_seconds());
  const double known = timing.queue_seconds() + timing.plan_seconds() + timing.execute_seconds();
  entry.rest.Add(std::max(0.0, seconds - known));
  if (timing.kept_answers()) entry.kept.Add(seconds);
  if (timing.run_request_count() > 0) entry.runs += 1.0 / timing.run_request_count();
}

void InferStatistics::Failed(const std::string& name, double seconds, WallTime now) {
  MutexLock lock(&mutex_);
  Touch(name, now).fail.Add(seconds);
}

void InferStatistics::Set(const Duration& duration, inference::StatisticDuration* out) {
  out->set_count(duration.count);
  out->set_ns(static_cast<uint64_t>(duration.seconds * 1e9));
}

inference::ModelStatistics InferStatistics::ToProto(const std::string& name, const Entry& entry) {
  inference::ModelStatistics out;
  out.set_name(name);
  if (entry.version > 0) out.set_version(std::to_string(entry.version));
  const auto last = std::chrono::duration_cast<std::chrono::milliseconds>(entry.last_success.time_since_epoch());
  out.set_last_inference(static_cast<uint64_t>(std::max<int64_t>(0, last.count())));
  out.set_inference_count(entry.success.count);
  out.set_execution_count(static_cast<uint64_t>(std::llround(entry.runs)));
  inference::InferStatistics* const times = out.mutable_inference_stats();
  Set(entry.success, times->mutable_success());
  Set(entry.fail, times->mutable_fail());
  Set(entry.queue, times->mutable_queue());
  Set(entry.plan, times->mutable_compute_input());
  Set(entry.execute, times->mutable_compute_infer());
  Set(entry.rest, times->mutable_compute_output());
  Set(entry.kept, times->mutable_cache_hit());
  return out;
}

inference::ModelStatistics InferStatistics::Of(const std::string& name) const {
  MutexLock lock(&mutex_);
  const auto found = entries_.find(name);
  return ToProto(name, found == entries_.end() ? Entry{} : found->second);
}

std::vector<inference::ModelStatistics> InferStatistics::All() const {
  MutexLock lock(&mutex_);
  std::vector<inference::ModelStatistics> all;
  all.reserve(entries_.size());
  for (const auto& [name, entry] : entries_) all.push_back(ToProto(name, entry));
  return all;
}

}  // namespace vicinal::server
