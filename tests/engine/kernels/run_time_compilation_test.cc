// SPDX-License-Identifier: Apache-2.0
// What a backend reports of the kernels that it compiles reaches whoever owns the engine, while it lives.
#include "engine/kernels/run_time_compilation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace vicinal {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

class CountedCompilations final : public StatsSink {
 public:
  void StageSeconds(std::string_view, double) override {}
  void PhaseSeconds(std::string_view, double) override {}
  void QueueDepth(int64_t) override {}
  void KernelCompiled(std::string_view outcome, double seconds) override {
    counted.emplace_back(std::string(outcome), seconds);
  }

  std::vector<std::pair<std::string, double>> counted;
};

TEST(RunTimeCompilationTest, CountsWithTheStatisticsOfTheOwner) {
  CountRunTimeCompilation("compiled", 1.0);  // nobody counts
  CountedCompilations stats;
  {
    const ScopedRunTimeCompilation owner({"directory", "", {}, 0}, &Logger::Null(), &stats);
    EXPECT_EQ(CurrentRunTimeCompilation().directory, "directory");
    CountRunTimeCompilation("compiled", 2.5);
    CountRunTimeCompilation("kept", 0.25);
  }
  CountRunTimeCompilation("failed", 3.0);  // its owner is gone
  EXPECT_THAT(stats.counted, ElementsAre(Pair("compiled", 2.5), Pair("kept", 0.25)));
  EXPECT_EQ(CurrentRunTimeCompilation().directory, "");
}

}  // namespace
}  // namespace vicinal
