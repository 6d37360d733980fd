// SPDX-License-Identifier: Apache-2.0
// Kernels whose reduction orders a test declares, and records about them.
#ifndef VICINAL_TESTS_ENGINE_TUNE_RECORD_TESTING_H_
#define VICINAL_TESTS_ENGINE_TUNE_RECORD_TESTING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/kernels/registry.h"
#include "engine/tune/table.h"

namespace vicinal::testing {

// Has the parameters "tile" and "lanes"; refuses the width 13. Does nothing.
class OrderedAggregate : public AggregateKernel {
 public:
  OrderedAggregate(std::string_view name, DeclaredOrder order) : name_(name), order_(order) {}
  std::string_view name() const override { return name_; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return order_; }
  std::vector<std::string_view> ParameterNames() const override { return {"tile", "lanes"}; }
  Refusal WhyUnsupported(const AggregateProblem& problem) const override {
    return problem.width == 13 ? "not this width" : "";
  }
  Status Run(DeviceContext&, const AggregateArgs&, void*) const override { return OkStatus(); }

 private:
  const std::string_view name_;
  const DeclaredOrder order_;
};

// "usual" is the default, "twin" has its bits, "other" has not.
inline std::unique_ptr<KernelRegistry> OrderedKernels(int other_version = 1, bool with_other = true) {
  auto registry = std::make_unique<KernelRegistry>();
  registry->aggregate.Add(std::make_unique<OrderedAggregate>("usual", DeclaredOrder{"standard", 1, true}));
  registry->aggregate.Add(std::make_unique<OrderedAggregate>("twin", DeclaredOrder{"standard", 1, true}));
  if (with_other) {
    registry->aggregate.Add(std::make_unique<OrderedAggregate>("other", DeclaredOrder{"odd", other_version, false}));
  }
  return registry;
}

inline TuningWork SumOf(int64_t width) {
  TuningWork work;
  work.key.operation = "aggregate";
  work.key.kind = "sum";
  work.key.width = width;
  return work;
}

// A record that chose `kernel` with the parameter tile, after the default was measured, too.
inline TuningEntry ChoiceOf(int64_t width, const std::string& kernel, int32_t tile = 0,
                            TuningState state = TuningState::kTuned) {
  TuningEntry entry;
  entry.work = SumOf(width);
  TuningRecord& record = entry.record;
  record.key = entry.work.key;
  record.state = state;
  TuningCandidate usual, chosen;
  usual.setting.kernel = "usual";
  usual.parameters = {{"tile", 0}, {"lanes", 0}};
  usual.outcome = CandidateOutcome::kEliminated;
  usual.measured_seconds = 0.3;
  chosen.setting = {kernel, {{tile}}};
  chosen.parameters = {{"tile", tile}, {"lanes", 0}};
  chosen.predicted_seconds = 0.1;
  chosen.measured_seconds = 0.2;
  chosen.spread = 0.01;
  chosen.ratio = 2.0 / 3.0;
  chosen.samples = 12;
  chosen.dropped_samples = 3;
  chosen.whole_graph_only = true;
  chosen.outcome = CandidateOutcome::kChosen;
  record.candidates = {usual, chosen};
  record.chosen = 1;
  record.refused = {{"third", "it is \"too\" wide"}};
  record.gain = 1.5;
  record.budget_seconds = 0.5;
  record.used_seconds = 0.25;
  record.finish_time = WallTime(std::chrono::seconds(1'700'000'000));
  record.note = "said by a test";
  return entry;
}

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_TUNE_RECORD_TESTING_H_
