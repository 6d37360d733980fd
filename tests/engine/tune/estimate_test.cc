// SPDX-License-Identifier: Apache-2.0
// Which settings an estimate asks for, with kernels made up for the purpose and with those of the CPU.
#include "engine/tune/estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/tune/work.h"

namespace vicinal {
namespace {

using ::testing::ElementsAre;

// Predicts `seconds`; with a space, its model wants the value 7 and allows at most `most`.
class ModelledKernel final : public AggregateKernel {
 public:
  ModelledKernel(std::string name, double seconds, SettingSpace space = {}, int32_t most = 100)
      : name_(std::move(name)), seconds_(seconds), space_(std::move(space)), most_(most) {}
  std::string_view name() const override { return name_; }
  DeviceKind device() const override { return on_gpu ? DeviceKind::kCuda : DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return {"even_odd_blocks", 1, true}; }
  bool fallback_only() const override { return fallback; }
  Refusal WhyUnsupported(const AggregateProblem&) const override { return refusal; }
  std::vector<std::string_view> ParameterNames() const override { return {"knob"}; }
  std::vector<KernelConfig> Candidates(const AggregateProblem&) const override { return {{}, {{1}}, {{2}}}; }
  std::optional<double> PredictSeconds(const AggregateProblem&, const KernelConfig& config,
                                       const WorkShape&) const override {
    return seconds_ * (config.values[0] == 1 ? 0.5 : 1.0);
  }
  SettingSpace SearchSpace(const AggregateProblem&) const override { return space_; }
  std::optional<double> ModelLatency(const AggregateProblem&, const KernelConfig& config,
                                     const WorkShape& shape) const override {
    last_lane_floats = shape.lane_floats;
    if (config.values[0] > most_) return std::nullopt;
    return std::abs(config.values[0] - 7.0);
  }
  double LaneFloats(const AggregateProblem&, const KernelConfig& config) const override {
    return 10.0 * config.values[0];
  }
  bool deterministic(const KernelConfig& config) const override { return config.values[0] != forbidden; }
  Status Run(DeviceContext&, const AggregateArgs&, void*) const override { return OkStatus(); }

  mutable double last_lane_floats = -1.0;
  bool on_gpu = false, fallback = false;
  Refusal refusal;
  int32_t forbidden = -1;

 private:
  const std::string name_;
  const double seconds_;
  const SettingSpace space_;
  const int32_t most_;
};

class Quarantine final : public FirstRuns {
 public:
  explicit Quarantine(std::string name) : name_(std::move(name)) {}
  std::string WhyQuarantined(const std::string& configuration) const override {
    return configuration == name_ ? "quarantined" : "";
  }
  int64_t revision() const override { return 0; }
  bool HasEndedWell(const std::string&) const override { return true; }
  void Begin(const std::string&) override {}
  void End(const std::string&, const Status&) override {}
  void Doubt(const std::vector<std::string>&) override {}

 private:
  const std::string name_;
};

class EstimateTest : public ::testing::Test {
 protected:
  ModelledKernel& Add(std::unique_ptr<ModelledKernel> kernel) {
    ModelledKernel& added = *kernel;
    registry_.aggregate.Add(std::move(kernel));
    return added;
  }
  EstimateInput Input() {
    EstimateInput input;
    input.key.operation = "aggregate";
    input.key.kind = "sum";
    input.key.width = 32;
    input.shape.rows = input.shape.cols = 1000;
    input.shape.edges = 10'000;
    input.registry = &registry_;
    input.random = std::mt19937_64(4);
    return input;
  }
  static std::vector<std::string> Names(const std::vector<KernelSetting>& settings) {
    std::vector<std::string> names;
    for (const KernelSetting& setting : settings)
      names.push_back(setting.kernel + "=" + std::to_string(setting.config.values[0]));
    return names;
  }
  KernelRegistry registry_;
};

TEST_F(EstimateTest, TheBestOfEachKernelThenTheSecondOfThoseThatAreSearched) {
  Add(std::make_unique<ModelledKernel>("plain", 2.0));
  Add(std::make_unique<ModelledKernel>("searched", 1.0, SettingSpace{{3, 5, 7, 8, 20}}));
  Add(std::make_unique<ModelledKernel>("slow", 10.0));  // more than 3 times the best
  const Estimate estimate = EstimateSettings(Input());
  // plain's candidate 1 is predicted at half of 2 s, as long as searched.
  EXPECT_THAT(Names(estimate.settings), ElementsAre("plain=1", "searched=7", "searched=8"));
  EXPECT_EQ(estimate.modelled, 3 + 5 + 3);
  EXPECT_EQ(estimate.searched, 1);
}

TEST_F(EstimateTest, OnlyWhatTheRegistryCanRun) {
  Add(std::make_unique<ModelledKernel>("picky", 1.0)).refusal = "only on Sundays";
  Add(std::make_unique<ModelledKernel>("elsewhere", 1.0)).on_gpu = true;
  Add(std::make_unique<ModelledKernel>("last", 1.0)).fallback = true;
  Add(std::make_unique<ModelledKernel>("random", 1.0)).forbidden = 0;  // not even its default
  Add(std::make_unique<ModelledKernel>("searched", 1.0, SettingSpace{{3, 5, 7, 8, 20}})).forbidden = 7;
  EstimateInput input = Input();
  const Quarantine quarantine(ConfigurationName("aggregate", "searched", {{"knob", 8}}));
  input.first_runs = &quarantine;
  EXPECT_THAT(Names(EstimateSettings(input).settings), ElementsAre("searched=5", "searched=3"));
}

TEST_F(EstimateTest, FindingsSeedTheSearchAndLimitLanes) {
  std::vector<int32_t> values;
  for (int32_t value = 8; value < 5000; ++value) values.push_back(value);
  const ModelledKernel& kernel = Add(std::make_unique<ModelledKernel>("searched", 1.0, SettingSpace{values}, 5000));
  CommunityFindings findings;
  findings.seeds["searched"] = {{{7}}};
  findings.lane_floats["searched"] = 640.0;
  EstimateInput input = Input();
  input.findings = &findings;
  input.limits.rounds = 10;
  const Estimate estimate = EstimateSettings(input);
  EXPECT_EQ(estimate.settings[0].config, (KernelConfig{{7}}));
  EXPECT_EQ(kernel.last_lane_floats, 640.0);
  EXPECT_EQ(estimate.rounds, 10);
}

TEST_F(EstimateTest, AtMostSix) {
  for (int i = 0; i < 9; ++i) Add(std::make_unique<ModelledKernel>("kernel" + std::to_string(i), 1.0));
  EXPECT_EQ(EstimateSettings(Input()).settings.size(), 6);
}

TEST_F(EstimateTest, RandomSettingsAreOfTheSpaceOnceEachAndWithinTheModel) {
  Add(std::make_unique<ModelledKernel>("plain", 1.0));
  Add(std::make_unique<ModelledKernel>("searched", 1.0, SettingSpace{{1, 2, 3, 4, 200}}));
  std::set<int32_t> seen;
  for (const CommunityRun& run : RandomSettings(Input(), 8)) {
    EXPECT_EQ(run.setting.kernel, "searched");
    const int32_t value = run.setting.config.values[0];
    EXPECT_LE(value, 4);  // the model allows at most 100
    EXPECT_EQ(run.lane_floats, 10.0 * value);
    EXPECT_TRUE(seen.insert(value).second);
  }
  EXPECT_GE(seen.size(), 3);
  EXPECT_LE(RandomSettings(Input(), 2).size(), 2);
}

// Each setting of the CPU's own kernels can be forced by a client: what is estimated can be run.
TEST(EstimateOnACpuTest, EverySettingCanBeForced) {
  KernelRegistry registry;
  RegisterCpuKernels(registry);
  for (const int64_t width : {1, 16, 100, 512}) {
    EstimateInput input;
    input.key.operation = "aggregate";
    input.key.kind = "mean";
    input.key.width = width;
    input.shape.rows = input.shape.cols = 200'000;
    input.shape.edges = 3'000'000;
    input.registry = &registry;
    input.random = std::mt19937_64(8);
    const Estimate estimate = EstimateSettings(input);
    EXPECT_EQ(estimate.searched, 2);
    ASSERT_FALSE(estimate.settings.empty());
    std::set<std::string> kernels;
    for (const KernelSetting& setting : estimate.settings) {
      kernels.insert(setting.kernel);
      const auto named = NamedCandidate(registry, DeviceKind::kCpu, input.key, input.shape.rows, input.shape.cols,
                                        input.shape.edges, setting.kernel, {});
      EXPECT_TRUE(named.ok()) << named.status();
    }
    EXPECT_THAT(kernels, ::testing::IsSubsetOf({"simd_rows", "tiled_rows"}));
  }
}

}  // namespace
}  // namespace vicinal
