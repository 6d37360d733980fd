// SPDX-License-Identifier: Apache-2.0
// An engine with a state directory that is stopped and started again, and the lines that it logs.
#ifndef VICINAL_TESTS_ENGINE_DURABLE_RESTART_TESTING_H_
#define VICINAL_TESTS_ENGINE_DURABLE_RESTART_TESTING_H_

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "tests/engine/api/small_world.h"
#include "tests/engine/durable/lines.h"
#include "tests/support/temporary_directory.h"

namespace vicinal {

class RestartTest : public ::testing::Test {
 protected:
  EngineOptions Options() {
    EngineOptions options;
    options.num_threads = 2;
    options.device = "cpu";
    options.tuning_budget = Nanoseconds(0);
    options.state_dir = directory_ / "state";
    options.logger = &lines_;
    return options;
  }
  void Start() {
    auto engine = Engine::Create(Options());
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }
  // As a server stops: what was accepted is written.
  void Stop() {
    EXPECT_TRUE(engine_->Drain(std::chrono::steady_clock::now() + std::chrono::minutes(1)));
    engine_.reset();
  }
  // Waits until `reached` is true of the graph; returns it.
  GraphResource Await(const std::string& name, const std::function<bool(const GraphResource&)>& reached) {
    std::promise<void> promise;
    bool told = false;
    const auto look = [&] {
      const auto graph = engine_->GetGraph(name);
      if (told || !graph.ok() || !reached(*graph)) return;
      told = true;
      promise.set_value();
    };
    auto watch = engine_->WatchGraph(name, look);
    EXPECT_TRUE(watch.ok()) << watch.status();
    if (!reached(*engine_->GetGraph(name))) promise.get_future().wait();
    watch->reset();
    return *engine_->GetGraph(name);
  }
  GraphResource AwaitDurable(const std::string& name) {
    return Await(name, [](const GraphResource& graph) {
      return graph.state == GraphState::kReady && graph.serving->durability != Durability::kWriting;
    });
  }
  GraphResource AwaitLoaded(const std::string& name) {
    return Await(name, [](const GraphResource& graph) { return graph.state != GraphState::kLoading; });
  }
  static std::string ReasonOf(const Status& status) {
    const auto detail = DetailOf(status);
    return detail ? detail->reason : "";
  }
  void Put(GraphSource source) {
    const std::string name = source.name;
    ASSERT_TRUE(engine_->PutGraph(std::move(source)).ok());
    const auto graph = testing::AwaitGraph(*engine_, name);
    ASSERT_TRUE(graph.ok() && graph->state == GraphState::kReady) << graph.status();
  }
  std::string FileOf(const std::string& graph, int64_t version) const {
    return directory_ / ("state/graphs/" + graph + "/" + std::to_string(version) + "/graph.vsec");
  }

  TemporaryDirectory directory_;
  testing::Lines lines_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace vicinal

#endif  // VICINAL_TESTS_ENGINE_DURABLE_RESTART_TESTING_H_
