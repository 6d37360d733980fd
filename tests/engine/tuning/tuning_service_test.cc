// SPDX-License-Identifier: Apache-2.0
// The service by itself: what it must not do while it holds its lock.
#include "engine/tuning/tuning_service.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>

#include "tests/engine/execute/numbered_requests.h"

namespace vicinal::testing {
namespace {

// Freeing a graph gives back gigabytes and takes long; whoever orders or considers tuning would wait for it. Here the
// service holds a graph last, and its end asks something of the service: it would wait for itself.
TEST(TuningService, LetsGoOfGraphsWithoutItsLock) {
  const std::unique_ptr<Device> device = MakeCpuDevice(1);
  ScriptedRunner runner;
  Executor executor(*device, &runner, {1, &Clock::Real(), nullptr});
  const auto other = std::make_shared<const PreparedGraph>(PreparedGraph::Parts(), device.get());
  std::shared_ptr<const PreparedGraph> graph;
  TuningService::Parts parts;
  parts.device = device.get();
  parts.clock = &Clock::Real();
  parts.budget_per_key = std::chrono::seconds(1);
  // Replaced at the worst moment: between the look whether it is there and the look whether it serves.
  parts.is_current = [&](const PreparedGraph&) {
    graph.reset();
    return false;
  };
  TuningService service(std::move(parts));
  std::promise<void> freed;
  graph = std::shared_ptr<const PreparedGraph>(new PreparedGraph(PreparedGraph::Parts(), device.get()),
                                               [&](const PreparedGraph* last) {
                                                 service.Consider(other);
                                                 delete last;
                                                 freed.set_value();
                                               });
  service.Consider(graph);
  service.Start(&executor);
  freed.get_future().wait();
  service.Stop();
}

}  // namespace
}  // namespace vicinal::testing
