// SPDX-License-Identifier: Apache-2.0
// The tuning service without an engine around it, over kernels and times of the test's own.
#ifndef VICINAL_TESTS_ENGINE_TUNING_TUNING_ALONE_H_
#define VICINAL_TESTS_ENGINE_TUNING_TUNING_ALONE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "engine/tuning/community_library.h"
#include "engine/tuning/tuning_service.h"
#include "tests/engine/execute/numbered_requests.h"
#include "tests/engine/tune/remembered_runs.h"
#include "tests/engine/tuning/tuning_testing.h"

namespace vicinal::testing {

// Takes anything.
class AnyAggregate : public AggregateKernel {
 public:
  explicit AnyAggregate(std::string_view name) : name_(name) {}
  std::string_view name() const override { return name_; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return {"even_odd_blocks", 1, true}; }
  Refusal WhyUnsupported(const AggregateProblem&) const override { return {}; }
  // Does nothing, where times are told.
  Status Run(DeviceContext&, const AggregateArgs&, void*) const override { return OkStatus(); }

 private:
  const std::string_view name_;
};

// Sums of 8 columns over a graph of two nodes. The kernels are registered by who derives from it.
class TuningAlone : public ::testing::Test {
 protected:
  // `clock` and `first_runs` are the service's; they must outlive this.
  explicit TuningAlone(ToldMeter::Times times, const Clock& clock = Clock::Real(), FirstRuns* first_runs = nullptr)
      : clock_(clock), first_runs_(first_runs), meter_(std::move(times)) {
    PreparedGraph::Parts parts;
    parts.csr.num_rows = parts.csr.num_cols = 2;
    parts.csr.row_ptr = {0, 1, 2};
    parts.csr.col = {1, 0};
    parts.permutation = Permutation::Identity(2);
    graph_ = std::make_shared<const PreparedGraph>(std::move(parts), device_.get());
    work_.key.operation = "aggregate";
    work_.key.kind = "sum";
    work_.key.width = 8;
    graph_->tuning().Note(work_);
    service_.Start(&executor_);
  }
  ~TuningAlone() override { service_.Stop(); }

  TuningRecord Tune(std::optional<TuningStrategy> strategy = std::nullopt) {
    EXPECT_TRUE(service_.Order(graph_, {work_}, std::chrono::seconds(1), strategy, true, {}).ok());
    return *graph_->tuning().Record(work_.key);
  }

  // Of the service; for tests of its own parts.
  TuningService::Parts Parts() {
    TuningService::Parts parts;
    parts.device = device_.get();
    parts.registry = &registry_;
    parts.budget = &budget_;
    parts.clock = &clock_;
    parts.stats = &StatsSink::Null();
    parts.logger = &Logger::Null();
    parts.meter = &meter_;
    parts.first_runs = first_runs_;
    parts.is_current = [](const PreparedGraph&) { return true; };
    parts.on_change = [] {};
    parts.communities = &communities_;
    parts.random = std::mt19937_64();
    return parts;
  }

  const std::unique_ptr<Device> device_ = MakeCpuDevice(1);
  // So much that it only runs out where a test fills it.
  static constexpr int64_t kBudgetBytes = int64_t{1} << 40;
  MemoryBudget budget_{kBudgetBytes};
  KernelRegistry registry_;
  ScriptedRunner runner_;
  Executor executor_{*device_, &runner_, {1, &Clock::Real(), &StatsSink::Null()}};
  std::shared_ptr<const PreparedGraph> graph_;
  TuningWork work_;

 private:
  const Clock& clock_;
  FirstRuns* const first_runs_;
  CommunityLibrary communities_;
  ToldMeter meter_;
  TuningService service_{Parts()};
};

// Made before the service.
struct OwnFirstRuns {
  RememberedRuns runs;
  std::string faster;  // this kernel takes half of the time
};

// With a memory of first runs; each run takes a microsecond.
class TuningWithFirstRuns : private OwnFirstRuns, public TuningAlone {
 protected:
  TuningWithFirstRuns()
      : TuningAlone(
            [this](const TuningKey&, const KernelSetting& setting) {
              return RunSample{(setting.kernel == faster ? 0.5 : 1.0) * 1e-6, false};
            },
            Clock::Real(), &runs) {}
  using OwnFirstRuns::faster;
  using OwnFirstRuns::runs;
};

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_TUNING_TUNING_ALONE_H_
