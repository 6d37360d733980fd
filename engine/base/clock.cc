// SPDX-License-Identifier: Apache-2.0
#include "engine/base/clock.h"

namespace vicinal {
namespace {

class RealClock final : public Clock {
 public:
  MonotonicTime Now() const override { return std::chrono::steady_clock::now(); }
  WallTime WallNow() const override { return std::chrono::system_clock::now(); }
};

}  // namespace

const Clock& Clock::Real() {
  static const RealClock* const clock = new RealClock;
  return *clock;
}

}  // namespace vicinal
