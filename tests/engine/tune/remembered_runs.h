// SPDX-License-Identifier: Apache-2.0
// What a state directory remembers of first runs, in memory, for tests of those who tell it.
#ifndef VICINAL_TESTS_ENGINE_TUNE_REMEMBERED_RUNS_H_
#define VICINAL_TESTS_ENGINE_TUNE_REMEMBERED_RUNS_H_

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/tune/first_runs.h"

namespace vicinal::testing {

// Thread-safe.
class RememberedRuns final : public FirstRuns {
 public:
  std::string WhyQuarantined(const std::string& configuration) const override {
    MutexLock lock(&mutex_);
    const auto found = failed_.find(configuration);
    return found == failed_.end() ? "" : "quarantined: " + found->second;
  }
  int64_t revision() const override {
    MutexLock lock(&mutex_);
    return static_cast<int64_t>(failed_.size());
  }
  bool HasEndedWell(const std::string& configuration) const override {
    MutexLock lock(&mutex_);
    return well_.contains(configuration);
  }
  void Begin(const std::string& configuration) override {
    MutexLock lock(&mutex_);
    EXPECT_EQ(running_, "") << "one at a time";
    running_ = configuration;
    begun_.push_back(configuration);
  }
  void End(const std::string& configuration, const Status& run) override {
    MutexLock lock(&mutex_);
    EXPECT_EQ(std::exchange(running_, ""), configuration);
    if (run.ok()) well_.insert(configuration);
    if (run.code() == StatusCode::kInternal) failed_[configuration] = std::string(run.message());
  }
  void Doubt(const std::vector<std::string>& configurations) override {
    MutexLock lock(&mutex_);
    for (const std::string& configuration : configurations) well_.erase(configuration);
  }

  void Quarantine(const std::string& configuration) {
    MutexLock lock(&mutex_);
    failed_[configuration] = "by the test";
  }
  std::vector<std::string> TakeBegun() {
    MutexLock lock(&mutex_);
    return std::exchange(begun_, {});
  }

 private:
  mutable Mutex mutex_;
  std::string running_ VICINAL_GUARDED_BY(mutex_);
  std::vector<std::string> begun_ VICINAL_GUARDED_BY(mutex_);
  std::set<std::string> well_ VICINAL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> failed_ VICINAL_GUARDED_BY(mutex_);
};

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_TUNE_REMEMBERED_RUNS_H_
