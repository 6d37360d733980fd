// SPDX-License-Identifier: Apache-2.0
// A node of a program made ready to run: a kernel, its arguments with every pointer in place, and how long its runs
// took.
#ifndef VICINAL_ENGINE_PLAN_LAUNCH_H_
#define VICINAL_ENGINE_PLAN_LAUNCH_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <variant>

#include "engine/base/clock.h"
#include "engine/kernels/registry.h"
#include "engine/plan/plan.h"
#include "engine/tune/table.h"

namespace vicinal::internal {

template <class K>
struct Bound {
  const RegisteredKernel<K>* kernel = nullptr;
  typename K::Args args;
};

// How often a launch ran and how long that took.
struct RunTimes {
  std::atomic<int64_t> runs{0};
  std::atomic<int64_t> nanoseconds{0};

  void Add(Nanoseconds spent) {
    runs.fetch_add(1, std::memory_order_relaxed);
    nanoseconds.fetch_add(spent.count(), std::memory_order_relaxed);
  }
  int64_t count() const { return runs.load(std::memory_order_relaxed); }
  double seconds() const { return static_cast<double>(nanoseconds.load(std::memory_order_relaxed)) * 1e-9; }
};

struct Launch {
  std::variant<Bound<AggregateKernel>, Bound<AttentionKernel>, Bound<DenseUpdateKernel>, Bound<SparseUpdateKernel>,
               Bound<SparseAggregateUpdateKernel>, Bound<RowwiseKernel>, Bound<MessageReduceKernel>>
      bound;
  void* scratch = nullptr;
  PlanStepInfo info;                  // all but counts and times of runs
  RunTimes full;                      // over the full graph
  RunTimes in_fields;                 // over receptive fields
  TuningTable::Uses* uses = nullptr;  // counts runs for the graph's tuning; null for operations that are not tuned

  Status Run(DeviceContext& context) const {
    if (uses != nullptr) uses->fetch_add(1, std::memory_order_relaxed);
    return std::visit([&](const auto& b) { return b.kernel->Launch(context, b.args, scratch); }, bound);
  }
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_LAUNCH_H_
