// SPDX-License-Identifier: Apache-2.0
#include "server/trimmer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <vector>

#include "engine/base/sanitized.h"

namespace vicinal::server {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(TrimmerTest, TrimsAfterABurstAndNotAgainWithoutAnother) {
  int64_t resident = 100 * kMiB, free = 0;
  int trims = 0;
  Trimmer trimmer({[&] { return resident; }, [&] { return free; },
                   [&] {
                     ++trims;
                     resident -= 150 * kMiB;
                   }});
  trimmer.Look();
  resident = 300 * kMiB;  // in use
  trimmer.Look();
  EXPECT_EQ(trims, 0);
  free = 150 * kMiB;
  trimmer.Look();
  EXPECT_EQ(trims, 1);
  // It stays free, but was given back.
  trimmer.Look();
  EXPECT_EQ(trims, 1);
  resident = 150 * kMiB + Trimmer::kWorthwhileBytes - 1;
  trimmer.Look();
  EXPECT_EQ(trims, 1);
  resident += 1;
  trimmer.Look();
  EXPECT_EQ(trims, 2);
}

TEST(TrimmerTest, GrowthCountsFromTheSmallest) {
  int64_t resident = 500 * kMiB;
  int trims = 0;
  Trimmer trimmer({[&] { return resident; }, [] { return 500 * kMiB; }, [&] { ++trims; }});
  trimmer.Look();
  resident = 100 * kMiB;
  trimmer.Look();
  resident = 200 * kMiB;
  trimmer.Look();
  EXPECT_EQ(trims, 1);
}

// As where thousands of connections with unread answers are trimmed while they are open, and end later.
TEST(TrimmerTest, WhatIsFreedAfterATrimIsGivenBackToo) {
  int64_t resident = 3000 * kMiB, free = 20 * kMiB, in_use = 100 * kMiB;
  Trimmer trimmer({[&] { return resident; }, [&] { return free; }, [&] { resident = in_use; }});
  resident = in_use;
  trimmer.Look();
  resident = in_use = 3000 * kMiB;
  trimmer.Look();
  in_use = 100 * kMiB;
  free += 2900 * kMiB;
  trimmer.Look();
  EXPECT_EQ(resident, in_use);
}

// As where graphs come and go for hours: a little more becomes free and stays with each.
TEST(TrimmerTest, WhatGrowsBitByBitIsGivenBack) {
  constexpr int64_t kInUse = 100 * kMiB;
  int64_t resident = kInUse, free = Trimmer::kWorthwhileBytes;
  Trimmer trimmer({[&] { return resident; }, [&] { return free; }, [&] { resident = kInUse; }});
  for (int i = 0; i < 1000; ++i) {
    trimmer.Look();
    ASSERT_LT(resident, kInUse + Trimmer::kWorthwhileBytes);
    resident += kMiB;
    free += kMiB;
  }
}

// Small blocks between which others stay: free, but not at the end of the heap.
TEST(TrimmerTest, TheRealMachineGivesMemoryBack) {
#if VICINAL_SANITIZED
  GTEST_SKIP() << "a sanitizer has an allocator of its own";
#endif
  const Trimmer::Machine machine = Trimmer::RealMachine();
  Trimmer trimmer(machine);
  trimmer.Look();
  const int64_t before = machine.resident_bytes();
  ASSERT_GT(before, 0);
  std::vector<std::unique_ptr<char[]>> blocks;
  for (int i = 0; i < 200'000; ++i) blocks.push_back(std::make_unique<char[]>(1024));
  for (size_t i = 0; i + 1 < blocks.size(); ++i) {
    if (i % 64 != 0) blocks[i].reset();
  }
  EXPECT_GT(machine.resident_bytes() - before, 150 * kMiB);
  trimmer.Look();
  EXPECT_LT(machine.resident_bytes() - before, 60 * kMiB);
}

}  // namespace
}  // namespace vicinal::server
