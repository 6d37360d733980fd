// SPDX-License-Identifier: Apache-2.0
// Each order's sampled rows become a CSR of their own on the device; all of them gather from one matrix. Runs are
// interleaved and compared within rounds. Cost: a pass over the edges and a sort of the sampled rows for each order,
// writing the matrix once, and the runs.
#include "engine/prepare/measure_orders.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/prepare/measure_tuned_orders.h"
#include "engine/prepare/order_sample.h"
#include "engine/profile/host_caches.h"
#include "engine/tune/work.h"

namespace vicinal {
namespace {

// [rows, width] of ones. Must be written: untouched memory maps to one zero page, which never misses the cache.
StatusOr<Buffer> MakeRows(int64_t rows, int64_t width, Device& device) {
  const std::vector<float> ones(std::min<int64_t>(rows * width, int64_t{1} << 16), 1.0f);
  VICINAL_ASSIGN_OR_RETURN(Buffer buffer, device.Allocate(rows * width * sizeof(float)));
  for (int64_t at = 0; at < rows * width; at += static_cast<int64_t>(ones.size())) {
    const int64_t count = std::min(rows * width - at, static_cast<int64_t>(ones.size()));
    VICINAL_RETURN_IF_ERROR(device.CopyFromHost(buffer.as<float>() + at, ones.data(), count * sizeof(float)));
  }
  return buffer;
}

// One order, ready to run.
struct Contestant {
  Buffer row_ptr, col, scratch;
  AggregateArgs args;
  const RegisteredKernel<AggregateKernel>* kernel = nullptr;
  std::string configuration;     // its name for FirstRuns
  std::vector<double> seconds;   // of each round
  std::vector<double> relative;  // to the first contestant's in the same round, for as many edges
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double Spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const double median = values[values.size() / 2];
  return median > 0.0 ? (values[values.size() * 3 / 4] - values[values.size() / 4]) / median : 0.0;
}

// For one graph.
class OrderMeasurement {
 public:
  OrderMeasurement(const KernelRegistry& registry, DeviceContext& context, const Clock& clock, FirstRuns* first_runs)
      : registry_(registry), context_(context), clock_(clock), first_runs_(first_runs) {}

  StatusOr<std::vector<OrderTime>> Run(const Csr& graph, std::span<const Permutation* const> orders) {
    VICINAL_RETURN_IF_ERROR(CheckMeasurable(graph.num_cols));
    width_ = WidthToMeasure(graph.num_cols);
    VICINAL_ASSIGN_OR_RETURN(src_, MakeRows(graph.num_cols, width_, context_.device()));
    VICINAL_ASSIGN_OR_RETURN(dst_, context_.device().Allocate(graph.num_rows * width_ * sizeof(float)));
    for (const Permutation* order : orders) VICINAL_RETURN_IF_ERROR(Add(graph, *order));
    VICINAL_RETURN_IF_ERROR(RunRounds());
    return Times();
  }

 private:
  Status Add(const Csr& graph, const Permutation& order) {
    const OrderSample sample = SampleUnder(graph, order, kMeasuredEdges, nullptr);
    Contestant contestant;
    VICINAL_ASSIGN_OR_RETURN(contestant.row_ptr, CopyToDevice(sample.row_ptr, context_.device()));
    VICINAL_ASSIGN_OR_RETURN(contestant.col, CopyToDevice(sample.col, context_.device()));
    AggregateArgs& args = contestant.args;
    const int64_t rows = static_cast<int64_t>(sample.row_ptr.size()) - 1, edges = sample.row_ptr.back();
    args.problem.rows = rows;
    args.problem.cols = graph.num_cols;
    args.problem.edges = edges;
    args.problem.width = width_;
    args.adjacency = {rows,   graph.num_cols, edges, contestant.row_ptr.as<EdgeId>(), contestant.col.as<NodeId>(),
                      nullptr};
    args.src = {src_.as<float>(), graph.num_cols, width_, width_};
    args.dst = {dst_.as<float>(), rows, width_, width_};
    VICINAL_ASSIGN_OR_RETURN(const auto choice, registry_.aggregate.Choose(args.problem, context_.device().kind(), ""));
    contestant.kernel = choice.kernel;
    const AggregateKernel& kernel = choice.kernel->kernel();
    contestant.configuration =
        ConfigurationName(registry_.aggregate.operation(), kernel.name(), NameParameters(kernel, args.config));
    const std::string why = first_runs_ != nullptr ? first_runs_->WhyQuarantined(contestant.configuration) : "";
    if (!why.empty()) return FailedPrecondition("KERNEL_QUARANTINED", contestant.configuration + " is " + why);
    const int threads = context_.thread_pool() != nullptr ? context_.thread_pool()->num_threads() : 1;
    const size_t scratch = kernel.ScratchBytes(args.problem, args.config, threads);
    VICINAL_ASSIGN_OR_RETURN(contestant.scratch, context_.device().Allocate(scratch));
    contestants_.push_back(std::move(contestant));
    return OkStatus();
  }

  Status RunRounds() {
    const MonotonicTime begin = clock_.Now();
    for (int round = -1; round < kMaxRounds; ++round) {
      if (round >= kMinRounds && SecondsBetween(begin, clock_.Now()) > kMeasureBudgetSeconds) break;
      std::vector<double> seconds(contestants_.size());
      for (size_t i = 0; i < contestants_.size(); ++i) {
        // Each round begins with another order, so that none always follows the same one.
        const size_t next = (i + static_cast<size_t>(round + 1)) % contestants_.size();
        VICINAL_ASSIGN_OR_RETURN(seconds[next], Time(contestants_[next]));
      }
      if (round >= 0) Keep(seconds);
    }
    return OkStatus();
  }

  StatusOr<double> Time(const Contestant& contestant) {
    const bool watched = first_runs_ != nullptr && !first_runs_->HasEndedWell(contestant.configuration);
    if (watched) first_runs_->Begin(contestant.configuration);
    const MonotonicTime begin = clock_.Now();
    Status run = contestant.kernel->Launch(context_, contestant.args, contestant.scratch.data());
    if (run.ok()) run = context_.Synchronize();
    const double seconds = SecondsBetween(begin, clock_.Now());
    if (watched) first_runs_->End(contestant.configuration, run);
    VICINAL_RETURN_IF_ERROR(run);
    return seconds;
  }

  void Keep(const std::vector<double>& seconds) {
    const auto per_edge = [&](size_t i) {
      return seconds[i] / static_cast<double>(contestants_[i].args.problem.edges);
    };
    for (size_t i = 0; i < contestants_.size(); ++i) {
      contestants_[i].seconds.push_back(per_edge(i));
      contestants_[i].relative.push_back(per_edge(0) > 0.0 ? per_edge(i) / per_edge(0) : 1.0);
    }
  }

  std::vector<OrderTime> Times() const {
    std::vector<OrderTime> times;
    for (const Contestant& c : contestants_)
      times.push_back({Median(c.seconds), Median(c.relative), Spread(c.seconds)});
    return times;
  }

  const KernelRegistry& registry_;
  DeviceContext& context_;
  const Clock& clock_;
  FirstRuns* const first_runs_;  // may be null
  int64_t width_ = 0;
  Buffer src_, dst_;
  std::vector<Contestant> contestants_;
};

}  // namespace

int64_t WidthToMeasure(int64_t num_nodes, int64_t max_bytes) {
  int64_t width = kMeasuredWidth;
  while (width >= kMinMeasuredWidth && num_nodes * width * static_cast<int64_t>(sizeof(float)) > max_bytes) {
    width /= 2;
  }
  return width;
}

Status CheckMeasurable(int64_t num_nodes, int64_t max_bytes) {
  if (WidthToMeasure(num_nodes, max_bytes) >= kMinMeasuredWidth) return OkStatus();
  return FailedPrecondition("NOT_MEASURED", absl::StrCat(num_nodes, " rows of ", kMinMeasuredWidth,
                                                         " floats take more than ", max_bytes, " bytes"));
}

int64_t MeasureBytesBound(int64_t num_nodes, int64_t num_edges) {
  const int64_t width = WidthToMeasure(num_nodes);
  if (width < kMinMeasuredWidth) return 0;
  const int64_t matrix = num_nodes * width * static_cast<int64_t>(sizeof(float));
  const int64_t sample = std::min(num_edges, 2 * kMeasuredEdges) * static_cast<int64_t>(sizeof(NodeId)) +
                         (num_nodes + 1) * static_cast<int64_t>(sizeof(EdgeId));
  return 2 * matrix + (1 + kMaxMeasured) * sample + sample;  // one sample is on its way from the host
}

MeasureOrders MakeOrderMeasurer(const KernelRegistry& registry, DeviceContext& context, const Clock& clock,
                                FirstRuns* first_runs) {
  return [&registry, &context, &clock, first_runs](const Csr& graph, std::span<const Permutation* const> orders) {
    return OrderMeasurement(registry, context, clock, first_runs).Run(graph, orders);
  };
}

ChooseOptions ChooseOptionsFor(const KernelRegistry& registry, DeviceContext& context, const Clock& clock,
                               ThreadPool* pool, FirstRuns* first_runs) {
  ChooseOptions options;
  options.pool = pool;
  if (context.device().kind() == DeviceKind::kCpu) {
    options.caches = HostCaches();
    options.measure = MakeOrderMeasurer(registry, context, clock, first_runs);
  } else {
    options.caches = {kFirstGpuCacheBytes, context.device().last_cache_bytes()};
    options.measure = MakeTunedOrderMeasurer(registry, context, clock, pool, first_runs);
    options.estimates_exclude = false;
  }
  return options;
}

}  // namespace vicinal
