// SPDX-License-Identifier: Apache-2.0
// The part of a StateSnapshot that the engine knows.
#ifndef VICINAL_SERVER_METRICS_ENGINE_STATE_H_
#define VICINAL_SERVER_METRICS_ENGINE_STATE_H_

#include "engine/api/engine.h"
#include "server/metrics/metrics.h"

namespace vicinal::server {

void AddEngineState(Engine& engine, StateSnapshot* snapshot);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_METRICS_ENGINE_STATE_H_
