// SPDX-License-Identifier: Apache-2.0
// An executable node of a program: a kernel, its arguments with all pointers set, and the times of its runs.
#ifndef VICINAL_ENGINE_PLAN_RUN_LAUNCH_H_
#define VICINAL_ENGINE_PLAN_RUN_LAUNCH_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <type_traits>
#include <variant>

#include "engine/base/clock.h"
#include "engine/kernels/registry.h"
#include "engine/plan/plan.h"
#include "engine/tune/first_runs.h"
#include "engine/tune/table.h"
#include "engine/tune/work.h"

namespace vicinal::internal {

template <class K>
struct Bound {
  const RegisteredKernel<K>* kernel = nullptr;
  typename K::Args args;
};

// Number and times of a launch's runs. Not every run is timed (recorded_runs.h).
struct RunTimes {
  std::atomic<int64_t> runs{0};
  std::atomic<int64_t> timed{0};
  std::atomic<int64_t> nanoseconds{0};  // of the timed runs

  void Count() { runs.fetch_add(1, std::memory_order_relaxed); }
  void AddTime(Nanoseconds spent) {
    timed.fetch_add(1, std::memory_order_relaxed);
    nanoseconds.fetch_add(spent.count(), std::memory_order_relaxed);
  }
  // Adds the counts of another launch; of its times only the sum is known.
  void Continue(int64_t before, double total_seconds) {
    runs.fetch_add(before, std::memory_order_relaxed);
    if (total_seconds <= 0) return;
    timed.fetch_add(before, std::memory_order_relaxed);
    nanoseconds.fetch_add(static_cast<int64_t>(total_seconds * 1e9), std::memory_order_relaxed);
  }
  int64_t count() const { return runs.load(std::memory_order_relaxed); }
  // Of all runs: untimed ones count with the mean of the timed ones.
  double seconds() const {
    const int64_t of = timed.load(std::memory_order_relaxed);
    if (of == 0) return 0.0;
    return static_cast<double>(nanoseconds.load(std::memory_order_relaxed)) * 1e-9 * static_cast<double>(count()) /
           static_cast<double>(of);
  }
};

struct Launch {
  std::variant<Bound<AggregateKernel>, Bound<AttentionKernel>, Bound<DenseUpdateKernel>, Bound<SparseUpdateKernel>,
               Bound<SparseAggregateUpdateKernel>, Bound<RowwiseKernel>, Bound<MessageReduceKernel>,
               Bound<ExpressionKernel>>
      bound;
  void* scratch = nullptr;
  PlanStepInfo info;                  // without counts and times of runs
  RunTimes full;                      // over the full graph
  RunTimes in_fields;                 // over receptive fields
  TuningTable::Uses* uses = nullptr;  // counts runs in the graph's tuning table; null for operations that are not tuned

  Status Run(DeviceContext& context) const {
    CountRun();
    return RunUncounted(context);
  }
  // Counts a run, over the full graph or a field, launched or replayed.
  void CountRun() const {
    if (uses != nullptr) uses->fetch_add(1, std::memory_order_relaxed);
    std::visit([](const auto& b) { b.kernel->CountLaunch(); }, bound);
  }
  // Of its kernel as it is bound now, which differs between full graphs and fields.
  std::string Configuration() const {
    return std::visit(
        [](const auto& b) {
          const auto& kernel = b.kernel->kernel();
          using Problem = std::remove_cvref_t<decltype(b.args.problem)>;
          return ConfigurationName(kOperationName<Problem>, kernel.name(), NameParameters(kernel, b.args.config));
        },
        bound);
  }
  // For recordings, in which a launch does not run the kernel, and for blocks of rows.
  Status RunUncounted(DeviceContext& context) const {
    return std::visit([&](const auto& b) { return b.kernel->kernel().Run(context, b.args, scratch); }, bound);
  }
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_RUN_LAUNCH_H_
