// SPDX-License-Identifier: Apache-2.0
#include "server/metrics/engine_state.h"

#include <chrono>
#include <utility>

namespace vicinal::server {

void AddEngineState(Engine& engine, StateSnapshot* snapshot) {
  const ResourceCounts counts = engine.Counts();
  snapshot->graphs = counts.graphs;
  snapshot->resident_graphs = counts.resident_graphs;
  snapshot->host_graphs = counts.host_graphs;
  snapshot->device_bytes = counts.device_allocated_bytes;
  snapshot->device_limit_bytes = counts.device_limit_bytes;
  snapshot->feature_sets = counts.feature_sets;
  snapshot->models = counts.models;
  snapshot->not_durable = counts.not_durable;
  snapshot->on_disk = counts.on_disk;
  snapshot->on_host = counts.on_host;
  snapshot->on_device = counts.on_device;
  snapshot->quarantined_kernels = engine.quarantined_kernels();
  snapshot->last_state_write_seconds =
      std::chrono::duration<double>(counts.last_state_write.time_since_epoch()).count();
  snapshot->queue_depth = engine.queue_depth();
  snapshot->kept_answers = engine.kept_answers();
  snapshot->busy_seconds = engine.busy_seconds();
  const MemoryUse use = engine.memory().Snapshot();
  snapshot->graph_bytes = use.graphs;
  snapshot->feature_bytes = use.features;
  snapshot->model_bytes = use.models;
  snapshot->plan_bytes = use.plans;
  snapshot->answer_bytes = use.answers;
  snapshot->request_bytes = use.requests + use.receptive_fields;
  snapshot->upload_bytes = use.uploads;
  snapshot->budget_bytes = use.budget;
  for (KernelStatus& kernel : engine.Kernels()) {
    snapshot->launches.push_back(
        {std::move(kernel.operation), std::move(kernel.name), std::move(kernel.device), kernel.launches});
  }
}

}  // namespace vicinal::server
