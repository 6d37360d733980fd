// SPDX-License-Identifier: Apache-2.0
#include "engine/prepare/measure_tuned_orders.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/prepare/measure_orders.h"
#include "engine/prepare/order_sample.h"
#include "engine/tune/trial.h"
#include "engine/tune/work.h"

namespace vicinal {
namespace {

// A candidate that took this many times as long as the fastest one so far is not run again.
constexpr double kHopeless = 1.5;
// Trials hold small matrices up to three times (trial.h).
constexpr int64_t kSmallMatrixBytes = int64_t{32} << 20;
// Of kernels whose scratch does not shrink with the graph.
constexpr int64_t kScratchBytes = int64_t{8} << 20;

int64_t MatrixBytes(int64_t num_nodes) {
  return num_nodes * WidthToMeasure(num_nodes, kMaxTunedMeasuredBytes) * static_cast<int64_t>(sizeof(float));
}

int64_t SampleBytes(int64_t num_nodes, int64_t num_edges) {
  return std::min(num_edges, 2 * kTunedMeasuredEdges) * static_cast<int64_t>(sizeof(NodeId)) +
         (num_nodes + 1) * static_cast<int64_t>(sizeof(EdgeId));
}

// Of a trial's matrices, layouts and scratch.
int64_t TrialBytesBound(int64_t num_nodes, int64_t num_edges) {
  const int64_t matrix = MatrixBytes(num_nodes);
  return (matrix <= kSmallMatrixBytes ? 6 : 2) * matrix + 6 * SampleBytes(num_nodes, num_edges) + kScratchBytes;
}

double Quantile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
}

// For one graph.
class TunedMeasurement {
 public:
  TunedMeasurement(const KernelRegistry& registry, DeviceContext& context, const Clock& clock, ThreadPool* pool,
                   FirstRuns* first_runs)
      : registry_(registry), context_(context), clock_(clock), pool_(pool), first_runs_(first_runs) {}

  StatusOr<OrderTime> TimeOf(const Csr& graph, const Permutation& order) {
    const OrderSample sample = SampleUnder(graph, order, kTunedMeasuredEdges, pool_);
    const int64_t rows = static_cast<int64_t>(sample.row_ptr.size()) - 1, edges = sample.row_ptr.back();
    VICINAL_ASSIGN_OR_RETURN(const Buffer row_ptr, CopyToDevice(sample.row_ptr, context_.device()));
    VICINAL_ASSIGN_OR_RETURN(const Buffer col, CopyToDevice(sample.col, context_.device()));
    AggregateProblem problem;
    problem.width = WidthToMeasure(graph.num_cols, kMaxTunedMeasuredBytes);
    TrialInput input;
    input.key = KeyOf(problem, EdgeWeights::kNone);
    input.adjacency = {rows, graph.num_cols, edges, row_ptr.as<EdgeId>(), col.as<NodeId>(), nullptr};
    input.device = &context_.device();
    input.registry = &registry_;
    input.first_runs = first_runs_;
    input.shape.rows = rows;
    input.shape.cols = graph.num_cols;
    input.shape.edges = edges;
    input.shape.num_threads = context_.thread_pool() != nullptr ? context_.thread_pool()->num_threads() : 1;
    input.max_candidates = kTunedCandidates;
    const int64_t most = TrialBytesBound(graph.num_cols, graph.nnz());
    input.admit = [most](int64_t bytes) {
      return bytes <= most ? OkStatus()
                           : FailedPrecondition("NOT_MEASURED", absl::StrCat("it takes more than ", most, " bytes"));
    };
    VICINAL_ASSIGN_OR_RETURN(const std::unique_ptr<Trial> trial, Trial::Make(input));
    VICINAL_ASSIGN_OR_RETURN(OrderTime time, Fastest(input.key, *trial));
    time.seconds_per_edge /= static_cast<double>(std::max<int64_t>(1, edges));
    return time;
  }

 private:
  // The run of a candidate that does not count: on this device it may be the first of all.
  Status RunFirst(const TuningKey& key, const Trial& trial, int64_t candidate) {
    const std::string name = ConfigurationName(key, trial.candidates()[static_cast<size_t>(candidate)]);
    const bool watched = first_runs_ != nullptr && !first_runs_->HasEndedWell(name);
    if (watched) first_runs_->Begin(name);
    Status run = trial.Run(candidate, 0, context_);
    if (watched) first_runs_->End(name, run);
    return run;
  }

  // `seconds_per_edge` has the seconds of the whole sample.
  StatusOr<OrderTime> Fastest(const TuningKey& key, const Trial& trial) {
    OrderTime fastest;
    for (int64_t candidate = 0; candidate < trial.num_to_run(); ++candidate) {
      VICINAL_RETURN_IF_ERROR(RunFirst(key, trial, candidate));
      std::vector<double> seconds;
      for (int run = 0; run < kTunedRuns; ++run) {
        const MonotonicTime begin = clock_.Now();
        VICINAL_RETURN_IF_ERROR(trial.Run(candidate, run, context_));
        seconds.push_back(SecondsBetween(begin, clock_.Now()));
        if (candidate > 0 && seconds.back() > kHopeless * fastest.seconds_per_edge) break;
      }
      std::sort(seconds.begin(), seconds.end());
      const double median = Quantile(seconds, 0.5);
      if (candidate > 0 && (median >= fastest.seconds_per_edge || static_cast<int>(seconds.size()) < kTunedRuns))
        continue;
      fastest.seconds_per_edge = median;
      fastest.spread = median > 0.0 ? (Quantile(seconds, 0.75) - Quantile(seconds, 0.25)) / median : 0.0;
    }
    return fastest;
  }

  const KernelRegistry& registry_;
  DeviceContext& context_;
  const Clock& clock_;
  ThreadPool* const pool_;
  FirstRuns* const first_runs_;  // may be null
};

}  // namespace

int64_t TunedMeasureBytesBound(int64_t num_nodes, int64_t num_edges) {
  if (WidthToMeasure(num_nodes, kMaxTunedMeasuredBytes) < kMinMeasuredWidth) return 0;
  // The sample on the host and on the device.
  return TrialBytesBound(num_nodes, num_edges) + 2 * SampleBytes(num_nodes, num_edges);
}

MeasureOrders MakeTunedOrderMeasurer(const KernelRegistry& registry, DeviceContext& context, const Clock& clock,
                                     ThreadPool* pool, FirstRuns* first_runs) {
  return [&registry, &context, &clock, pool, first_runs](
             const Csr& graph, std::span<const Permutation* const> orders) -> StatusOr<std::vector<OrderTime>> {
    VICINAL_RETURN_IF_ERROR(CheckMeasurable(graph.num_cols, kMaxTunedMeasuredBytes));
    TunedMeasurement measurement(registry, context, clock, pool, first_runs);
    std::vector<OrderTime> times;
    for (const Permutation* order : orders) {
      VICINAL_ASSIGN_OR_RETURN(OrderTime time, measurement.TimeOf(graph, *order));
      const double first = times.empty() ? time.seconds_per_edge : times.front().seconds_per_edge;
      time.relative = first > 0.0 ? time.seconds_per_edge / first : 1.0;
      time.uncertainty = std::max(time.spread, times.empty() ? 0.0 : times.front().spread);
      times.push_back(time);
    }
    return times;
  };
}

}  // namespace vicinal
