// SPDX-License-Identifier: Apache-2.0
// What a record's note says of kernels that take whole graphs only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "engine/tuning_service.h"
#include "tests/engine/engine/tuning_testing.h"

namespace vicinal::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Takes anything, does nothing: its times are told.
class IdleKernel final : public AggregateKernel {
 public:
  IdleKernel(std::string_view name, bool whole_graph_only) : name_(name), whole_graph_only_(whole_graph_only) {}
  std::string_view name() const override { return name_; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  Refusal Refuses(const AggregateProblem&) const override { return {}; }
  bool whole_graph_only() const override { return whole_graph_only_; }
  Status Run(DeviceContext&, const AggregateArgs&, void*) const override { return OkStatus(); }

 private:
  const std::string_view name_;
  const bool whole_graph_only_;
};

// A default that takes any rows, and one kernel for whole graphs.
class TuningNoteTest : public ::testing::Test {
 protected:
  TuningNoteTest()
      : meter_([this](const TuningKey&, const KernelSetting& setting) {
          return RunSample{setting.kernel == "whole" ? ratio_ * kRunSeconds : kRunSeconds, false};
        }) {
    registry_.aggregate.Add(std::make_unique<IdleKernel>("rows", false));
    registry_.aggregate.Add(std::make_unique<IdleKernel>("whole", true));
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
  ~TuningNoteTest() override { service_.Stop(); }

  // The record where "whole" takes `ratio` of the default's time.
  TuningRecord Tune(double ratio) {
    ratio_ = ratio;
    EXPECT_TRUE(service_.Order(graph_, {work_}, std::chrono::seconds(1), true, {}).ok());
    return *graph_->tuning().Record(work_.key);
  }

 private:
  TuningService::Parts Parts() {
    TuningService::Parts parts;
    parts.device = device_.get();
    parts.registry = &registry_;
    parts.budget = &budget_;
    parts.clock = &Clock::Real();
    parts.stats = &StatsSink::Null();
    parts.logger = &Logger::Null();
    parts.meter = &meter_;
    parts.is_current = [](const PreparedGraph&) { return true; };
    parts.on_change = [] {};
    return parts;
  }

  const std::unique_ptr<Device> device_ = MakeCpuDevice(1);
  KernelRegistry registry_;
  GraphStore graphs_{{0, 1, 1, &Clock::Real()}};
  ModelStore models_{{0, 1, &Clock::Real()}};
  PlanCache plans_{1, [](const PreparedGraph&, const std::string&, const Model&) { return true; }};
  const MemoryBudget budget_{0, &graphs_, &models_, &plans_};
  ToldMeter meter_;
  double ratio_ = 1.0;
  std::shared_ptr<const PreparedGraph> graph_;
  TuningWork work_;
  Executor executor_{*device_, {1, &Clock::Real(), &StatsSink::Null()}};
  TuningService service_{Parts()};
};

TEST_F(TuningNoteTest, NamesOneThatLostByItsHandicapOnly) {
  const TuningRecord record = Tune(0.9);
  ASSERT_EQ(record.state, TuningState::kTuned) << record.note;
  EXPECT_EQ(record.choice()->setting.kernel, "rows");
  EXPECT_THAT(record.note, HasSubstr("whole takes 0.90 of the default's time, but whole graphs only"));
}

// For some of these ratios 1 / (1 / ratio) is more than the ratio: the winner was told as faster than itself.
TEST_F(TuningNoteTest, NamesNoneBesideAWinnerForWholeGraphs) {
  for (int percent = 30; percent < 80; ++percent) {
    const TuningRecord record = Tune(percent / 100.0);
    ASSERT_EQ(record.state, TuningState::kTuned) << record.note;
    EXPECT_EQ(record.choice()->setting.kernel, "whole") << percent;
    EXPECT_THAT(record.note, Not(HasSubstr("whole graphs only"))) << percent;
  }
}

}  // namespace
}  // namespace vicinal::testing
