// SPDX-License-Identifier: Apache-2.0
// How far an uploaded version has come.
#ifndef VICINAL_ENGINE_DURABLE_REACHED_H_
#define VICINAL_ENGINE_DURABLE_REACHED_H_

#include "engine/api/uploaded_version.h"
#include "engine/base/status.h"
#include "engine/durable/durable_store.h"
#include "engine/store/graph_store.h"
#include "engine/store/model_store.h"

namespace vicinal::durable {

// As Engine::HasReached. `durable`: null without a state directory.
StatusOr<bool> HasReached(const GraphStore& graphs, const ModelStore& models, const DurableStore* durable,
                          const UploadedVersion& version, WaitFor wait_for);

}  // namespace vicinal::durable

#endif  // VICINAL_ENGINE_DURABLE_REACHED_H_
