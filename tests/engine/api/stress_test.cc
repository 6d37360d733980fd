// SPDX-License-Identifier: Apache-2.0
// Requests from several threads while graphs and models are replaced, deleted and explained: for the thread sanitizer
// above all. Every answer is either right for one of the versions that ever were, or an error that names what was
// missing.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "tests/engine/api/small_world.h"

namespace vicinal::testing {
namespace {

TEST(EngineStress, VersionsChangeUnderRunningRequests) {
  auto engine = MakeEngine();
  PutSmallWorld(*engine);
  // The four answers that may be seen: two graphs times two models.
  std::vector<std::vector<float>> answers;
  for (const float graph : {3.0f, 0.25f}) {
    GraphSource source = SmallGraph("g", graph);
    source.replace = true;
    ASSERT_TRUE(engine->PutGraph(source).ok());
    ASSERT_TRUE(AwaitGraph(*engine, "g").ok());
    for (const float weights : {0.25f, -0.5f}) {
      ModelSource model = SmallModel("m", weights);
      model.replace = true;
      ASSERT_TRUE(engine->PutModel(model, {}).ok());
      answers.push_back(Infer(*engine, AllNodes("g", "m"))->values);
    }
  }
  std::atomic<bool> stop{false};
  std::atomic<int64_t> right{0}, missing{0}, wrong{0};
  const auto ask = [&] {
    while (!stop) {
      const auto got = Infer(*engine, AllNodes("g", "m"));
      if (got.ok()) {
        const bool known = std::find(answers.begin(), answers.end(), got->values) != answers.end();
        ++(known ? right : wrong);
      } else {
        const bool expected =
            got.status().code() == StatusCode::kNotFound || got.status().code() == StatusCode::kFailedPrecondition;
        ++(expected ? missing : wrong);
      }
      (void)engine->memory().Snapshot();
    }
  };
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i) clients.emplace_back(ask);
  clients.emplace_back([&] {
    while (!stop) (void)engine->Explain(AllNodes("g", "m"));
  });
  for (int round = 0; round < 30; ++round) {
    GraphSource source = SmallGraph("g", round % 2 ? 3.0f : 0.25f);
    source.replace = true;
    (void)engine->PutGraph(source);
    ModelSource model = SmallModel("m", round % 2 ? 0.25f : -0.5f);
    model.replace = true;
    (void)engine->PutModel(model, {});
    if (round % 7 == 3) (void)engine->DeleteGraph("g", 0);
    if (round % 7 == 5) (void)engine->DeleteModel("m", 0);
    (void)AwaitGraph(*engine, "g");
  }
  while (right == 0) std::this_thread::yield();
  stop = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(right, 0);
  EXPECT_TRUE(engine->Drain(Clock::Real().Now() + std::chrono::hours(1)));
}

}  // namespace
}  // namespace vicinal::testing
