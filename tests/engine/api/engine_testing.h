// SPDX-License-Identifier: Apache-2.0
// What tests of the engine's door share: an engine on the CPU, small graphs and models to put into it, and calls that
// wait.
#ifndef VICINAL_TESTS_ENGINE_API_ENGINE_TESTING_H_
#define VICINAL_TESTS_ENGINE_API_ENGINE_TESTING_H_

#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/api/engine.h"
#include "engine/create_engine.h"

namespace vicinal::testing {

template <class T>
std::string BytesOf(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

inline HostTensor Floats(const std::vector<float>& values, std::vector<int64_t> shape) {
  return {DataType::kFloat32, std::move(shape), BytesOf(values)};
}
inline HostTensor Ints(const std::vector<int64_t>& values, std::vector<int64_t> shape) {
  return {DataType::kInt64, std::move(shape), BytesOf(values)};
}

// `meter`: times that the test tells, for tuning; null: nothing is tuned in the background, so that launches can be
// counted.
inline std::unique_ptr<Engine> MakeEngine(EngineOptions options = {}, RunMeter* meter = nullptr) {
  if (options.num_threads == 0) options.num_threads = 2;
  if (options.device == "auto") options.device = "cpu";
  if (meter == nullptr) options.tuning_budget = Nanoseconds(0);
  auto engine = meter == nullptr ? Engine::Create(options) : CreateEngineWithMeter(options, meter);
  EXPECT_TRUE(engine.ok()) << engine.status();
  return engine.ok() ? *std::move(engine) : nullptr;
}

// Waits until `name` is no longer being prepared.
inline StatusOr<GraphResource> AwaitGraph(Engine& engine, const std::string& name) {
  std::promise<void> ended;
  bool told = false;
  const auto look = [&] {
    const auto status = engine.GetGraph(name);
    if (told || (status.ok() && status->state == GraphState::kPreparing)) return;
    told = true;
    ended.set_value();
  };
  auto watch = engine.WatchGraph(name, look);
  if (!watch.ok()) return watch.status();
  // It may have ended before the watch began; afterwards every change is told.
  const auto now = engine.GetGraph(name);
  if (now.ok() && now->state == GraphState::kPreparing) ended.get_future().wait();
  watch->reset();
  return engine.GetGraph(name);
}

// Submits and waits for the answer.
inline StatusOr<InferenceResult> Infer(Engine& engine, InferenceRequest request) {
  auto answer = std::make_shared<std::promise<StatusOr<InferenceResult>>>();
  const Status queued = engine.Submit(
      std::move(request), [answer](StatusOr<InferenceResult> result) { answer->set_value(std::move(result)); });
  if (!queued.ok()) return queued;
  return answer->get_future().get();
}

inline StatusOr<InferenceResult> InferBatch(Engine& engine, GraphBatchRequest request) {
  auto answer = std::make_shared<std::promise<StatusOr<InferenceResult>>>();
  const Status queued = engine.SubmitBatch(
      std::move(request), [answer](StatusOr<InferenceResult> result) { answer->set_value(std::move(result)); });
  if (!queued.ok()) return queued;
  return answer->get_future().get();
}

// All nodes of `graph` through `model`.
inline InferenceRequest AllNodes(const std::string& graph, const std::string& model) {
  InferenceRequest request;
  request.graph = graph;
  request.model = model;
  request.nodes.all = true;
  return request;
}

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_API_ENGINE_TESTING_H_
