// SPDX-License-Identifier: Apache-2.0
// Injected time: code that measures, expires or waits takes a Clock, so that tests never sleep.
#ifndef VICINAL_ENGINE_BASE_CLOCK_H_
#define VICINAL_ENGINE_BASE_CLOCK_H_

#include <atomic>
#include <chrono>
#include <cstdint>

namespace vicinal {

using Nanoseconds = std::chrono::nanoseconds;
using MonotonicTime = std::chrono::steady_clock::time_point;
using WallTime = std::chrono::system_clock::time_point;

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual MonotonicTime Now() const = 0;
  virtual WallTime WallNow() const = 0;

  // The real clock; lives for ever.
  static const Clock& Real();
};

// A clock for tests that advances only on request. Thread-safe.
class FakeClock final : public Clock {
 public:
  MonotonicTime Now() const override { return MonotonicTime(Nanoseconds(now_ns_.load())); }
  WallTime WallNow() const override {
    return WallTime(std::chrono::duration_cast<WallTime::duration>(Nanoseconds(now_ns_.load())));
  }
  void Advance(Nanoseconds by) { now_ns_ += by.count(); }

 private:
  std::atomic<int64_t> now_ns_{1'000'000'000};
};

inline double SecondsBetween(MonotonicTime begin, MonotonicTime end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace vicinal

#endif  // VICINAL_ENGINE_BASE_CLOCK_H_
