// SPDX-License-Identifier: Apache-2.0
#include "engine/durable/kernel_quarantine.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/durable/failures.h"

namespace vicinal::durable {
namespace {

constexpr int64_t kMostInterrupted = 2;

}  // namespace

KernelQuarantine::KernelQuarantine(Parts parts) : parts_(std::move(parts)) {
  MutexLock lock(&mutex_);
  if (parts_.files != nullptr) Read();
  if (parts_.followed != nullptr) ReadFollowed();
  marks_.device = parts_.device;
  if (std::exchange(marks_.build, parts_.build) != parts_.build) marks_.proven.clear();
  CountInterrupted();
}

void KernelQuarantine::Read() {
  StatusOr<state::KernelMarks> kept = state::ReadKernelMarks(*parts_.files, state::KernelMarksFile(parts_.device));
  if (kept.ok()) {
    marks_ = *std::move(kept);
  } else if (kept.status().code() != StatusCode::kNotFound) {
    may_write_ = kept.status().code() == StatusCode::kDataLoss;
    parts_.stats->StateFailure(FailureKind(kept.status()));
    parts_.logger->Log(LogLevel::kWarning, "quarantine of kernel configurations not read: it begins empty",
                       {{"error", std::string(kept.status().message())}});
  }
}

void KernelQuarantine::ReadFollowed() {
  StatusOr<state::KernelMarks> kept = state::ReadKernelMarks(*parts_.followed, state::KernelMarksFile(parts_.device));
  if (kept.ok()) followed_ = std::move(kept->quarantined);  // what is wrong with the file is the writer's to tell
}

void KernelQuarantine::CountInterrupted() {
  for (const std::string& configuration : std::exchange(marks_.running, {})) {
    if (++marks_.interrupted[configuration] < kMostInterrupted) {
      parts_.logger->Log(LogLevel::kWarning,
                         "a kernel configuration was running for the first time when a server ended",
                         {{"configuration", configuration}});
    } else {
      Quarantine(configuration,
                 absl::StrCat(kMostInterrupted, " servers ended while it ran for the first time on this device"));
    }
  }
}

void KernelQuarantine::Quarantine(const std::string& configuration, const std::string& reason) {
  marks_.interrupted.erase(configuration);
  marks_.proven.erase(configuration);
  marks_.quarantined[configuration] = reason;
  revision_.fetch_add(1, std::memory_order_release);
  Write();
  parts_.logger->Log(LogLevel::kError, "kernel configuration quarantined",
                     {{"configuration", configuration}, {"device", parts_.device}, {"reason", reason}});
}

void KernelQuarantine::Write() {
  if (parts_.files == nullptr || !may_write_) return;
  const Status written = state::WriteKernelMarks(*parts_.files, marks_);
  if (written.ok()) return;
  parts_.stats->StateFailure(FailureKind(written));
  parts_.logger->Log(LogLevel::kWarning, "marks of kernel configurations not written",
                     {{"error", std::string(written.message())}});
}

std::string KernelQuarantine::WhyQuarantined(const std::string& configuration) const {
  MutexLock lock(&mutex_);
  for (const auto* quarantined : {&marks_.quarantined, &followed_}) {
    const auto found = quarantined->find(configuration);
    if (found != quarantined->end()) return absl::StrCat("quarantined: ", found->second);
  }
  return {};
}

bool KernelQuarantine::HasEndedWell(const std::string& configuration) const {
  MutexLock lock(&mutex_);
  return marks_.proven.contains(configuration);
}

void KernelQuarantine::Begin(const std::string& configuration) {
  MutexLock lock(&mutex_);
  if (marks_.proven.contains(configuration)) return;
  if (marks_.running.insert(configuration).second) Write();
}

void KernelQuarantine::End(const std::string& configuration, const Status& run) {
  const bool failed = run.code() == StatusCode::kInternal;
  {
    MutexLock lock(&mutex_);
    const bool is_first = marks_.running.erase(configuration) > 0;
    if (failed) {
      Quarantine(configuration, std::string(run.message()));
    } else if (is_first) {
      // A plan that was built before may have run what is quarantined meanwhile; that lifts nothing.
      if (run.ok() && !marks_.quarantined.contains(configuration)) {
        marks_.proven.insert(configuration);
        marks_.interrupted.erase(configuration);
      }
      Write();
    }
  }
  if (failed && parts_.on_quarantine) parts_.on_quarantine(configuration);
}

void KernelQuarantine::Doubt(const std::vector<std::string>& configurations) {
  MutexLock lock(&mutex_);
  size_t doubted = 0;
  for (const std::string& configuration : configurations) doubted += marks_.proven.erase(configuration);
  if (doubted > 0) Write();
}

int64_t KernelQuarantine::count() const {
  MutexLock lock(&mutex_);
  int64_t count = static_cast<int64_t>(marks_.quarantined.size());
  for (const auto& [configuration, why] : followed_) count += marks_.quarantined.contains(configuration) ? 0 : 1;
  return count;
}

}  // namespace vicinal::durable
