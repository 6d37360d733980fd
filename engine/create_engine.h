// SPDX-License-Identifier: Apache-2.0
// Creates an engine with a part that only tests and fuzz targets replace. Everybody else calls Engine::Create.
#ifndef VICINAL_ENGINE_CREATE_ENGINE_H_
#define VICINAL_ENGINE_CREATE_ENGINE_H_

#include <memory>

#include "engine/api/engine.h"
#include "engine/base/status.h"
#include "engine/tune/meter.h"

namespace vicinal {

// As Engine::Create, with a meter of the caller's for the runs that tuning measures; it must outlive the engine.
StatusOr<std::unique_ptr<Engine>> CreateEngineWithMeter(const EngineOptions& given, RunMeter* meter);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_CREATE_ENGINE_H_
