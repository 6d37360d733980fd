// SPDX-License-Identifier: Apache-2.0
// Attention weights of a node with very many in-edges end where nobody waits for them any more, and their scratch
// counts.
#include "engine/execute/links/attention_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "engine/base/error.h"
#include "tests/engine/plan/plan_testing.h"

namespace vicinal::testing {
namespace {

constexpr int64_t kHubNodes = 100, kHubEdges = 50'000;

// All edges end at node 0.
class HubTest : public ::testing::Test {
 protected:
  HubTest() : terms_(2 * kHubNodes, 0.5f), links_(2 * kHubEdges), weights_(kHubEdges) {
    std::mt19937 random(3);
    EdgeList edges = RandomEdges(kHubNodes, kHubEdges, false, random);
    std::fill(edges.target.begin(), edges.target.end(), 0);
    graph_ = PrepareEdges(edges, OrderKind::kNone);
    source_.step.kind = AttentionKind::kDot;
    source_.step.adjacency.loops = SelfLoops::kAsSent;
    query_.kind = LinkQuery::Kind::kAttention;
    query_.attention = &source_;
    query_.nodes = {0};
    query_.rows = kHubEdges;
    job_.query = &query_;
    job_.graph = graph_.get();
    job_.terms = {terms_.data(), kHubNodes, 2, 2};
    job_.links = links_.data();
    job_.weights = weights_.data();
  }

  std::vector<float> terms_;
  std::vector<int64_t> links_;
  std::vector<float> weights_;
  std::shared_ptr<const PreparedGraph> graph_;
  AttentionSource source_;
  LinkQuery query_;
  AttentionJob job_;
};

TEST_F(HubTest, StopsWithinANode) {
  ThreadPool pool(1);
  int asked = 0;
  const StopCheck late = [&asked]() -> Status {
    return ++asked < 5 ? OkStatus() : DeadlineExceeded("LATE", "nobody waits");
  };
  EXPECT_EQ(WeighEdges(job_, &pool, late).code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(asked, 5) << "after the first no, nothing is asked";
  const StopCheck go_on = [] { return OkStatus(); };
  ASSERT_TRUE(WeighEdges(job_, &pool, go_on).ok());
  EXPECT_FLOAT_EQ(weights_.back(), 1.0f / kHubEdges) << "all scores are equal";
}

TEST_F(HubTest, ScoresOfANodeCountOnEachThreadThatHasOne) {
  QueuedRequest request;
  request.graph = graph_;
  request.links = std::make_shared<LinkQuery>(query_);
  const int64_t one = AttentionScratchBytes(request, 1);
  EXPECT_GE(one, kHubEdges * static_cast<int64_t>(16 + sizeof(double)));
  EXPECT_EQ(AttentionScratchBytes(request, 8), one) << "one node keeps one thread busy";
  request.nodes.all = true;
  EXPECT_GE(AttentionScratchBytes(request, 8), 8 * kHubEdges * static_cast<int64_t>(16 + sizeof(double)));
}

}  // namespace
}  // namespace vicinal::testing
