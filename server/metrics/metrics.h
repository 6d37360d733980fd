// SPDX-License-Identifier: Apache-2.0
// The server's Prometheus metrics. The engine reports through StatsSink; calls report through BeginCall and EndCall,
// or EndStream and EndRequest;
// gauges of state (graphs, memory, launches) are read when a scrape comes. Handles of series are cached: the
// path of a request takes no lock of prometheus-cpp's families, only one short lock of our own for the labels graph and
// model. docs/metrics.md lists the names.
#ifndef VICINAL_SERVER_METRICS_METRICS_H_
#define VICINAL_SERVER_METRICS_METRICS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/api/resources.h"
#include "engine/base/clock.h"
#include "engine/base/stats.h"
#include "engine/base/status.h"
#include "server/connection_counts.h"
#include "server/methods.h"

namespace vicinal::server {

// State at one moment, for gauges and for counters that the engine keeps.
struct StateSnapshot {
  struct Launches {
    std::string operation, kernel, device;
    int64_t count = 0;
  };
  int64_t graphs = 0, resident_graphs = 0, host_graphs = 0, models = 0, feature_sets = 0, open_uploads = 0,
          queue_depth = 0, kept_answers = 0;
  int64_t graph_bytes = 0, feature_bytes = 0, model_bytes = 0, plan_bytes = 0, answer_bytes = 0, request_bytes = 0,
          upload_bytes = 0, budget_bytes = 0;
  StoredBytes on_disk, on_host, on_device;
  int64_t device_bytes = 0, device_limit_bytes = 0;  // allocated on a GPU; --device_memory_bytes
  int64_t not_durable = 0;                           // versions
  int64_t quarantined_kernels = 0;                   // configurations
  double last_state_write_seconds = 0.0;             // since 1970; 0: never
  double busy_seconds = 0.0;
  bool ready = false;
  ConnectionCounts connections;
  int64_t open_calls = 0, max_open_calls = 0;
  int64_t stream_bytes = 0, stream_refusals = 0;  // of the principals' shares of streams
  bool exposed = false;
  double certificate_expiry_seconds = 0.0;  // since 1970; 0: no TLS
  std::vector<Launches> launches;
};

class Nvml;  // nvml.h

// Kernels that a backend made for expressions, since the start (StatsSink::KernelCompiled).
struct CompiledKernelCounts {
  int64_t compiled = 0, kept = 0, failed = 0, unloaded = 0;
  double seconds = 0.0;  // of all of them
};

// How long the calls of a method took, or the requests on its streams, since the start.
struct MethodLatency {
  std::string method;
  int64_t calls = 0;
  double mean_seconds = 0.0;
  // Bounds of histogram buckets: at least half, and 99 %, of the calls took no longer; of longer calls than the last
  // bound, that bound.
  double median_bound_seconds = 0.0, p99_bound_seconds = 0.0;
};

// What was computed for an inference result.
enum class ComputedOver { kFullGraph, kReceptiveField, kKeptAnswers };

// Thread-safe.
class Metrics final : public StatsSink {
 public:
  struct Options {
    // Maximum number of graphs, and of models, and twice as many pairs of both; further ones become "other".
    int64_t max_label_names = 50;
    std::string version, instruction_set;
    const Clock* clock = nullptr;
  };
  explicit Metrics(const Options& options);
  ~Metrics() override;

  // EndCall must follow, or EndStream where the method CarriesRequests.
  void BeginCall(Method method);
  // `graph` and `model` may be empty. New names become labels only if the call succeeded, so that invalid names cannot
  // exhaust the labels.
  void EndCall(Method method, StatusCode code, double seconds, std::string_view graph, std::string_view model);
  void EndStream(Method method, StatusCode code);
  // One request on a stream; the arguments as for EndCall.
  void EndRequest(Method method, StatusCode code, double seconds, std::string_view graph, std::string_view model);
  void UploadBytes(std::string_view kind, int64_t bytes);  // kind: "graph", "features", "model"
  void ResultRows(Method method, int64_t rows);
  // A result was computed in that way; it read the features of `nodes` nodes, or had that part in a shared run.
  void Computed(ComputedOver over, double nodes);

  // StatsSink
  void StageSeconds(std::string_view stage, double seconds) override;
  void PhaseSeconds(std::string_view phase, double seconds) override;
  void QueueDepth(int64_t depth) override;
  void TuningRun(std::string_view outcome, double seconds, int64_t samples, int64_t dropped_samples) override;

  void RequestDropped(std::string_view reason) override;
  void RunRequests(int64_t requests) override;
  void AnswerPass(std::string_view outcome, double seconds) override;
  void AnswersEvicted() override;
  void GraphLoaded(std::string_view outcome, double seconds) override;
  void GraphEvicted() override;
  void GraphLeftDevice() override;
  void GraphReturned(std::string_view outcome, double seconds) override;
  void KernelCompiled(std::string_view outcome, double seconds) override;
  void StateFailure(std::string_view kind) override;

  // The device's name in vicinal_build_info, once it is known, and what reads its state at each scrape; null: nothing.
  void SetDevice(const std::string& device, std::shared_ptr<const Nvml> gpu);

  // Called at each scrape, on its thread. Empty: removes the source (waits for a running call).
  void SetSource(std::function<StateSnapshot()> source);

  // Of the methods that were called, in the order of kMethods.
  std::vector<MethodLatency> Latencies() const;
  CompiledKernelCounts CompiledKernels() const;

  // The result of a scrape, in the text format.
  std::string Text() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_METRICS_METRICS_H_
