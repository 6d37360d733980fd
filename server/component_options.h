// SPDX-License-Identifier: Apache-2.0
// What the server's configuration means for the components that have options of their own.
#ifndef VICINAL_SERVER_COMPONENT_OPTIONS_H_
#define VICINAL_SERVER_COMPONENT_OPTIONS_H_

#include "engine/api/engine.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/stats.h"
#include "server/config.h"
#include "server/uploads/upload_store.h"

namespace vicinal::server {

// All but EngineOptions::run_elsewhere. The pointers must outlive the engine.
EngineOptions EngineOptionsOf(const Config& config, const Clock* clock, StatsSink* stats, Logger* log);

// `engine` must outlive the uploads, whose memory counts in its budget.
UploadStore::Options UploadOptionsOf(const Limits& limits, Engine& engine, const Clock* clock);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_COMPONENT_OPTIONS_H_
