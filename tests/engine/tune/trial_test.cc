// SPDX-License-Identifier: Apache-2.0
// Trials with the real kernels and with kernels made up for the purpose.
#include "engine/tune/trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/graph/csr.h"
#include "engine/kernels/cpu/gather_cost.h"
#include "engine/kernels/gpu_gather_cost.h"
#include "tests/engine/kernels/edge_values.h"
#include "tests/engine/tune/remembered_runs.h"
#include "tests/support/generators.h"

namespace vicinal {
namespace {

// Counts its runs; keeps what it was given last.
class ScriptedKernel final : public AggregateKernel {
 public:
  ScriptedKernel(std::string name, std::vector<KernelConfig> candidates, std::string refusal = {},
                 DeviceKind device = DeviceKind::kCpu)
      : name_(std::move(name)), candidates_(std::move(candidates)), refusal_(std::move(refusal)), device_(device) {}
  std::string_view name() const override { return name_; }
  DeviceKind device() const override { return device_; }
  DeclaredOrder declared_order() const override { return {"even_odd_blocks", 1, true}; }
  bool fallback_only() const override { return name_ == "reference"; }
  Refusal WhyUnsupported(const AggregateProblem&) const override { return refusal_; }
  // Of rows that are gathered in tiles; the reference takes eight times as long.
  std::optional<double> PredictSeconds(const AggregateProblem& problem, const KernelConfig& config,
                                       const WorkShape& shape) const override {
    if (device_ != DeviceKind::kCpu) return GpuGatherSeconds(problem, shape);
    internal::GatherCost cost = internal::GatherCostOf(problem);
    cost.tile_columns = config.values[0];
    cost.prefetched = config.values[1] >= 0;
    return internal::GatherSeconds(cost, shape) * (fallback_only() ? internal::kScalarFactor : 1.0);
  }
  std::vector<std::string_view> ParameterNames() const override { return {"tile_columns", "prefetch_edges"}; }
  std::vector<KernelConfig> Candidates(const AggregateProblem&) const override { return candidates_; }
  size_t ScratchBytes(const AggregateProblem&, const KernelConfig& config, int threads) const override {
    return 1000 * threads + config.values[0] + extra_scratch;
  }
  std::string LayoutName(const AggregateProblem&, const KernelConfig& config) const override {
    return wants_layout ? std::to_string(config.values[0]) : std::string();
  }
  StatusOr<AdjacencyLayoutRef> MakeLayout(const AggregateProblem&, const KernelConfig& config,
                                          LayoutSource& source) const override {
    if (config.values[0] < 0) return FailedPrecondition("NOTHING_DENSE", "nothing is dense");
    ++layouts_made;
    last_blocks = static_cast<int64_t>(source.blocks().size());
    return AdjacencyLayoutRef(std::make_shared<EmptyLayout>());
  }
  int64_t LayoutBytesBound(int64_t, int64_t) const override { return wants_layout ? 100 : 0; }
  bool deterministic(const KernelConfig& config) const override { return config.values[3] == 0; }
  Status Run(DeviceContext&, const AggregateArgs& args, void* scratch) const override {
    last = args;
    static_cast<char*>(scratch)[ScratchBytes(args.problem, args.config, 2) - 1] = 1;
    return OkStatus();
  }
  mutable AggregateArgs last;
  mutable int layouts_made = 0;
  mutable int64_t last_blocks = 0;
  bool wants_layout = false;
  size_t extra_scratch = 0;

 private:
  struct EmptyLayout final : AdjacencyLayout {
    int64_t size_bytes() const override { return 1; }
  };

  const std::string name_;
  const std::vector<KernelConfig> candidates_;
  const std::string refusal_;
  const DeviceKind device_;
};

class TrialTest : public ::testing::Test {
 protected:
  TrialInput Input(const std::string& operation, const std::string& kind, int64_t width) {
    TrialInput input;
    input.key.operation = operation;
    input.key.kind = kind;
    input.key.width = width;
    input.adjacency = csr_.view();
    input.device = device_.get();
    input.shape.rows = csr_.num_rows;
    input.shape.cols = csr_.num_cols;
    input.shape.edges = csr_.nnz();
    input.shape.num_threads = 2;
    input.registry = &registry_;
    return input;
  }
  TrialInput Product(int64_t inputs, int64_t outputs, bool epilogue) {
    TrialInput input = Input("dense_update", "float32", inputs);
    input.key.outputs = outputs;
    input.key.epilogue = epilogue;
    input.adjacency = {};
    input.adjacency.rows = input.adjacency.cols = csr_.num_rows;
    return input;
  }
  const ScriptedKernel& Add(std::unique_ptr<ScriptedKernel> kernel) {
    const ScriptedKernel& added = *kernel;
    registry_.aggregate.Add(std::move(kernel));
    return added;
  }

  std::unique_ptr<Device> device_ = MakeCpuDevice(2);
  std::unique_ptr<DeviceContext> context_ = device_->CreateContext();
  KernelRegistry registry_;
  Csr csr_ = BuildCsrByTarget(UniformGraph(300, 3000, 5));
};

TEST_F(TrialTest, OnlyTheGivenSettingsRunBesideTheDefault) {
  Add(std::make_unique<ScriptedKernel>("rows", std::vector<KernelConfig>{{{16}}, {}, {{64}}}));
  Add(std::make_unique<ScriptedKernel>("tiles", std::vector<KernelConfig>{{{1}}}));
  // None of them is among the kernels' own candidates, but for the default; one is not deterministic, one of no kernel.
  const std::vector<KernelSetting> settings = {
      {"tiles", {{5}}}, {"rows", {{48}}}, {"rows", {{16}}}, {"tiles", {{6, 0, 0, 1}}}, {"unknown", {}}};
  TrialInput input = Input("aggregate", "mean", 128);
  input.settings = &settings;
  input.max_candidates = 1;
  input.prune_factor = 0.0;
  auto trial = Trial::Make(input);
  ASSERT_TRUE(trial.ok()) << trial.status();
  const auto& candidates = (*trial)->candidates();
  ASSERT_EQ(candidates.size(), 3);
  EXPECT_EQ((*trial)->num_to_run(), 3);
  EXPECT_EQ(candidates[0].setting, (KernelSetting{"rows", {{16}}}));
  std::vector<KernelSetting> others = {candidates[1].setting, candidates[2].setting};
  EXPECT_THAT(others, ::testing::UnorderedElementsAre(settings[0], settings[1]));
}

TEST_F(TrialTest, TheDefaultIsFirstThenByPredictionThenThePruned) {
  Add(std::make_unique<ScriptedKernel>("other_device", std::vector<KernelConfig>{{}}, "", DeviceKind::kCuda));
  Add(std::make_unique<ScriptedKernel>("picky", std::vector<KernelConfig>{{}}, "only on Sundays"));
  Add(std::make_unique<ScriptedKernel>("rows", std::vector<KernelConfig>{{{16}}, {}, {{64}}}));
  Add(std::make_unique<ScriptedKernel>("tiles", std::vector<KernelConfig>{{{1}}}));
  Add(std::make_unique<ScriptedKernel>("reference", std::vector<KernelConfig>{{}}));
  auto trial = Trial::Make(Input("aggregate", "mean", 128));
  ASSERT_TRUE(trial.ok()) << trial.status();
  const auto& candidates = (*trial)->candidates();
  ASSERT_EQ(candidates.size(), 4);
  EXPECT_EQ(candidates[0].setting, (KernelSetting{"rows", {{16}}}))
      << "the first configuration of the first that takes it";
  EXPECT_EQ(candidates[0].parameters, (std::vector<NamedParameter>{{"tile_columns", 16}, {"prefetch_edges", 0}}));
  EXPECT_LE(candidates[1].predicted_seconds, candidates[2].predicted_seconds);
  EXPECT_EQ(candidates[3].setting.kernel, "tiles") << "a pass for each column is predicted to be slow";
  EXPECT_EQ(candidates[3].outcome, CandidateOutcome::kPruned);
  EXPECT_EQ((*trial)->num_to_run(), 3);
  ASSERT_EQ((*trial)->refused().size(), 2) << "the reference is no candidate beside others";
  EXPECT_EQ((*trial)->refused()[0].kernel, "picky");
  EXPECT_EQ((*trial)->refused()[0].reason, "only on Sundays");
}

TEST_F(TrialTest, RunsTakeTurnsOnTheMatricesAndAreNoLaunches) {
  const ScriptedKernel& kernel = Add(std::make_unique<ScriptedKernel>("rows", std::vector<KernelConfig>{{}, {{8}}}));
  TrialInput input = Input("aggregate", "sum", 33);
  input.key.weights = EdgeWeights::kPerSource;
  auto trial = Trial::Make(input);
  ASSERT_TRUE(trial.ok()) << trial.status();
  ASSERT_TRUE((*trial)->Run(1, 0, *context_).ok());
  const AggregateArgs first = kernel.last;
  EXPECT_EQ(first.config.values[0], 8);
  EXPECT_TRUE(first.problem.weighted);
  EXPECT_NE(first.src_scale, nullptr);
  EXPECT_EQ(first.src.rows, 300);
  EXPECT_EQ(first.src.cols, 33);
  EXPECT_EQ(first.src.stride % 16, 0) << "as a plan lays matrices out";
  ASSERT_TRUE((*trial)->Run(1, 1, *context_).ok());
  EXPECT_NE(kernel.last.src.data, first.src.data);
  EXPECT_EQ(kernel.last.src.row(7)[5], first.src.row(7)[5]) << "the same values in each";
  EXPECT_EQ(registry_.aggregate.kernels()[0]->launches(), 0);
}

TEST_F(TrialTest, RenewWritesTheSourcesOfItsTurnOnly) {
  const ScriptedKernel& kernel = Add(std::make_unique<ScriptedKernel>("rows", std::vector<KernelConfig>{{}}));
  const auto trial = Trial::Make(Input("aggregate", "sum", 512));
  ASSERT_TRUE(trial.ok()) << trial.status();
  const auto sources = [&](int64_t turn) {
    EXPECT_TRUE((*trial)->Run(0, turn, *context_).ok());
    return std::span(const_cast<float*>(kernel.last.src.data), kernel.last.src.rows * kernel.last.src.stride);
  };
  const std::span<float> first = sources(0), second = sources(1);
  const std::vector<float> before(first.begin(), first.end());
  std::fill(first.begin(), first.end(), 7.0f);
  std::fill(second.begin(), second.end(), 7.0f);
  (*trial)->Renew(0, *context_);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), before.begin()));
  EXPECT_TRUE(std::all_of(second.begin(), second.end(), [](float value) { return value == 7.0f; }));
}

TEST_F(TrialTest, AtMostSoManyAreRun) {
  std::vector<KernelConfig> many;
  for (int i = 0; i < 40; ++i) many.push_back({{0, i}});
  Add(std::make_unique<ScriptedKernel>("rows", many));
  auto trial = Trial::Make(Input("aggregate", "sum", 64));
  ASSERT_TRUE(trial.ok());
  EXPECT_EQ((*trial)->num_to_run(), kMaxCandidates);
  EXPECT_EQ((*trial)->candidates().size(), 40);
}

TEST_F(TrialTest, AKernelOfManySettingsLeavesAPlaceToTheOthers) {
  std::vector<KernelConfig> many;
  for (int i = 0; i < 40; ++i) many.push_back({{0, i}});
  Add(std::make_unique<ScriptedKernel>("rows", many));
  Add(std::make_unique<ScriptedKernel>("tiles", std::vector<KernelConfig>{{{16}}, {{32}}}));
  const auto trial = Trial::Make(Input("aggregate", "sum", 64));
  ASSERT_TRUE(trial.ok());
  const auto& candidates = (*trial)->candidates();
  ASSERT_EQ((*trial)->num_to_run(), kMaxCandidates);
  EXPECT_GT(candidates[kMaxCandidates - 1].predicted_seconds, candidates[kMaxCandidates - 2].predicted_seconds)
      << "two passes over the edges are predicted to be slower than one";
  EXPECT_EQ(candidates[kMaxCandidates - 1].setting, (KernelSetting{"tiles", {{32}}}));
  EXPECT_EQ(candidates[kMaxCandidates].setting.kernel, "rows") << "was crowded out in its place";
}

TEST_F(TrialTest, MakesTheLayoutsOfWhatIsToBeRun) {
  Add(std::make_unique<ScriptedKernel>("rows", std::vector<KernelConfig>{{}}));
  auto added =
      std::make_unique<ScriptedKernel>("groups", std::vector<KernelConfig>{{{64}}, {{64, 4}}, {{128}}, {{-1}}});
  added->wants_layout = true;
  const ScriptedKernel& groups = Add(std::move(added));
  TrialInput input = Input("aggregate", "sum", 64);
  const std::vector<int64_t> blocks = {0, 100, 300};
  input.blocks = blocks;
  const auto trial = Trial::Make(input);
  ASSERT_TRUE(trial.ok()) << trial.status();
  EXPECT_EQ(groups.layouts_made, 2);
  EXPECT_EQ(groups.last_blocks, 3);
  ASSERT_EQ((*trial)->num_to_run(), 4) << "who cannot have a layout is not run";
  EXPECT_EQ((*trial)->candidates()[4].outcome, CandidateOutcome::kPruned);
  EXPECT_EQ((*trial)->candidates()[4].setting.config.values[0], -1);
  EXPECT_EQ((*trial)->refused().back().reason, "nothing is dense");
  for (int64_t c = 1; c < 4; ++c) {
    ASSERT_TRUE((*trial)->Run(c, 0, *context_).ok());
    EXPECT_NE(groups.last.layout, nullptr);
    EXPECT_EQ(groups.last.config, (*trial)->candidates()[c].setting.config);
  }
}

TEST_F(TrialTest, WhatChangesItsBitsIsNoCandidate) {
  Add(std::make_unique<ScriptedKernel>("rows", std::vector<KernelConfig>{{}, {{0, 0, 0, 1}}}));
  const auto trial = Trial::Make(Input("aggregate", "sum", 64));
  ASSERT_TRUE(trial.ok());
  EXPECT_EQ((*trial)->candidates().size(), 1);
}

TEST_F(TrialTest, WhereNoKernelTakesItTheReasonsAreTold) {
  Add(std::make_unique<ScriptedKernel>("picky", std::vector<KernelConfig>{{}}, "only on Sundays"));
  const auto trial = Trial::Make(Input("aggregate", "sum", 64));
  EXPECT_EQ(trial.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(trial.status().message()), ::testing::HasSubstr("picky: only on Sundays"));
}

// The real kernels run on what a trial gives them, for every kind of work that plans ask for.
TEST_F(TrialTest, RealKernelsRun) {
  RegisterCpuKernels(registry_);
  std::vector<TrialInput> inputs;
  for (const char* kind : {"sum", "mean", "max", "min"}) inputs.push_back(Input("aggregate", kind, 40));
  for (const char* kind : {"gat", "gatv2", "dot"}) {
    inputs.push_back(Input("attention", kind, 8));
    inputs.back().key.heads = 3;
    inputs.push_back(inputs.back());
    inputs.back().key.concat = false;
  }
  inputs.push_back(Input("aggregate", "sum", 24));
  inputs.back().key.storage = Storage::kBfloat16;
  inputs.push_back(Input("aggregate", "sum", 24));
  inputs.back().key.weights = EdgeWeights::kPerSource;
  for (const bool epilogue : {false, true}) inputs.push_back(Product(40, 24, epilogue));
  int ran = 0;
  for (const TrialInput& input : inputs) {
    const auto trial = Trial::Make(input);
    ASSERT_TRUE(trial.ok()) << Describe(input.key) << ": " << trial.status();
    for (int64_t c = 0; c < (*trial)->num_to_run(); ++c, ++ran) {
      EXPECT_TRUE((*trial)->Run(c, c, *context_).ok()) << Describe(input.key);
    }
  }
  EXPECT_GE(ran, static_cast<int>(inputs.size()));
}

// All kinds of work, of one, two and three turns of matrices, with the real kernels' scratch and layouts.
TEST_F(TrialTest, WhatItHoldsWasAdmittedFirst) {
  RegisterCpuKernels(registry_);
  std::vector<TrialInput> inputs;
  for (const int64_t width : {16, 4'000, 40'000}) {
    inputs.push_back(Input("aggregate", "max", width));
    inputs.push_back(Input("aggregate", "sum", width));
    inputs.back().key.weights = EdgeWeights::kPerSource;
    for (const char* kind : {"gat", "gatv2", "dot"}) {
      inputs.push_back(Input("attention", kind, width / 5));
      inputs.back().key.heads = 5;
    }
  }
  // A product's weights grow with the square of the width.
  for (const int64_t width : {16, 400, 4'000}) inputs.push_back(Product(width, width / 2, true));
  for (TrialInput& input : inputs) {
    const int64_t before = device_->allocated_bytes();
    int64_t admitted = 0;
    input.admit = [&](int64_t bytes) {
      EXPECT_EQ(device_->allocated_bytes(), before);
      admitted = bytes;
      return OkStatus();
    };
    const auto trial = Trial::Make(input);
    ASSERT_TRUE(trial.ok()) << Describe(input.key) << ": " << trial.status();
    const int64_t held = device_->allocated_bytes() - before;
    EXPECT_LE(held, admitted) << Describe(input.key);
    // A vector per source, and attention's second half of matrices, are not there in every kind.
    EXPECT_GE(3 * held, admitted) << Describe(input.key) << ": not far too much either";
  }
}

// A product that says what it was given, and counts how often it was asked.
class ScriptedProduct final : public DenseUpdateKernel {
 public:
  ScriptedProduct(std::string name, float mark, std::string not_tried = {})
      : name_(std::move(name)), mark_(mark), not_tried_(std::move(not_tried)) {}
  std::string_view name() const override { return name_; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return {"panels", 1, true}; }
  Refusal WhyNotTried(const DenseUpdateProblem&) const override { return not_tried_; }
  Refusal WhyUnsupported(const DenseUpdateProblem&) const override {
    ++asked;
    return {};
  }
  size_t PackedBytes(int64_t out_width, int64_t) const override {
    return static_cast<size_t>(out_width) * sizeof(float);
  }
  void Pack(ConstMatrixView weight, void* packed) const override {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(packed) % 64, 0u);
    std::fill_n(static_cast<float*>(packed), weight.rows, mark_);
  }
  Status Run(DeviceContext&, const DenseUpdateArgs& args, void*) const override {
    last = args;
    weight = static_cast<const float*>(args.weight)[args.problem.out_width - 1];
    return OkStatus();
  }
  mutable int asked = 0;
  mutable DenseUpdateArgs last;
  mutable float weight = 0.0f;

 private:
  const std::string name_;
  const float mark_;
  const std::string not_tried_;
};

TEST_F(TrialTest, AProductHasWeightsThatTheKernelPacked) {
  auto first = std::make_unique<ScriptedProduct>("first", 3.0f),
       second = std::make_unique<ScriptedProduct>("second", 5.0f);
  const ScriptedProduct *const one = first.get(), *const other = second.get();
  registry_.dense_update.Add(std::move(first));
  registry_.dense_update.Add(std::move(second));
  for (const bool epilogue : {false, true}) {
    const auto trial = Trial::Make(Product(40, 24, epilogue));
    ASSERT_TRUE(trial.ok()) << trial.status();
    ASSERT_EQ((*trial)->num_to_run(), 2);
    for (int64_t c = 0; c < 2; ++c) ASSERT_TRUE((*trial)->Run(c, 0, *context_).ok());
    EXPECT_EQ(one->weight, 3.0f);
    EXPECT_EQ(other->weight, 5.0f);
    for (const ScriptedProduct* kernel : {one, other}) {
      EXPECT_EQ(kernel->last.src.rows, csr_.num_rows);
      EXPECT_EQ(kernel->last.src.cols, 40);
      EXPECT_EQ(kernel->last.dst.cols, 24);
      EXPECT_EQ(kernel->last.epilogue.IsPlain(), !epilogue);
    }
  }
}

// Keeps what it was given last.
class ScriptedProgram final : public ExpressionKernel {
 public:
  std::string_view name() const override { return "program"; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return {"expression_tiles", 1, true}; }
  Refusal WhyUnsupported(const ExpressionProblem&) const override { return {}; }
  std::vector<std::string_view> ParameterNames() const override { return {"edge_tile"}; }
  std::vector<KernelConfig> Candidates(const ExpressionProblem&) const override { return {{}, {{96}}}; }
  size_t ScratchBytes(const ExpressionProblem& problem, const KernelConfig&, int) const override {
    EXPECT_GT(problem.code->register_floats, 0) << "the program itself";
    return 64;
  }
  size_t PackedBytes(int64_t out_width, int64_t in_width) const override {
    return static_cast<size_t>(out_width * in_width) * sizeof(float);
  }
  void Pack(ConstMatrixView weight, void* packed) const override {
    std::fill_n(static_cast<float*>(packed), weight.rows * weight.cols, 7.0f);
  }
  Status Run(DeviceContext&, const ExpressionArgs& args, void*) const override {
    last = args;
    return OkStatus();
  }
  mutable ExpressionArgs last;
};

TEST_F(TrialTest, AProgramHasAllThatItReads) {
  // linear(s1[0:8] * t0[2:10], W, b) * r beside features of edges.
  using testing::ValueOf;
  auto program = std::make_shared<EdgeProgram>();
  program->sources = 2;
  program->targets = 1;
  program->edge_width = 5;
  program->values = {ValueOf(EdgeOp::kSource, 8, -1, -1, 1), ValueOf(EdgeOp::kTarget, 8, -1, -1, 0, 2),
                     ValueOf(EdgeOp::kMultiply, 8, 0, 1),    ValueOf(EdgeOp::kLinear, 6, 2, -1, 0),
                     ValueOf(EdgeOp::kRow, 6, -1, -1, 2),    ValueOf(EdgeOp::kMultiply, 6, 3, 4),
                     ValueOf(EdgeOp::kFeatures, 5),          ValueOf(EdgeOp::kSource, 1, -1, -1, 0)};
  program->values[3].bias = 1;
  program->results = {{EdgeReduce::kSum, 5, -1}, {EdgeReduce::kMax, 6, -1}, {EdgeReduce::kMax, 7, -1}};
  auto kernel = std::make_unique<ScriptedProgram>();
  const ScriptedProgram& given = *kernel;
  registry_.expression.Add(std::move(kernel));
  TrialInput input = Input("expression", "several", 12);
  input.key.program = "0123456789abcdef";
  input.program = program;
  int64_t admitted = 0;
  input.admit = [&](int64_t bytes) {
    admitted = bytes;
    return OkStatus();
  };
  const int64_t before = device_->allocated_bytes();
  const auto trial = Trial::Make(input);
  ASSERT_TRUE(trial.ok()) << trial.status();
  // The device rounds each buffer up.
  EXPECT_LE(device_->allocated_bytes() - before, admitted + 64 * 64);
  ASSERT_EQ((*trial)->num_to_run(), 2);
  for (int64_t c = 0; c < 2; ++c) {
    for (int64_t turn = 0; turn < 3; ++turn) {
      (*trial)->Renew(turn, *context_);
      ASSERT_TRUE((*trial)->Run(c, turn, *context_).ok());
    }
    const ExpressionArgs& args = given.last;
    EXPECT_EQ(args.config.values[0], c * 96);
    EXPECT_EQ(args.problem.edges, csr_.nnz());
    EXPECT_EQ(args.sources[0].cols, 1);
    EXPECT_EQ(args.sources[1].cols, 8);
    EXPECT_EQ(args.sources[1].rows, csr_.num_cols);
    EXPECT_TRUE(args.sources[2].empty());
    EXPECT_EQ(args.targets[0].cols, 10);
    EXPECT_EQ(args.targets[0].rows, csr_.num_rows);
    EXPECT_TRUE(args.targets[1].empty());
    EXPECT_EQ(args.edge.width, 5);
    EXPECT_EQ(args.edge.sent.row_ptr, input.adjacency.row_ptr);
    EXPECT_NE(args.edge.values[csr_.nnz() * 5 - 1], 0.0f) << "the last feature is there";
    EXPECT_EQ(args.dst.cols, 12);
    ASSERT_EQ(args.parameters->size(), 3u);
    const auto parameter = [&](size_t p) { return static_cast<const float*>((*args.parameters)[p]); };
    EXPECT_EQ(parameter(0)[47], 7.0f) << "packed by the kernel";
    EXPECT_NE(parameter(1)[5], 7.0f);
    EXPECT_NE(parameter(2)[5], 7.0f);
  }
}

TEST_F(TrialTest, TheSettingsOfTheRealKernelRunOnAProgram) {
  RegisterCpuKernels(registry_);
  auto program = std::make_shared<EdgeProgram>();
  program->sources = program->targets = 1;
  program->values = {testing::ValueOf(EdgeOp::kSource, 24, -1, -1, 0), testing::ValueOf(EdgeOp::kTarget, 24, -1, -1, 0),
                     testing::ValueOf(EdgeOp::kMultiply, 24, 0, 1), testing::ValueOf(EdgeOp::kLinear, 24, 2, -1, 0)};
  program->results = {{EdgeReduce::kMean, 3, -1}};
  TrialInput input = Input("expression", "mean", 24);
  input.program = program;
  const auto trial = Trial::Make(input);
  ASSERT_TRUE(trial.ok()) << trial.status();
  ASSERT_EQ((*trial)->num_to_run(), 3);
  for (int64_t c = 0; c < 3; ++c) {
    EXPECT_EQ((*trial)->candidates()[c].setting.kernel, "edge_tiles");
    (*trial)->Renew(0, *context_);
    EXPECT_TRUE((*trial)->Run(c, 0, *context_).ok());
  }
  ASSERT_FALSE((*trial)->refused().empty());
  EXPECT_EQ((*trial)->refused()[0].kernel, "reference");
}

TEST_F(TrialTest, AKernelThatNeedNotBeTriedOrLostTheDeviceIsNotAskedWhatItSupports) {
  auto slow = std::make_unique<ScriptedProduct>("slow", 1.0f, "slower for so few rows");
  auto lost = std::make_unique<ScriptedProduct>("lost", 1.0f);
  const ScriptedProduct *const slower = slow.get(), *const quarantined = lost.get();
  registry_.dense_update.Add(std::make_unique<ScriptedProduct>("good", 1.0f));
  registry_.dense_update.Add(std::move(slow));
  registry_.dense_update.Add(std::move(lost));
  testing::RememberedRuns runs;
  runs.Quarantine("dense_update lost");
  TrialInput input = Product(40, 24, false);
  input.first_runs = &runs;
  const auto trial = Trial::Make(input);
  ASSERT_TRUE(trial.ok()) << trial.status();
  EXPECT_EQ((*trial)->candidates().size(), 1u);
  ASSERT_EQ((*trial)->refused().size(), 2u);
  EXPECT_EQ((*trial)->refused()[0].reason, "slower for so few rows");
  EXPECT_EQ((*trial)->refused()[1].reason, "dense_update lost is quarantined: by the test");
  EXPECT_EQ(slower->asked, 0);
  EXPECT_EQ(quarantined->asked, 0);
}

TEST_F(TrialTest, AKernelThatIsLeftOutIsAskedNothing) {
  auto left_out = std::make_unique<ScriptedProduct>("unprepared", 1.0f, "it was asked");
  const ScriptedProduct* const unprepared = left_out.get();
  registry_.dense_update.Add(std::move(left_out));
  registry_.dense_update.Add(std::make_unique<ScriptedProduct>("good", 1.0f));
  TrialInput input = Product(40, 24, false);
  input.left_out = {{"unprepared", "no memory for it"}};
  const auto trial = Trial::Make(input);
  ASSERT_TRUE(trial.ok()) << trial.status();
  ASSERT_EQ((*trial)->candidates().size(), 1u);
  EXPECT_EQ((*trial)->candidates()[0].setting.kernel, "good");
  ASSERT_EQ((*trial)->refused().size(), 1u);
  EXPECT_EQ((*trial)->refused()[0].kernel, "unprepared");
  EXPECT_EQ((*trial)->refused()[0].reason, "no memory for it");
  EXPECT_EQ(unprepared->asked, 0);
  input.left_out.push_back({"good", "nor for this one"});
  const Status none = Trial::Make(input).status();
  EXPECT_EQ(none.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(none.message().find("unprepared: no memory for it; good: nor for this one"), std::string::npos) << none;
}

TEST_F(TrialTest, OneCandidateAloneTakesNoMemoryIfOnlyToBeCompared) {
  registry_.dense_update.Add(std::make_unique<ScriptedProduct>("good", 1.0f));
  TrialInput input = Product(40, 24, false);
  input.only_to_compare = true;
  input.admit = [](int64_t) { return Internal("asked for memory"); };
  const int64_t before = device_->allocated_bytes();
  const auto trial = Trial::Make(input);
  ASSERT_TRUE(trial.ok()) << trial.status();
  EXPECT_EQ((*trial)->num_to_run(), 1);
  EXPECT_EQ(device_->allocated_bytes(), before);
}

TEST_F(TrialTest, CandidatesThatDoNotFitAreLeftOut) {
  constexpr int64_t kMebibyte = 1 << 20;
  Add(std::make_unique<ScriptedKernel>("rows", std::vector<KernelConfig>{{}}));
  auto panels = std::make_unique<ScriptedKernel>("panels", std::vector<KernelConfig>{{{64}}});
  panels->extra_scratch = 20 * kMebibyte;
  Add(std::move(panels));
  auto blocks = std::make_unique<ScriptedKernel>("blocks", std::vector<KernelConfig>{{{128}}, {{64}}});
  blocks->wants_layout = true;
  const ScriptedKernel& fits = Add(std::move(blocks));
  TrialInput input = Input("aggregate", "sum", 64);
  input.prune_factor = 100;
  input.admit = [](int64_t bytes) {
    return bytes <= kMebibyte ? OkStatus() : FailedPrecondition("OVER_BUDGET", "too large");
  };
  const auto trial = Trial::Make(input);
  ASSERT_TRUE(trial.ok()) << trial.status();
  EXPECT_EQ((*trial)->num_to_run(), 3);
  for (int64_t c = 0; c < 3; ++c) EXPECT_NE((*trial)->candidates()[c].setting.kernel, "panels");
  EXPECT_EQ((*trial)->candidates()[3].setting.kernel, "panels");
  EXPECT_EQ((*trial)->candidates()[3].outcome, CandidateOutcome::kPruned);
  ASSERT_EQ((*trial)->refused().size(), 1);
  EXPECT_EQ((*trial)->refused()[0].kernel, "panels");
  EXPECT_EQ((*trial)->refused()[0].reason, "too large");
  EXPECT_EQ(fits.layouts_made, 2);
  EXPECT_LT(device_->allocated_bytes(), kMebibyte);
  // Three turns of 300 rows of 64 columns, twice, are more than this: no default, no trial.
  input.admit = [](int64_t bytes) {
    return bytes <= 400'000 ? OkStatus() : FailedPrecondition("OVER_BUDGET", "too large");
  };
  EXPECT_EQ(Trial::Make(input).status().message(), "too large");
}

// Kernels that look for what is not finite would be timed on another path than the one that serves.
TEST_F(TrialTest, RowsOfSixteenBitsAreOrdinaryNumbers) {
  const ScriptedKernel& kernel = Add(std::make_unique<ScriptedKernel>("rows", std::vector<KernelConfig>{{}}));
  for (const Storage storage : {Storage::kBfloat16, Storage::kFloat16}) {
    TrialInput input = Input("aggregate", "sum", 64);
    input.key.storage = storage;
    const auto trial = Trial::Make(input);
    ASSERT_TRUE(trial.ok()) << trial.status();
    ASSERT_TRUE((*trial)->Run(0, 0, *context_).ok());
    const auto& src = kernel.last.src16;
    const int exponent_mask = storage == Storage::kBfloat16 ? 0x7F80 : 0x7C00;
    for (int64_t i = 0; i < src.rows * src.stride; ++i) {
      const int exponent = src.data[i] & exponent_mask;
      ASSERT_TRUE(exponent != exponent_mask && (exponent != 0 || (src.data[i] & 0x7FFF) == 0)) << i;
    }
  }
}

}  // namespace
}  // namespace vicinal
