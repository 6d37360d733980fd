// SPDX-License-Identifier: Apache-2.0
// How long the room of receptive fields stays, and when it goes.
#include "engine/execute/receptive_field_memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "engine/reorder/order.h"

namespace vicinal::testing {
namespace {

class ReceptiveFieldMemoryTest : public ::testing::Test {
 protected:
  // Searches a field in a graph without edges, which takes room for all its nodes.
  void Search(int64_t nodes) {
    const ReceptiveFieldMemory::Use use(&room_);
    SearchIn(use.workspace(), nodes);
  }
  static void SearchIn(ReceptiveFieldWorkspace* workspace, int64_t nodes) {
    ReceptiveFieldShape shape;
    shape.num_nodes = nodes;
    shape.levels.resize(1);
    ASSERT_TRUE(
        workspace->finder.Find(shape, {nodes - 1}, Permutation::Identity(nodes), ReceptiveFieldFinder::kNoLimit, 1)
            .ok());
    EXPECT_EQ(workspace->finder.RowOf(static_cast<NodeId>(nodes - 1)), 0);
  }

  std::unique_ptr<Device> device_ = MakeCpuDevice(1);
  MemoryBudget budget_{0};
  int64_t held() const { return budget_.Snapshot().receptive_fields; }
  std::atomic<int64_t> largest_{0};
  ReceptiveFieldMemory room_{device_.get(), &budget_, [this] { return largest_.load(); }};
};

TEST_F(ReceptiveFieldMemoryTest, StaysWhileAGraphThatNeedsItServes) {
  largest_ = 1000;
  Search(1000);
  const int64_t before = held();
  EXPECT_GE(before, 4000);
  room_.Fit();
  Search(10);
  largest_ = 5000;  // a larger one that nobody asks
  room_.Fit();
  EXPECT_EQ(held(), before);
}

TEST_F(ReceptiveFieldMemoryTest, GoesWithTheGraphItWasMadeFor) {
  largest_ = 1000;
  Search(1000);
  largest_ = 999;
  room_.Fit();
  EXPECT_EQ(held(), 0);
  Search(999);
  EXPECT_GE(held(), 999 * 4);
  largest_ = 0;
  room_.Fit();
  EXPECT_EQ(held(), 0);
  room_.Fit();
}

TEST_F(ReceptiveFieldMemoryTest, GoesWhenARequestOfAGraphThatIsGoneHasUsedIt) {
  largest_ = 100;
  Search(100);
  EXPECT_GT(held(), 0);
  Search(1000);  // waited while its graph was deleted, or brought it along
  EXPECT_EQ(held(), 0);
}

TEST_F(ReceptiveFieldMemoryTest, IsNotTakenFromARequestButGoesAfterIt) {
  largest_ = 1000;
  {
    const ReceptiveFieldMemory::Use use(&room_);
    SearchIn(use.workspace(), 1000);
    const int64_t before = held();
    largest_ = 10;
    room_.Fit();
    EXPECT_FALSE(room_.Evict());
    EXPECT_EQ(held(), before);
    EXPECT_EQ(use.workspace()->finder.RowOf(999), 0);
  }
  EXPECT_EQ(held(), 0);
}

TEST_F(ReceptiveFieldMemoryTest, IsEvictedAndMadeAgain) {
  largest_ = 1000;
  Search(1000);
  EXPECT_TRUE(room_.Evict());
  EXPECT_EQ(held(), 0);
  EXPECT_FALSE(room_.Evict()) << "nothing is left to free";
  Search(1000);
  EXPECT_GE(held(), 4000);
}

// The sanitizers look on.
TEST_F(ReceptiveFieldMemoryTest, ManyMayWantItsMemory) {
  std::atomic<bool> done{false};
  std::vector<std::thread> others;
  others.emplace_back([&] {
    while (!done) room_.Evict();
  });
  others.emplace_back([&] {
    for (int64_t i = 0; !done; ++i) largest_ = i % 2000, room_.Fit();
  });
  for (int64_t i = 0; i < 2000; ++i) Search(1 + i % 1500);
  done = true;
  for (std::thread& other : others) other.join();
  room_.Evict();
  EXPECT_EQ(held(), 0);
}

}  // namespace
}  // namespace vicinal::testing
