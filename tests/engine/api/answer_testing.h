// SPDX-License-Identifier: Apache-2.0
// What tests of kept answers share: a record of the passes, a clock, and a request that keeps the executor busy.
#ifndef VICINAL_TESTS_ENGINE_API_ANSWER_TESTING_H_
#define VICINAL_TESTS_ENGINE_API_ANSWER_TESTING_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <future>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/api/engine.h"
#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "engine/base/stats.h"

namespace vicinal::testing {

// Counts the passes by outcome, and lets a test wait for one.
class PassRecorder final : public StatsSink {
 public:
  void StageSeconds(std::string_view, double) override {}
  void PhaseSeconds(std::string_view, double) override {}
  void QueueDepth(int64_t) override {}
  void AnswerPass(std::string_view outcome, double) override {
    MutexLock lock(&mutex_);
    outcomes_.emplace_back(outcome);
    ended_.NotifyAll();
  }
  void AnswersEvicted() override { ++evicted; }
  // The outcome of pass number `index` that was not interrupted.
  std::string Await(size_t index) {
    MutexLock lock(&mutex_);
    for (;;) {
      size_t seen = 0;
      for (const std::string& outcome : outcomes_) {
        if (outcome != "interrupted" && seen++ == index) return outcome;
      }
      ended_.Wait(&mutex_);
    }
  }

  std::atomic<int> evicted{0};

 private:
  Mutex mutex_;
  CondVar ended_;
  std::vector<std::string> outcomes_ VICINAL_GUARDED_BY(mutex_);
};

// Stands still, or goes on by a step with each look.
class SteppingClock final : public Clock {
 public:
  MonotonicTime Now() const override { return MonotonicTime(Nanoseconds(now_ += step_)); }
  WallTime WallNow() const override { return WallTime(); }
  void GoOn(Nanoseconds step) { step_ = step.count(); }
  void Skip(Nanoseconds time) { now_ += time.count(); }

 private:
  mutable std::atomic<int64_t> now_{1'000'000'000};
  std::atomic<int64_t> step_{0};
};

// Keeps the executor busy until it is destroyed, with a request that is computed.
class Busy {
 public:
  Busy(Engine& engine, InferenceRequest request) {
    request.options.receptive_field = ReceptiveField::kNever;
    const Status queued = engine.Submit(std::move(request), [this](const StatusOr<InferenceResult>&) {
      begun_.set_value();
      let_go_.get_future().wait();
      ended_.set_value();
    });
    EXPECT_TRUE(queued.ok()) << queued;
    begun_.get_future().wait();
  }
  ~Busy() {
    let_go_.set_value();
    ended_.get_future().wait();
  }

 private:
  std::promise<void> begun_, let_go_, ended_;
};

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_API_ANSWER_TESTING_H_
