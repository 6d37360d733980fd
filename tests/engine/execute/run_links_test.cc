// SPDX-License-Identifier: Apache-2.0
// Answers of links that are too large to be filled at once.
#include "engine/execute/links/run_links.h"

#include <absl/status/status.h>
#include <gtest/gtest.h>

#include <memory>

#include "engine/execute/links/link_query.h"

namespace vicinal {
namespace {

// A cancelled call for 20,000 partners of 20,000 nodes kept the executor for seconds, as its answer was filled with
// zeros before the first score.
TEST(RunLinks, ACallMayEndWhileItsAnswerIsFilled) {
  auto query = std::make_shared<LinkQuery>();
  query->kind = LinkQuery::Kind::kPartners;
  query->rows = 3000;
  query->k = 1000;
  QueuedRequest request;
  request.links = query;
  int asked = 0;
  const StopCheck stop = [&] { return ++asked < 4 ? OkStatus() : absl::CancelledError("gone"); };
  InferenceResult result;
  MemoryBudget budget(int64_t{1} << 30);
  LinkRun run;
  run.budget = &budget;
  run.stop = &stop;
  EXPECT_EQ(ScoreLinks(request, {}, run, &result).code(), StatusCode::kCancelled);
  EXPECT_EQ(asked, 4);
  EXPECT_LT(result.values.size(), 1'000'000u) << "of three million";
  EXPECT_TRUE(result.links.empty());
}

}  // namespace
}  // namespace vicinal
