// SPDX-License-Identifier: Apache-2.0
// For what a test can only ask about: another process or thread reaches it, and nobody tells.
#ifndef VICINAL_TESTS_SUPPORT_EVENTUALLY_H_
#define VICINAL_TESTS_SUPPORT_EVENTUALLY_H_

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>

namespace vicinal::testing {

inline constexpr std::chrono::seconds kPatience{60};

// Asks until `done` says so; a failure once kPatience has passed.
template <class Done>
::testing::AssertionResult Eventually(Done done) {
  constexpr int kPauseMilliseconds = 2;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < end) {
    if (done()) return ::testing::AssertionSuccess();
    poll(nullptr, 0, kPauseMilliseconds);
  }
  return ::testing::AssertionFailure() << "not within " << kPatience.count() << " s";
}

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_SUPPORT_EVENTUALLY_H_
