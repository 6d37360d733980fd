// SPDX-License-Identifier: Apache-2.0
// Message networks that become expressions: what comes out of the pass, and what plans do with a kernel that says it
// compiles. Nothing is compiled here: the kernel is the CPU's, whose answers are compared with those of message_reduce
// and with the interpreter of steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "engine/kernels/expression_form.h"
#include "engine/plan/rewrite/rewrite.h"
#include "engine/tune/work.h"
#include "tests/engine/plan/plan_testing.h"
#include "tests/engine/plan/receptive_field/receptive_field_testing.h"
#include "tests/engine/tune/remembered_runs.h"

namespace vicinal::testing {
namespace {

using internal::ExpressMessages;
using internal::MultiplyPerEdge;
using internal::Node;
using internal::NodeKind;
using internal::Program;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kNoCompiler[] = "NVRTC is not installed (libnvrtc.so.13)";

std::string Expresses(const Node&, const ExpressionStep&) { return {}; }
std::string Refuses(const Node&, const ExpressionStep&) { return "no"; }

Program Rewritten(ModelMaker& maker, ValueId output, const internal::ExpressionRefusal& why_not = Expresses) {
  return ExpressMessages(internal::RewriteModel(*maker.Done(output), output, /*sparse_input=*/false, {100, 500, 0}),
                         why_not);
}

std::vector<NodeKind> KindsOf(const Program& program) {
  std::vector<NodeKind> kinds;
  for (const Node& node : program.nodes) kinds.push_back(node.kind);
  return kinds;
}

// The operations of a program's values.
std::vector<EdgeOp> OpsOf(const EdgeProgram& program) {
  std::vector<EdgeOp> ops;
  for (const EdgeValue& value : program.values) ops.push_back(value.op);
  return ops;
}

TEST(ExpressMessages, MakesAProgramOfANetwork) {
  ModelMaker maker(6);
  const Program program = Rewritten(maker, maker.EdgeConv(0, Reduce::kMean, {16, 12, 9}, {0, 0, 3}));
  ASSERT_THAT(KindsOf(program), ElementsAre(NodeKind::kLinear, NodeKind::kExpression));
  const Node& node = program.nodes[1];
  EXPECT_TRUE(node.in_place_of_messages);
  EXPECT_EQ(node.output, program.output);
  const EdgeProgram& made = *node.expression.program;
  EXPECT_THAT(OpsOf(made), ElementsAre(EdgeOp::kSource, EdgeOp::kTarget, EdgeOp::kAdd, EdgeOp::kActivation,
                                       EdgeOp::kLinear, EdgeOp::kActivation, EdgeOp::kLinear));
  EXPECT_EQ(made.sources, 1);
  EXPECT_EQ(made.targets, 1);
  EXPECT_EQ(made.width(), 9);
  ASSERT_EQ(made.results.size(), 1u);
  EXPECT_EQ(made.results[0].reduce, EdgeReduce::kMean);
  ASSERT_EQ(node.expression.parameters.size(), 3u) << "two matrices and the last one's bias";
  EXPECT_THAT(node.expression.parameters[0]->shape, ElementsAre(12, 16));
  EXPECT_THAT(program.decisions, Contains(HasSubstr("l0: the message network is computed as an expression")));
}

TEST(ExpressMessages, TellsWhyNot) {
  ModelMaker maker(6);
  const Program program = Rewritten(maker, maker.EdgeConv(0, Reduce::kMax, {16, 12}, {0, 0}), Refuses);
  EXPECT_THAT(KindsOf(program), ElementsAre(NodeKind::kLinear, NodeKind::kMessageReduce));
  EXPECT_THAT(program.decisions, Contains("l0: the message network is no expression: no"));
}

// What has no network, or one of something else, stays as it is, and nothing is told.
TEST(ExpressMessages, LeavesOtherMessages) {
  const auto stays = [](const std::function<ValueId(ModelMaker&)>& layer) {
    ModelMaker maker(6);
    const ValueId output = layer(maker);
    const Program program = Rewritten(maker, output, [](const Node&, const ExpressionStep&) -> std::string {
      ADD_FAILURE() << "asked";
      return {};
    });
    EXPECT_THAT(KindsOf(program), Contains(NodeKind::kMessageReduce));
    EXPECT_THAT(program.decisions, Not(Contains(HasSubstr("the message network"))));
  };
  stays([](ModelMaker& maker) { return maker.EdgeConv(0, Reduce::kMax, {16}, {0}); });
  stays([](ModelMaker& maker) { return maker.EdgeSum(0, Reduce::kSum, true); });
  stays([](ModelMaker& maker) { return maker.GatedMessages(0, 12, Reduce::kSum, false, true); });
  stays([](ModelMaker& maker) { return maker.SoftmaxMessages(0, 1.0, false); });
  stays([](ModelMaker& maker) { return maker.MixedMessages(0, 12, Reduce::kSum, 12, false); });
}

Program Multiplied(ModelMaker& maker, ValueId output, bool sparse_input = false,
                   const internal::ExpressionRefusal& why_not = Expresses) {
  return MultiplyPerEdge(internal::RewriteModel(*maker.Done(output), output, sparse_input, {100, 500, 300}), why_not);
}

TEST(MultiplyPerEdge, ReadsTheInputsOfAProductInPlaceOfItsResults) {
  ModelMaker maker(8);
  const Program program = Multiplied(maker, maker.PairMessages(0, 128, Reduce::kMax));
  ASSERT_THAT(KindsOf(program), ElementsAre(NodeKind::kExpression)) << "the product of nodes is gone";
  const Node& node = program.nodes[0];
  EXPECT_TRUE(node.in_place_of_messages);
  EXPECT_THAT(node.inputs, ElementsAre(kInputValue, kInputValue));
  EXPECT_THAT(OpsOf(*node.expression.program),
              ElementsAre(EdgeOp::kSource, EdgeOp::kTarget, EdgeOp::kAdd, EdgeOp::kLinear, EdgeOp::kActivation));
  ASSERT_EQ(node.expression.parameters.size(), 2u);
  EXPECT_THAT(node.expression.parameters[0]->shape, ElementsAre(128, 8));
  EXPECT_THAT(program.decisions, Contains("l2 + l0 + l1: the product of 8 and 128 columns is computed per edge"));
}

TEST(MultiplyPerEdge, TellsWhyNot) {
  ModelMaker maker(8);
  const Program program = Multiplied(maker, maker.PairMessages(0, 128, Reduce::kMax), false, Refuses);
  EXPECT_THAT(KindsOf(program), ElementsAre(NodeKind::kLinear, NodeKind::kMessageReduce));
  EXPECT_THAT(program.decisions, Contains("l2 + l0 + l1: the product of 8 and 128 columns is computed per node: no"));
}

TEST(MultiplyPerEdge, LeavesOtherMessages) {
  const auto stays = [](const std::string& what, int64_t cols, const std::function<ValueId(ModelMaker&)>& layer,
                        bool sparse_input = false) {
    ModelMaker maker(cols);
    const ValueId output = layer(maker);
    const Program program = Multiplied(maker, output, sparse_input);
    EXPECT_THAT(KindsOf(program), Contains(NodeKind::kMessageReduce)) << what;
    EXPECT_THAT(program.decisions, Not(Contains(HasSubstr("is computed per")))) << what;
  };
  const auto pair = [](ModelMaker& maker) { return maker.PairMessages(0, 128, Reduce::kSum); };
  stays("many inputs", 9, pair);
  stays("sparse inputs", 8, pair, true);
  stays("few results", 8, [](ModelMaker& maker) { return maker.PairMessages(0, 127, Reduce::kSum); });
  stays("two matrices", 8, [](ModelMaker& maker) {
    const ValueId u = maker.Linear(0, 128, true), v = maker.Linear(0, 128, true);
    return maker.MessageNetwork(u, v, Reduce::kSum, {}, false);
  });
  stays("an input's activation", 8, [](ModelMaker& maker) {
    const ValueId u = maker.Activate(maker.Linear(0, 128, true), ActivationKind::kTanh);
    return maker.MessageNetwork(u, u, Reduce::kSum, {}, false);
  });
  stays("another reader", 8, [](ModelMaker& maker) {
    const ValueId u = maker.Linear(0, 128, true);
    return maker.Multiply(maker.MessageNetwork(u, u, Reduce::kSum, {}, false), u);
  });
  stays("a product of its own beside it", 8, [](ModelMaker& maker) {
    const ValueId reduced = maker.PairMessages(0, 128, Reduce::kSum);
    return maker.Multiply(reduced, maker.Linear(0, 128, true));
  });
}

// The CPU's kernel of expressions, as one that compiles unless it says why not.
class CompiledPrograms final : public ExpressionKernel, public ExpressionFormMaker {
 public:
  explicit CompiledPrograms(const std::string* why_not) : why_not_(why_not) { RegisterCpuKernels(cpu_); }
  std::string_view name() const override { return "programs"; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return kernel().declared_order(); }
  Refusal WhyUnsupported(const ExpressionProblem& problem) const override { return kernel().WhyUnsupported(problem); }
  std::vector<std::string_view> ParameterNames() const override { return {"compile"}; }
  size_t ScratchBytes(const ExpressionProblem& problem, const KernelConfig&, int num_threads) const override {
    return kernel().ScratchBytes(problem, {}, num_threads);
  }
  size_t PackedBytes(int64_t out_width, int64_t in_width) const override {
    return kernel().PackedBytes(out_width, in_width);
  }
  void Pack(ConstMatrixView weight, void* packed) const override { kernel().Pack(weight, packed); }
  Status Run(DeviceContext& context, const ExpressionArgs& args, void* scratch) const override {
    ExpressionArgs plain = args;
    plain.config = {};
    return kernel().Run(context, plain, scratch);
  }
  std::shared_ptr<const ExpressionForm> MakeForm(const ExpressionArgs&,
                                                 const std::vector<const void*>&) const override {
    return std::make_shared<ExpressionForm>();
  }
  std::string WhyNotFast(const ExpressionProblem& problem, const KernelConfig& config) const override {
    EXPECT_FALSE(problem.code->instructions.empty());
    return config.values[0] < 0 ? "it is not to compile" : *why_not_;
  }

 private:
  const ExpressionKernel& kernel() const { return cpu_.expression.kernels().front()->kernel(); }

  const std::string* const why_not_;
  KernelRegistry cpu_;
};

class ExpressedPlans : public ::testing::Test {
 protected:
  ExpressedPlans() {
    registry_.expression.Add(std::make_unique<CompiledPrograms>(&why_not_));
    RegisterCpuKernels(registry_);
    std::mt19937 random(4);
    edges_ = RandomEdges(kNodes, 5 * kNodes, false, random);
    graph_ = PrepareEdges(edges_, OrderKind::kRcm);
    x_ = RandomFeatures(kNodes, kCols, random);
    features_ = UploadFeatures(x_, kCols, false, *graph_);
  }
  static std::shared_ptr<const Model> EdgeConv(Reduce reduce, const std::vector<int64_t>& widths,
                                               const std::vector<int>& norms) {
    ModelMaker maker(kCols);
    return maker.Done(maker.EdgeConv(0, reduce, widths, norms));
  }
  std::shared_ptr<Plan> Build(const std::shared_ptr<const Model>& model, ForcedKernels forced = {}) {
    PlanRequest request = RequestFor(model, graph_, *features_, std::move(forced));
    request.first_runs = &runs_;
    const auto plan = Plan::Build(request, registry_, *ThePlanBench().device);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return *plan;
  }
  std::vector<float> Run(Plan& plan) { return RunPlan(plan, *features_, *graph_, false); }
  static std::string LastOperation(const Plan& plan) { return plan.Steps().back().operation; }

  static constexpr int64_t kNodes = 70, kCols = 6;
  std::string why_not_;  // of the kernel
  KernelRegistry registry_;
  RememberedRuns runs_;
  EdgeList edges_;
  std::shared_ptr<const PreparedGraph> graph_;
  std::vector<double> x_;
  std::shared_ptr<const FeatureMatrix> features_;
};

TEST_F(ExpressedPlans, EqualTheOracleAndThePlansOfMessages) {
  const std::vector<std::pair<std::vector<int64_t>, std::vector<int>>> networks = {
      {{16, 12}, {0, 3}}, {{64, 64}, {0, 3}}, {{12, 20, 5}, {1, 2, 1}}, {{9, 7, 33, 10}, {2, 3, 1, 2}}};
  for (const Reduce reduce : {Reduce::kSum, Reduce::kMean, Reduce::kMax, Reduce::kMin}) {
    for (const auto& [widths, norms] : networks) {
      const std::string what = absl::StrCat("reduction ", static_cast<int>(reduce), ", ", widths.size(), " layers");
      const auto model = EdgeConv(reduce, widths, norms);
      const auto expressed = Build(model), messages = Build(model, {{"message_reduce", "template_spmm"}});
      ASSERT_EQ(LastOperation(*expressed), "expression") << what;
      ASSERT_EQ(LastOperation(*messages), "message_reduce") << what;
      const std::vector<float> got = Run(*expressed), other = Run(*messages);
      const InterpreterInput input{&edges_, &x_, {}, EdgeFeaturesOf(edges_)};
      ExpectNear(got, *Interpret(*model, input, model->outputs[0].value), widths.back(), what);
      ExpectNear(got, std::vector<double>(other.begin(), other.end()), widths.back(), what);
      EXPECT_EQ(Run(*expressed), got) << what;
    }
  }
}

// Messages of the source alone, networks of the form that expressions match, and what follows a layer in its epilogue.
TEST_F(ExpressedPlans, EqualTheOracleInOtherLayers) {
  for (const bool both : {false, true}) {
    ModelMaker maker(kCols);
    const ValueId u = maker.Linear(0, 20, true), v = both ? maker.Linear(0, 20, false) : -1;
    const ValueId reduced = maker.MessageNetwork(u, v, Reduce::kMean, {32, 12}, false);
    const auto model = maker.Done(maker.Activate(maker.Bias(reduced), ActivationKind::kElu));
    const auto plan = Build(model);
    ASSERT_EQ(LastOperation(*plan), "expression");
    const InterpreterInput input{&edges_, &x_, {}, EdgeFeaturesOf(edges_)};
    ExpectNear(Run(*plan), *Interpret(*model, input, model->outputs[0].value), 12, both ? "both ends" : "sources");
  }
}

TEST_F(ExpressedPlans, EqualTheOracleInRandomModels) {
  int expressed = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const auto model = AnyModel(kCols, /*weighted=*/false, /*pooled=*/false, seed);
    const auto plan = Build(model);
    for (const PlanStepInfo& step : plan->Steps()) expressed += step.kernel == "programs" ? 1 : 0;
    const InterpreterInput input{&edges_, &x_, {}, EdgeFeaturesOf(edges_)};
    ExpectNear(Run(*plan), *Interpret(*model, input, model->outputs[0].value), 5, absl::StrCat("seed ", seed));
  }
  EXPECT_GT(expressed, 0);
}

TEST_F(ExpressedPlans, EqualTheOracleInProductsPerEdge) {
  for (const Reduce reduce : {Reduce::kSum, Reduce::kMean, Reduce::kMax, Reduce::kMin}) {
    ModelMaker maker(kCols);
    const auto model = maker.Done(maker.Linear(maker.PairMessages(0, 130, reduce), 5, true));
    const auto plan = Build(model), messages = Build(model, {{"message_reduce", "template_spmm"}});
    EXPECT_EQ(plan->Steps()[0].operation, "expression");
    EXPECT_THAT(plan->Steps()[0].description, HasSubstr("of relu(linear((x [70, 6]_j + x [70, 6]_i), W [130, 6]))"));
    EXPECT_EQ(messages->Steps()[1].operation, "message_reduce");
    EXPECT_NE(plan->reduction_order(), messages->reduction_order());
    EXPECT_EQ(messages->reduction_order(), 0);
    const InterpreterInput input{&edges_, &x_, {}, EdgeFeaturesOf(edges_)};
    const std::vector<double> expected = *Interpret(*model, input, model->outputs[0].value);
    ExpectNear(Run(*plan), expected, 5, absl::StrCat("reduction ", static_cast<int>(reduce)));
    ExpectNear(Run(*messages), expected, 5, absl::StrCat("messages, ", static_cast<int>(reduce)));
  }
}

// One value is both u and v, and its bias counts twice.
TEST_F(ExpressedPlans, ProductsPerEdgeOfOneValue) {
  ModelMaker maker(kCols);
  const ValueId u = maker.Linear(0, 128, true);
  const auto model = maker.Done(maker.MessageNetwork(u, u, Reduce::kSum, {}, false));
  const auto plan = Build(model);
  EXPECT_EQ(LastOperation(*plan), "expression");
  const InterpreterInput input{&edges_, &x_, {}, EdgeFeaturesOf(edges_)};
  ExpectNear(Run(*plan), *Interpret(*model, input, model->outputs[0].value), 128, "one value");
}

// Their input is a slice of something wider.
TEST_F(ExpressedPlans, ProductsPerEdgeOfHiddenLayers) {
  ModelMaker maker(kCols);
  const ValueId hidden = maker.Activate(maker.Linear(0, 12, true), ActivationKind::kTanh);
  const auto model = maker.Done(maker.PairMessages(maker.Slice(hidden, 3, 8), 128, Reduce::kMean));
  const auto plan = Build(model);
  EXPECT_EQ(LastOperation(*plan), "expression");
  const InterpreterInput input{&edges_, &x_, {}, EdgeFeaturesOf(edges_)};
  ExpectNear(Run(*plan), *Interpret(*model, input, model->outputs[0].value), 128, "hidden");
}

TEST_F(ExpressedPlans, ProductsStayWithNodesWhere) {
  ModelMaker maker(kCols);
  const auto model = maker.Done(maker.PairMessages(0, 128, Reduce::kMax));
  const auto forced = [&](const std::string& operation, const std::string& kernel) {
    return LastOperation(*Build(model, {{operation, kernel}}));
  };
  EXPECT_EQ(forced("message_reduce", "template_spmm"), "message_reduce");
  EXPECT_EQ(forced("dense_update", "reference"), "message_reduce");
  EXPECT_EQ(forced("expression", "programs:compile=-1"), "message_reduce");
  EXPECT_EQ(forced("expression", "programs"), "expression");
  why_not_ = kNoCompiler;
  const auto plan = Build(model);
  EXPECT_EQ(LastOperation(*plan), "message_reduce");
  EXPECT_THAT(plan->Decisions(), Contains(HasSubstr(absl::StrCat("per node: programs: ", kNoCompiler))));
}

// What a plan takes is admitted before, also its weights that were folded and rounded.
TEST_F(ExpressedPlans, TakeWhatIsAdmitted) {
  PlanRequest request = RequestFor(EdgeConv(Reduce::kMax, {16, 12, 5}, {1, 2, 1}), graph_, *features_);
  int64_t admitted = -1;
  const auto admit = [&admitted](int64_t bytes) { return admitted = bytes, OkStatus(); };
  const int64_t held = ThePlanBench().device->allocated_bytes();
  const auto plan = Plan::Build(request, registry_, *ThePlanBench().device, admit);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(LastOperation(**plan), "expression");
  EXPECT_EQ(admitted, ThePlanBench().device->allocated_bytes() - held + (*plan)->step_bytes());
}

TEST_F(ExpressedPlans, ReceptiveFieldsHaveTheBitsOfTheWhole) {
  ModelMaker maker(kCols);
  const ValueId hidden = maker.EdgeConv(0, Reduce::kMean, {16, 8}, {0, 0});
  const auto plan = Build(maker.Done(maker.PairMessages(hidden, 128, Reduce::kSum)));
  ASSERT_EQ(LastOperation(*plan), "expression");
  ASSERT_EQ(plan->field().refusal, "");
  const std::vector<float> whole = Run(*plan);
  const Permutation& permutation = graph_->parts().permutation;
  TestAccount account;
  ReceptiveFieldWorkspace work{ThePlanBench().device.get(), account.purpose()};
  const std::vector<int64_t> ids = {3, 17, 60, kNodes - 1};
  const auto found = work.finder.Find(plan->field(), ids, permutation, ReceptiveFieldFinder::kNoLimit, 2);
  ASSERT_TRUE(found.ok() && *found);
  const auto rows = plan->RunReceptiveField(*ThePlanBench().context, *features_, nullptr, &work, nullptr,
                                            StatsSink::Null(), Clock::Real());
  ASSERT_TRUE(rows.ok()) << rows.status();
  for (const int64_t id : ids) {
    const float* const got = rows->row(work.finder.RowOf(permutation.ToNew(static_cast<NodeId>(id))));
    EXPECT_EQ(std::vector<float>(got, got + 128), std::vector<float>(&whole[id * 128], &whole[id * 128] + 128)) << id;
  }
}

// Their bits differ, so clients must not take one for the other.
TEST_F(ExpressedPlans, HaveARevisionOfTheirOwn) {
  const auto model = EdgeConv(Reduce::kMax, {16, 12}, {0, 3});
  const int64_t expressed = Build(model)->reduction_order();
  const DeclaredOrder order = registry_.expression.kernels().front()->kernel().declared_order();
  EXPECT_EQ(expressed, MixReductionOrders(0, 1, ReductionOrderId("message_reduce", {order.name, order.version})))
      << "clients keep revisions";
  EXPECT_EQ(Build(model)->reduction_order(), expressed);
  EXPECT_EQ(Build(model, {{"message_reduce", "template_spmm"}})->reduction_order(), 0);
  why_not_ = kNoCompiler;
  EXPECT_EQ(Build(model)->reduction_order(), 0) << "as before there were expressions";
}

TEST_F(ExpressedPlans, AreExplained) {
  const auto plan = Build(EdgeConv(Reduce::kMax, {16, 12}, {0, 3}));
  const PlanStepInfo step = plan->Steps().back();
  EXPECT_EQ(step.kernel, "programs");
  EXPECT_THAT(step.description, HasSubstr("max over "));
  EXPECT_THAT(step.description, HasSubstr("linear(leaky_relu(("));
  EXPECT_THAT(step.description, HasSubstr("W [12, 16]"));
  EXPECT_THAT(plan->Decisions(), Contains("l0: the message network is computed as an expression"));
}

TEST_F(ExpressedPlans, WithoutACompilerMessagesStay) {
  why_not_ = kNoCompiler;
  const auto plan = Build(EdgeConv(Reduce::kMax, {16, 12}, {0, 3}));
  EXPECT_EQ(LastOperation(*plan), "message_reduce");
  EXPECT_THAT(plan->Decisions(),
              Contains(absl::StrCat("l0: the message network is no expression: programs: ", kNoCompiler)));
}

TEST_F(ExpressedPlans, WhatWasNotMeasuredStays) {
  const auto narrow = Build(EdgeConv(Reduce::kMax, {8, 64}, {0, 3}));
  EXPECT_EQ(LastOperation(*narrow), "message_reduce");
  EXPECT_THAT(narrow->Decisions(), Contains(HasSubstr("it was not measured with products of at most 8 inputs")));
  ModelMaker maker(kCols);
  const ValueId u = maker.Linear(0, 20, true);
  const auto featured = Build(maker.Done(maker.MessageNetwork(u, -1, Reduce::kMax, {12}, true)));
  EXPECT_EQ(LastOperation(*featured), "message_reduce");
  EXPECT_THAT(featured->Decisions(), Contains(HasSubstr("it was not measured with features of edges")));
}

// As on a GPU, whose message networks read no features of edges. Here all kernels are quarantined.
TEST_F(ExpressedPlans, WhatNoOtherKernelComputesIsAnExpression) {
  why_not_ = kNoCompiler;
  for (const auto& entry : registry_.message_reduce.kernels()) {
    const MessageReduceKernel& kernel = entry->kernel();
    runs_.Quarantine(ConfigurationName("message_reduce", kernel.name(), NameParameters(kernel, KernelConfig())));
  }
  for (const bool multiplied : {false, true}) {
    for (const bool both : {false, true}) {
      ModelMaker maker(kCols);
      const int64_t width = multiplied ? 20 : kEdgeFeatures;
      const ValueId u = maker.Linear(0, width, true), v = both ? maker.Linear(0, width, false) : -1;
      const auto model = maker.Done(maker.MessageNetwork(u, v, Reduce::kMin, {7, 12}, true));
      const auto plan = Build(model);
      ASSERT_EQ(LastOperation(*plan), "expression");
      const InterpreterInput input{&edges_, &x_, {}, EdgeFeaturesOf(edges_)};
      ExpectNear(Run(*plan), *Interpret(*model, input, model->outputs[0].value), 12, multiplied ? "W e" : "e");
    }
  }
}

TEST_F(ExpressedPlans, RequestsMayForceEither) {
  const auto model = EdgeConv(Reduce::kMax, {16, 12}, {0, 3});
  const auto forced = [&](const std::string& operation, const std::string& kernel) {
    return LastOperation(*Build(model, {{operation, kernel}}));
  };
  EXPECT_EQ(forced("message_reduce", "template_spmm"), "message_reduce");
  EXPECT_EQ(forced("message_reduce", "reference"), "message_reduce");
  EXPECT_EQ(forced("expression", "programs"), "expression");
  EXPECT_EQ(forced("expression", "programs:compile=1"), "expression");
  EXPECT_EQ(forced("expression", "programs:compile=-1"), "message_reduce");
  EXPECT_EQ(forced("expression", "edge_tiles"), "message_reduce") << "a kernel that interprets";
  EXPECT_EQ(forced("dense_update", "reference"), "expression");
}

TEST_F(ExpressedPlans, AQuarantinedKernelIsPassedOver) {
  const auto model = EdgeConv(Reduce::kMax, {16, 12}, {0, 3});
  runs_.Quarantine(ConfigurationName("expression", "programs", {{"compile", 0}}));
  const auto plan = Build(model);
  EXPECT_EQ(LastOperation(*plan), "message_reduce");
}

TEST_F(ExpressedPlans, TheCpuHasNoOpinion) {
  const auto plan = Plan::Build(RequestFor(EdgeConv(Reduce::kMax, {16, 12}, {0, 3}), graph_, *features_),
                                ThePlanBench().registry, *ThePlanBench().device);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(LastOperation(**plan), "message_reduce");
  EXPECT_THAT((*plan)->Decisions(), Not(Contains(HasSubstr("the message network"))));
}

}  // namespace
}  // namespace vicinal::testing
