// SPDX-License-Identifier: Apache-2.0
// The search for the best partners ends where nobody waits for it any more, and keeps within the memory budget.
#include "engine/execute/links/top_links.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "engine/base/error.h"
#include "tests/engine/plan/plan_testing.h"

namespace vicinal::testing {
namespace {

constexpr int64_t kNodes = 30'000, kWidth = 64;

class TopLinksTest : public ::testing::Test {
 protected:
  TopLinksTest() : rows_(kNodes * kWidth), node_rows_(kNodes), scores_(kNodes), links_(kNodes) {
    std::mt19937 random(2);
    for (float& value : rows_) value = static_cast<float>(random() % 100) / 50.0f - 1.0f;
    graph_ = PrepareEdges(RandomEdges(kNodes, kNodes, false, random), OrderKind::kNone);
    std::iota(node_rows_.begin(), node_rows_.end(), int64_t{0});
    query_.kind = LinkQuery::Kind::kPartners;
    query_.decoder = &decoder_;
    query_.nodes = node_rows_;
    query_.rows = query_.num_partners = kNodes;
    query_.all_partners = true;
    query_.k = 1;
    job_.query = &query_;
    job_.graph = graph_.get();
    job_.rows = job_.partners = {rows_.data(), kNodes, kWidth, kWidth};
    job_.node_rows = node_rows_.data();
    job_.scores = scores_.data();
    job_.links = links_.data();
  }

  const Decoder decoder_;
  std::vector<float> rows_;
  std::vector<int64_t> node_rows_;
  std::shared_ptr<const PreparedGraph> graph_;
  LinkQuery query_;
  std::vector<float> scores_;
  std::vector<int64_t> links_;
  TopLinksJob job_;
  MemoryBudget budget_{int64_t{1} << 30};
};

TEST_F(TopLinksTest, StopsBetweenBlocks) {
  for (const int threads : {1, 2}) {
    ThreadPool pool(threads);
    int asked = 0;
    const StopCheck stop = [&asked]() -> Status {
      return ++asked < 3 ? OkStatus() : DeadlineExceeded("LATE", "nobody waits");
    };
    const Status status = TopByProducts(job_, &pool, &budget_, stop);
    EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status;
    EXPECT_EQ(asked, 3) << "after the first no, nothing is asked";
  }
}

TEST_F(TopLinksTest, ListsAndExclusionsAreCounted) {
  ThreadPool pool(1);
  const StopCheck go_on = [] { return OkStatus(); };
  query_.k = kNodes;  // lists of 240,000 bytes for each node
  query_.nodes.resize(16);
  query_.rows = 16;
  scores_.resize(16 * kNodes);
  links_.resize(16 * kNodes);
  job_.scores = scores_.data();
  job_.links = links_.data();
  MemoryBudget small(2 << 20);
  EXPECT_EQ(DetailOf(TopByProducts(job_, &pool, &small, go_on))->reason, "OVER_BUDGET");
  EXPECT_TRUE(TopByProducts(job_, &pool, &budget_, go_on).ok());
  EXPECT_EQ(links_[kNodes - 1], -1) << "the node itself is left out";
}

// Lists for each node: 24 bytes for it, 4 for each row of the graph, 4 for each id that it must not get.
TEST_F(TopLinksTest, ListsOfExclusionsAreCountedBeforeTheyAreMade) {
  const StopCheck none_asked = []() -> Status { return InvalidArgument("ASKED", "", "the links were looked at"); };
  query_.exclude_links = true;
  const int64_t lists = 28 * kNodes;
  const auto reason = [&](MemoryBudget* budget, int64_t times) {
    query_.nodes.clear();
    for (int64_t i = 0; i < times; ++i) query_.nodes.insert(query_.nodes.end(), node_rows_.begin(), node_rows_.end());
    return DetailOf(TopByPairs(job_, nullptr, node_rows_, budget, none_asked))->reason;
  };
  MemoryBudget small(3 * lists);
  EXPECT_EQ(reason(&small, 2), "ASKED");
  EXPECT_EQ(reason(&small, 8), "OVER_BUDGET");
}

}  // namespace
}  // namespace vicinal::testing
