// SPDX-License-Identifier: Apache-2.0
#include "engine/tune/work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/base/error.h"

namespace vicinal {
namespace {

using ::testing::HasSubstr;

TEST(TuningWorkTest, ProblemsAndKeysAgreeBothWays) {
  AggregateProblem aggregate;
  aggregate.reduce = Reduce::kMean;
  aggregate.weighted = true;
  aggregate.rows = 3, aggregate.cols = 4, aggregate.edges = 5;
  aggregate.width = 6;
  aggregate.storage = Storage::kFloat16;
  const TuningKey key = KeyOf(aggregate, EdgeWeights::kPerSource);
  EXPECT_EQ(Describe(key), "aggregate mean, width 6, weights per_source, float16");
  EXPECT_EQ(KeyOf(AggregateProblemOf(key, 3, 4, 5), key.weights), key);
  EXPECT_TRUE(AggregateProblemOf(key, 3, 4, 5).weighted);

  const AttentionProblem attention = {AttentionKind::kGatV2, 3, 4, 5, 2, 8, false};
  const TuningKey heads = KeyOf(attention, EdgeWeights::kNone);
  EXPECT_EQ(Describe(heads), "attention gatv2, width 8 x 2 heads, averaged");
  EXPECT_EQ(KeyOf(AttentionProblemOf(heads, 3, 4, 5), heads.weights), heads);

  const DenseUpdateProblem product = {3, 128, 64, ProductPrecision::kTf32};
  const TuningKey plain = KeyOf(product, /*epilogue=*/false), finished = KeyOf(product, /*epilogue=*/true);
  EXPECT_EQ(Describe(plain), "dense_update tf32, width 128, outputs 64");
  EXPECT_EQ(Describe(finished), "dense_update tf32, width 128, outputs 64, with epilogue");
  EXPECT_FALSE(plain == finished);
  EXPECT_EQ(KeyOf(DenseUpdateProblemOf(finished, 3), true), finished);
  EXPECT_EQ(DenseUpdateProblemOf(plain, 3).rows, 3);
  EXPECT_TRUE(IsProduct(plain));
  EXPECT_FALSE(IsProduct(key));
}

TEST(TuningWorkTest, Words) {
  EXPECT_TRUE(IsKindOf("aggregate", "min"));
  EXPECT_FALSE(IsKindOf("aggregate", "gat"));
  EXPECT_TRUE(IsKindOf("attention", "dot"));
  EXPECT_FALSE(IsKindOf("attention", ""));
  EXPECT_EQ(KindsOf("aggregate"), "sum, mean, max, min");
  EXPECT_EQ(KindsOf("attention"), "gat, gatv2, dot");
  EXPECT_TRUE(IsKindOf("dense_update", "bfloat16"));
  EXPECT_FALSE(IsKindOf("dense_update", "sum"));
  EXPECT_EQ(KindsOf("dense_update"), "float32, tf32, bfloat16, float16");
  EXPECT_EQ(EdgeWeightsNamed("per_edge"), EdgeWeights::kPerEdge);
  EXPECT_FALSE(EdgeWeightsNamed("heavy").has_value());
}

class NamedCandidateTest : public ::testing::Test {
 protected:
  NamedCandidateTest() { RegisterCpuKernels(registry_); }
  StatusOr<TuningCandidate> Name(const std::string& kernel, const std::map<std::string, int32_t>& parameters,
                                 Storage storage = Storage::kFloat32) {
    AggregateProblem problem;
    problem.width = 64;
    problem.storage = storage;
    return NamedCandidate(registry_, DeviceKind::kCpu, KeyOf(problem, EdgeWeights::kNone), 10, 10, 20, kernel,
                          parameters);
  }
  KernelRegistry registry_;
};

TEST_F(NamedCandidateTest, ParametersByName) {
  const auto candidate = Name("simd_rows", {{"tile_columns", 32}});
  ASSERT_TRUE(candidate.ok()) << candidate.status();
  EXPECT_EQ(candidate->setting.kernel, "simd_rows");
  EXPECT_THAT(candidate->parameters, ::testing::Contains(NamedParameter{"tile_columns", 32}));
  EXPECT_THAT(candidate->setting.config.values, ::testing::Contains(32));
}

TEST_F(NamedCandidateTest, UnknownNamesAreRefusedWithTheList) {
  const auto kernel = Name("warp_rows", {});
  EXPECT_EQ(DetailOf(kernel.status())->reason, "KERNEL_UNKNOWN");
  EXPECT_EQ(DetailOf(kernel.status())->field, "force.kernel");
  EXPECT_THAT(std::string(kernel.status().message()), HasSubstr("simd_rows"));
  const auto parameter = Name("simd_rows", {{"tile_colums", 32}});
  EXPECT_EQ(DetailOf(parameter.status())->reason, "PARAMETER_UNKNOWN");
  EXPECT_EQ(DetailOf(parameter.status())->field, "force.parameters['tile_colums']");
  EXPECT_THAT(std::string(parameter.status().message()), HasSubstr("tile_columns"));
  const auto reference = Name("reference", {});
  EXPECT_EQ(DetailOf(reference.status())->reason, "KERNEL_REFUSED");
}

TEST_F(NamedCandidateTest, ValuesOutOfRangeAreRefused) {
  for (const int32_t value : {-1, (1 << 20) + 1}) {
    const auto candidate = Name("simd_rows", {{"tile_columns", value}});
    EXPECT_EQ(candidate.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(DetailOf(candidate.status())->reason, "PARAMETER_RANGE") << value;
  }
  const auto stores = Name("simd_rows", {{"stream_stores", 2}});
  EXPECT_EQ(stores.status().message(), "the aggregate kernel 'simd_rows' takes -1, 0 or 1 as stream_stores; this is 2");
  EXPECT_TRUE(Name("simd_rows", {{"prefetch_edges", -1}, {"stream_stores", -1}}).ok());
}

TEST_F(NamedCandidateTest, NamesOfControlCharactersAreEscaped) {
  EXPECT_THAT(std::string(Name("simd\x1b[31m", {}).status().message()), HasSubstr("'simd?[31m'"));
  const Status parameter = Name("simd_rows", {{"tile\n", 1}}).status();
  EXPECT_THAT(std::string(parameter.message()), HasSubstr("no parameter 'tile?'"));
  EXPECT_EQ(DetailOf(parameter)->field, "force.parameters['tile?']");
  EXPECT_THAT(std::string(OperationsWith(registry_, DeviceKind::kCpu, "simd\n", {}).status().message()),
              HasSubstr("'simd?'"));
}

class ParseParametersTest : public NamedCandidateTest {
 protected:
  // Of the first expression kernel, edge_tiles.
  StatusOr<KernelConfig> Parse(const std::string& text) {
    return ParseParameters(ParametersOf(registry_.expression, registry_.expression.kernels()[0]->kernel()), text);
  }
};

TEST_F(ParseParametersTest, ByName) {
  const auto config = Parse("prefetch_columns=-1,edge_tile=192");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(*config, (KernelConfig{{192, -1}}));
  EXPECT_EQ(*Parse(""), KernelConfig());
  EXPECT_EQ(*Parse("edge_tile=0"), KernelConfig());
}

TEST_F(ParseParametersTest, RefusalsNameKernelParameterValueAndWhatIsAllowed) {
  for (const char* text :
       {"edge_tile=-1", "edge_tile=3", "edge_tile=193", "edge_tile=99999999999", "prefetch_columns=-2"}) {
    const Status status = Parse(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(DetailOf(status)->reason, "PARAMETER_RANGE") << text;
    EXPECT_EQ(DetailOf(status)->field, "execution.kernels[expression]");
  }
  EXPECT_EQ(Parse("edge_tile=1000").status().message(),
            "the expression kernel 'edge_tiles' takes 0 or 4 to 192 as edge_tile; this is 1000");
  const Status unknown = Parse("edge_tyle=96").status();
  EXPECT_EQ(DetailOf(unknown)->reason, "PARAMETER_UNKNOWN");
  EXPECT_EQ(unknown.message(),
            "the expression kernel 'edge_tiles' has no parameter 'edge_tyle'; there are: edge_tile, prefetch_columns");
  for (const char* text : {"edge_tile", "edge_tile=x", "edge_tile=48,edge_tile=48", "edge_tile=48,", ",", "\n"}) {
    const Status malformed = Parse(text).status();
    EXPECT_EQ(DetailOf(malformed)->reason, "PARAMETER_MALFORMED") << text;
    EXPECT_EQ(std::string(malformed.message()).find('\n'), std::string::npos);
  }
  EXPECT_THAT(Parse("edge_tile=48,edge_tile=96").status().message(), ::testing::HasSubstr("'edge_tile' is set twice"));
}

class RenamedKernel final : public AggregateKernel {
 public:
  std::string_view name() const override { return "binned_rows"; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return {"even_odd_blocks", 1, true}; }
  std::vector<std::string_view> ParameterNames() const override { return {"tile"}; }
  Refusal WhyUnsupported(const AggregateProblem&) const override { return {}; }
  Status Run(DeviceContext&, const AggregateArgs&, void*) const override { return OkStatus(); }
};

TEST_F(NamedCandidateTest, AFormerNameGivesACandidateWithTheCurrentOne) {
  registry_.aggregate.Add(std::make_unique<RenamedKernel>());
  const auto candidate = Name("balanced_rows", {{"tile", 32}});
  ASSERT_TRUE(candidate.ok()) << candidate.status();
  EXPECT_EQ(candidate->setting.kernel, "binned_rows");
  const auto operations = OperationsWith(registry_, DeviceKind::kCpu, "balanced_rows", {{"tile", 32}});
  ASSERT_TRUE(operations.ok()) << operations.status();
  EXPECT_EQ(*operations, std::vector<std::string>{"aggregate"});
  EXPECT_FALSE(OperationsWith(registry_, DeviceKind::kCpu, "abreast_rows", {}).ok()) << "not on this device";
}

class AnyProduct final : public DenseUpdateKernel {
 public:
  std::string_view name() const override { return "any"; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return {"any_order", 1}; }
  Refusal WhyUnsupported(const DenseUpdateProblem&) const override {
    ADD_FAILURE() << "it may take runs on the device";
    return {};
  }
  size_t PackedBytes(int64_t, int64_t) const override { return 0; }
  void Pack(ConstMatrixView, void*) const override {}
  Status Run(DeviceContext&, const DenseUpdateArgs&, void*) const override { return OkStatus(); }
};

TEST(HasChoiceTest, TwoKernelsBesideFallbacksOrTwoConfigurations) {
  KernelRegistry registry;
  RegisterCpuKernels(registry);
  const DenseUpdateProblem product = {1000, 64, 64};
  EXPECT_FALSE(HasChoice(registry.dense_update, product, DeviceKind::kCpu)) << "one, and the reference";
  EXPECT_FALSE(HasChoice(registry.dense_update, product, DeviceKind::kCuda)) << "none";
  registry.dense_update.Add(std::make_unique<AnyProduct>());
  EXPECT_TRUE(HasChoice(registry.dense_update, product, DeviceKind::kCpu));
  KernelRegistry one;
  one.aggregate.Add(std::make_unique<RenamedKernel>());
  EXPECT_FALSE(HasChoice(one.aggregate, AggregateProblem(), DeviceKind::kCpu));
}

}  // namespace
}  // namespace vicinal
