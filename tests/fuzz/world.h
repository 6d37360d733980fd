// SPDX-License-Identifier: Apache-2.0
// A small server without gRPC for the request targets: a real engine with tight limits, the handlers, one graph ("g",
// five nodes, weights, features) and two models ("m" for nodes, "p" for graphs). Tuning takes no time of its own.
#ifndef VICINAL_TESTS_FUZZ_WORLD_H_
#define VICINAL_TESTS_FUZZ_WORLD_H_

#include <memory>

#include "engine/api/engine.h"
#include "server/config.h"
#include "server/handlers/graph_handler.h"
#include "server/handlers/inference_handler.h"
#include "server/handlers/model_handler.h"
#include "server/handlers/server_handler.h"
#include "server/metrics/metrics.h"
#include "server/open_inference/open_inference_handler.h"
#include "server/workers.h"

namespace vicinal::fuzz {

struct World {
  World();

  // Waits until what was uploaded has been prepared.
  void AwaitPreparation() const;
  // Waits until nothing is reserved but for what is stored and cached; fails if that does not happen.
  void CheckNothingReserved() const;

  server::Limits limits;
  server::Metrics metrics{{}};  // outlives the engine, as in the server
  std::unique_ptr<Engine> engine;
  server::Workers workers{1, 8};
};

}  // namespace vicinal::fuzz

#endif  // VICINAL_TESTS_FUZZ_WORLD_H_
