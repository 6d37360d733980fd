// SPDX-License-Identifier: Apache-2.0
#include "server/component_options.h"

namespace vicinal::server {

EngineOptions EngineOptionsOf(const Config& config, const Clock* clock, StatsSink* stats, Logger* log) {
  EngineOptions options;
  options.num_threads = config.threads;
  options.device = config.device;
  options.backend_path = config.backend_path;
  options.memory_budget_bytes = config.limits.memory_budget_bytes;
  options.device_memory_bytes = config.limits.device_memory_bytes;
  options.max_queue = config.limits.max_queue;
  options.max_queue_per_client = config.limits.max_queue_per_client;
  options.tuning_budget = config.tuning_budget;
  options.max_tuning_per_graph = config.max_tuning_per_graph;
  options.tuning_strategy = config.tuning_strategy;
  options.keep_answers = config.limits.max_answer_bytes > 0 ? config.keep_answers : KeepAnswers::kNever;
  options.max_batch_delay = config.max_batch_delay;
  options.max_answer_bytes = config.limits.max_answer_bytes;
  options.max_preparations = config.limits.max_preparations;
  options.max_cached_plans = config.limits.max_cached_plans;
  options.max_graphs = config.limits.max_graphs;
  options.max_feature_sets = config.limits.max_feature_sets;
  options.max_nodes = config.limits.max_nodes;
  options.max_models = config.limits.max_models;
  options.state_dir = config.state_dir;
  options.state_read_only = config.state_read_only;
  options.scratch_dir = config.scratch_dir;
  options.state_address = config.advertise_address;  // else as it listens: its port is not known yet
  options.clock = clock;
  options.stats = stats;
  options.logger = log;
  return options;
}

UploadStore::Options UploadOptionsOf(const Limits& limits, Engine& engine, const Clock* clock) {
  UploadStore::Options options;
  options.max_chunk_bytes = limits.max_chunk_bytes;
  options.max_open_uploads = limits.max_open_uploads;
  options.ttl = limits.upload_ttl;
  options.budget = &engine.memory();
  options.clock = clock;
  return options;
}

}  // namespace vicinal::server
