// SPDX-License-Identifier: Apache-2.0
// Conformance of aggregation: every kernel x zoo x widths x reduces x weights x storages x epilogues against the
// oracle; equal bits for all kernels but the reference, whatever their configuration, the number of threads and the
// subset of rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/engine/kernels/oracle.h"
#include "tests/engine/kernels/zoo.h"

namespace vicinal::testing {
namespace {

constexpr Reduce kReduces[] = {Reduce::kSum, Reduce::kMean, Reduce::kMax, Reduce::kMin};
constexpr Storage kStorages[] = {Storage::kFloat32, Storage::kBfloat16, Storage::kFloat16};
constexpr int64_t kWidths[] = {1, 3, 16, 32, 33, 64, 200, 602};

enum class Weights { kNone, kOfEdges, kOfSources };
constexpr Weights kWeights[] = {Weights::kNone, Weights::kOfEdges, Weights::kOfSources};

// What is fused into the store.
struct EpilogueCase {
  const char* name;
  float scale;
  bool row_scale;
  bool bias;
  enum { kNone, kOther, kItself } residual;
  Activation activation;
};
const EpilogueCase kEpilogues[] = {
    {"plain", 1, false, false, EpilogueCase::kNone, {}},
    {"bias_relu", 1, false, true, EpilogueCase::kNone, {ActivationKind::kRelu, 0}},
    {"bias_residual_elu", 1, false, true, EpilogueCase::kOther, {ActivationKind::kElu, 0.7f}},
    {"onto_itself_leaky", 1, false, false, EpilogueCase::kItself, {ActivationKind::kLeakyRelu, 0.1f}},
    {"scaled", -0.75f, false, true, EpilogueCase::kNone, {}},
    {"row_scaled_tanh", 0.5f, true, true, EpilogueCase::kOther, {ActivationKind::kTanh, 0}}};

// Rows as a storage holds them, with gaps between them that hold a signalling NaN, and what they stand for.
struct StoredRows {
  StoredRows(Storage kind, int64_t rows, int64_t cols, uint64_t seed)
      : storage(kind), values(rows, cols, seed), stride(cols + 3), bits(3 + rows * stride, 0x7DFF) {
    if (storage == Storage::kFloat32) return;
    Random r(seed);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t c = 0; c < cols; ++c) {
        float& value = values.view().row(i)[c];
        uint16_t& stored = bits[3 + i * stride + c];
        if (storage == Storage::kBfloat16) {
          uint32_t wide;
          std::memcpy(&wide, &value, sizeof(wide));
          stored = static_cast<uint16_t>(wide >> 16);
          wide = static_cast<uint32_t>(stored) << 16;
          std::memcpy(&value, &wide, sizeof(value));
        } else {
          // Any sign, magnitudes from subnormal to 2, ten bits of fraction.
          const int64_t sign = r.Below(2), exponent = r.Below(8) == 0 ? 0 : 8 + r.Below(8), fraction = r.Below(1024);
          stored = static_cast<uint16_t>(sign << 15 | exponent << 10 | fraction);
          const double size = exponent == 0 ? static_cast<double>(fraction) * 0x1p-24
                                            : std::exp2(exponent - 15) * (1 + static_cast<double>(fraction) / 1024);
          value = static_cast<float>(sign == 0 ? size : -size);
        }
      }
    }
  }

  // Every seventh row, in every third column.
  void PutNans() {
    for (int64_t i = 3; i < values.rows(); i += 7) {
      for (int64_t c = i % 3; c < values.cols(); c += 3) {
        values.view().row(i)[c] = std::nanf("");
        if (storage != Storage::kFloat32) bits[3 + i * stride + c] = storage == Storage::kBfloat16 ? 0x7FC0 : 0x7E00;
      }
    }
  }

  void Bind(AggregateArgs* args) const {
    args->problem.storage = storage;
    if (storage == Storage::kFloat32) {
      args->src = values.view();
    } else {
      args->src16 = {bits.data() + 3, values.rows(), values.cols(), stride};
    }
  }

  Storage storage;
  TestMatrix values;
  int64_t stride;
  std::vector<uint16_t> bits;
};

struct Case {
  const TestGraph& graph;
  int64_t width;
  Reduce reduce;
  Weights weights;
  Storage storage;
  const EpilogueCase& epilogue;
  float self_scale;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.graph.name << " width " << c.width << " " << ToString(c.reduce) << " weights "
             << static_cast<int>(c.weights) << " storage " << static_cast<int>(c.storage) << " " << c.epilogue.name
             << " self " << c.self_scale;
}

// The operands of a case, bound to arguments, and what the oracle makes of them.
class Operands {
 public:
  explicit Operands(const Case& c)
      : case_(c),
        csr_(ToCsr(c.graph)),
        src_(c.storage, c.graph.sources, c.width, 1),
        residual_(c.graph.targets, c.width, 2),
        before_(c.graph.targets, c.width, 3),
        bias_(RandomVector(c.width, 4)),
        row_scale_(RandomVector(c.graph.targets, 5)),
        src_scale_(RandomVector(c.graph.sources, 6)) {}

  // Arguments that write to `dst`, which becomes what it was before.
  AggregateArgs Bind(TestMatrix* dst) const {
    *dst = before_;
    AggregateArgs args;
    const bool of_edges = case_.weights == Weights::kOfEdges;
    args.problem = {case_.reduce,
                    case_.weights != Weights::kNone,
                    case_.graph.targets,
                    case_.graph.sources,
                    static_cast<int64_t>(case_.graph.edges.size()),
                    case_.width};
    args.adjacency = csr_.View(of_edges);
    src_.Bind(&args);
    if (case_.weights == Weights::kOfSources) args.src_scale = src_scale_.data();
    args.dst = dst->view();
    args.self_scale = case_.self_scale;
    const EpilogueCase& e = case_.epilogue;
    args.epilogue.scale = e.scale;
    if (e.row_scale) args.epilogue.row_scale = row_scale_.data();
    if (e.bias) args.epilogue.bias = bias_.data();
    if (e.residual == EpilogueCase::kOther) args.epilogue.residual = residual_.view();
    if (e.residual == EpilogueCase::kItself) args.epilogue.residual = dst->view();
    args.epilogue.residual_scale = 0.5f;
    args.epilogue.activation = e.activation;
    return args;
  }

  Expected Expect() const {
    TestGraph graph = case_.graph;
    if (case_.weights == Weights::kOfSources) {
      for (Edge& edge : graph.edges) edge.weight = src_scale_[edge.source];
    }
    Expected expected =
        OracleAggregate(graph, case_.weights != Weights::kNone, case_.reduce, case_.self_scale, src_.values);
    const EpilogueCase& e = case_.epilogue;
    for (int64_t i = 0; i < expected.rows; ++i) {
      const double scale = static_cast<double>(e.scale) * (e.row_scale ? row_scale_[i] : 1.0f);
      for (int64_t c = 0; c < expected.cols; ++c) {
        expected.v(i, c) *= scale;
        expected.m(i, c) *= std::abs(scale);
      }
    }
    const TestMatrix* added = e.residual == EpilogueCase::kOther    ? &residual_
                              : e.residual == EpilogueCase::kItself ? &before_
                                                                    : nullptr;
    OracleEpilogue(e.bias ? &bias_ : nullptr, added, 0.5f, e.activation, &expected);
    return expected;
  }

  void PutNans() { src_.PutNans(); }
  TestMatrix Destination() const { return before_; }
  int64_t edges() const { return static_cast<int64_t>(case_.graph.edges.size()); }

 private:
  const Case& case_;
  TestCsr csr_;
  StoredRows src_;
  TestMatrix residual_, before_;
  std::vector<float> bias_, row_scale_, src_scale_;
};

void CheckAllKernels(const Case& c) {
  SCOPED_TRACE(::testing::Message() << c);
  const Operands operands(c);
  const Expected expected = operands.Expect();
  for (const auto& kernel : TheMachine().registry.aggregate.kernels()) {
    TestMatrix dst = operands.Destination();
    const AggregateArgs args = operands.Bind(&dst);
    if (!kernel->kernel().WhyUnsupported(args.problem).empty()) continue;
    ASSERT_TRUE(Launch(*kernel, args).ok());
    EXPECT_EQ(Differs(expected, dst, operands.edges()), "") << kernel->kernel().name();
    EXPECT_TRUE(dst.GapsUntouched()) << kernel->kernel().name();
  }
}

// Configurations to try: what the kernel proposes, and some that nobody would.
std::vector<KernelConfig> Configs(const AggregateKernel& kernel, const AggregateProblem& problem) {
  std::vector<KernelConfig> configs = kernel.Candidates(problem);
  for (const KernelConfig& odd :
       {KernelConfig{{-1, 16, 7, 0}}, KernelConfig{{40, 1, 1, 1, 1}}, KernelConfig{{1, 48, 0, 3, -1}},
        KernelConfig{{16, 700, 333, 5, 9}}, KernelConfig{{0, 0, 0, 0, 1}}})
    configs.push_back(odd);
  return configs;
}

// The judge itself: one element off by a few parts in a million, or NaN, must be found.
TEST(Oracle, NoticesOneWrongElement) {
  TestMatrix got(20, 33, 1);
  const Expected expected = Exactly(got);
  EXPECT_EQ(Differs(expected, got, 100), "");
  const float right = got.at(7, 32);
  for (const float wrong : {right * (1 + 4e-6f), right * (1 - 4e-6f), 0.0f, std::nanf(""), HUGE_VALF}) {
    got.view().row(7)[32] = wrong;
    EXPECT_THAT(Differs(expected, got, 100), ::testing::HasSubstr("[7, 32]"));
  }
  EXPECT_TRUE(got.GapsUntouched());
  got.view().row(7)[33] = 1;
  EXPECT_FALSE(got.GapsUntouched());
}

TEST(AggregateConformance, EveryKernelOverTheZoo) {
  size_t turn = 0;
  for (const TestGraph& graph : Zoo()) {
    for (const int64_t width : kWidths) {
      for (const Reduce reduce : kReduces) {
        for (const Storage storage : kStorages) {
          for (const Weights weights : kWeights) {
            // Seven and the others have no common divisor: in turn, everything meets every epilogue.
            const EpilogueCase& epilogue = kEpilogues[turn % std::size(kEpilogues)];
            const bool self = graph.targets == graph.sources && turn % 7 < 3;
            CheckAllKernels({graph, width, reduce, weights, storage, epilogue, self ? 1.5f : 0.0f});
            ++turn;
          }
        }
      }
    }
  }
}

TEST(AggregateConformance, EveryEpilogue) {
  const TestGraph graph = LargeGraph(50, 400);
  for (const int64_t width : {7, 40}) {
    for (const Reduce reduce : kReduces) {
      for (const EpilogueCase& epilogue : kEpilogues) {
        for (const float self_scale : {0.0f, -1.25f})
          CheckAllKernels({graph, width, reduce, Weights::kOfEdges, Storage::kFloat32, epilogue, self_scale});
      }
    }
  }
}

TEST(AggregateConformance, LargeGraph) {
  const TestGraph graph = LargeGraph(2000, 30000);
  for (const int64_t width : {7, 64, 300}) {
    for (const Reduce reduce : kReduces)
      CheckAllKernels({graph, width, reduce, Weights::kOfEdges, Storage::kFloat32, kEpilogues[0], 0.0f});
  }
}

// A hub of 100,000 positive terms: the sum of a long row must not lose more than the bound of the whole product.
TEST(AggregateConformance, HubKeepsFloatAccuracy) {
  TestGraph graph{"hub", 1, 1000, {}};
  Random r(5);
  for (int e = 0; e < 100000; ++e)
    graph.edges.push_back({static_cast<int32_t>(r.Below(1000)), 0, 0.5f + std::abs(r.Float())});
  const TestCsr csr = ToCsr(graph);
  TestMatrix src(1000, 20, 6);
  for (int64_t i = 0; i < 1000; ++i) {
    for (int64_t c = 0; c < 20; ++c) src.view().row(i)[c] = std::abs(src.at(i, c));
  }
  for (const auto& kernel : TheMachine().registry.aggregate.kernels()) {
    TestMatrix dst(1, 20, 0);
    AggregateArgs args;
    args.problem = {Reduce::kSum, true, 1, 1000, 100000, 20};
    args.adjacency = csr.View(true);
    args.src = src.view();
    args.dst = dst.view();
    ASSERT_TRUE(Launch(*kernel, args).ok());
    Expected expected = OracleAggregate(graph, true, Reduce::kSum, 0, src);
    for (int64_t c = 0; c < 20; ++c) EXPECT_NEAR(dst.at(0, c) / expected.v(0, c), 1.0, 1e-6) << kernel->kernel().name();
  }
}

// Runs each configuration of a kernel that takes the operands, on one to three threads, and calls check(dst).
template <class Check>
void RunConfigs(const RegisteredKernel<AggregateKernel>& kernel, const Operands& operands, const Check& check) {
  TestMatrix dst = operands.Destination();
  AggregateArgs args = operands.Bind(&dst);
  if (!kernel.kernel().WhyUnsupported(args.problem).empty()) return;
  int threads = 0;
  for (const KernelConfig& config : Configs(kernel.kernel(), args.problem)) {
    SCOPED_TRACE(::testing::Message() << kernel.kernel().name() << ::testing::PrintToString(config.values));
    args = operands.Bind(&dst);
    args.config = config;
    ASSERT_TRUE(Launch(kernel, args, 1 + threads++ % 3).ok());
    ASSERT_NO_FATAL_FAILURE(check(dst));
  }
}

// The one evaluation order (gather_rows-inl.h): all kernels but the reference, which sums in double.
TEST(AggregateDeterminism, EqualBitsForKernelsConfigurationsThreadsAndSubsets) {
  const TestGraph graph = LargeGraph(1000, 12000);
  size_t turn = 0;
  for (const int64_t width : {1, 5, 16, 33, 100, 200}) {
    for (const Reduce reduce : kReduces) {
      for (const Storage storage : kStorages) {
        const Weights weights = kWeights[turn % 3];
        const Case c = {graph, width, reduce, weights, storage, kEpilogues[turn % std::size(kEpilogues)], 0.5f};
        ++turn;
        SCOPED_TRACE(::testing::Message() << c);
        const Operands operands(c);
        std::vector<float> first;
        for (const auto& kernel : TheMachine().registry.aggregate.kernels()) {
          if (kernel->kernel().name() == "reference") continue;
          ASSERT_NO_FATAL_FAILURE(RunConfigs(*kernel, operands, [&](const TestMatrix& dst) {
            if (first.empty()) first = dst.Values();
            ASSERT_TRUE(dst.Values() == first);
            EXPECT_TRUE(dst.GapsUntouched());
          }));
        }
      }
    }
  }
}

TEST(AggregateDeterminism, EqualBitsForASubsetOfRows) {
  const TestGraph graph = LargeGraph(3000, 60000);
  const TestCsr csr = ToCsr(graph);
  for (const auto& kernel : TheMachine().registry.aggregate.kernels()) {
    for (const int64_t width : {5, 16, 100}) {
      for (const Reduce reduce : kReduces) {
        const TestMatrix src(graph.sources, width, 1);
        TestMatrix all(graph.targets, width, 0), part(100, width, 0);
        AggregateArgs args;
        args.problem = {reduce, true, graph.targets, graph.sources, static_cast<int64_t>(graph.edges.size()), width};
        args.adjacency = csr.View(true);
        args.src = src.view();
        args.dst = all.view();
        ASSERT_TRUE(Launch(*kernel, args, 3).ok());
        // Rows [1450, 1550), the hub among them, as a problem of their own.
        args.adjacency.row_ptr += 1450;
        args.adjacency.rows = args.problem.rows = 100;
        args.dst = part.view();
        ASSERT_TRUE(Launch(*kernel, args, 2).ok());
        for (int64_t i = 0; i < 100; ++i) {
          for (int64_t c = 0; c < width; ++c) ASSERT_EQ(part.at(i, c), all.at(1450 + i, c));
        }
      }
    }
  }
}

// Receptive fields do not keep columns ascending; the order of evaluation is that of the edges all the same.
TEST(AggregateDeterminism, EqualBitsWhereColumnsDoNotAscend) {
  const TestGraph graph = LargeGraph(500, 9000);
  TestCsr csr = ToCsr(graph);
  for (int64_t i = 0; i < csr.rows; ++i) {
    std::reverse(csr.col.begin() + csr.row_ptr[i], csr.col.begin() + csr.row_ptr[i + 1]);
    const int64_t third = (csr.row_ptr[i + 1] - csr.row_ptr[i]) / 3;
    std::rotate(csr.col.begin() + csr.row_ptr[i], csr.col.begin() + csr.row_ptr[i] + third,
                csr.col.begin() + csr.row_ptr[i + 1]);
  }
  const TestMatrix src(graph.sources, 50, 1);
  for (const Reduce reduce : kReduces) {
    std::vector<float> first;
    for (const auto& kernel : TheMachine().registry.aggregate.kernels()) {
      if (kernel->kernel().name() == "reference") continue;
      TestMatrix dst(graph.targets, 50, 0);
      AggregateArgs args;
      args.problem = {reduce, true, graph.targets, graph.sources, static_cast<int64_t>(graph.edges.size()), 50};
      args.adjacency = csr.View(true);
      args.src = src.view();
      args.dst = dst.view();
      for (const KernelConfig& config : Configs(kernel->kernel(), args.problem)) {
        args.config = config;
        dst.Fill(-1);
        ASSERT_TRUE(Launch(*kernel, args, 2).ok());
        if (first.empty()) first = dst.Values();
        ASSERT_TRUE(dst.Values() == first) << kernel->kernel().name();
      }
    }
  }
}

TEST(AggregateNonFinite, StaysWithTheRowsThatMadeIt) {
  const TestGraph graph{"path", 20, 20, [] {
                          std::vector<Edge> edges;
                          for (int32_t i = 1; i < 20; ++i) edges.push_back({i - 1, i, 1.0f});
                          return edges;
                        }()};
  const TestCsr csr = ToCsr(graph);
  for (const auto& kernel : TheMachine().registry.aggregate.kernels()) {
    for (const Reduce reduce : kReduces) {
      TestMatrix src(20, 21, 1), dst(20, 21, 0);
      src.view().row(7)[20] = HUGE_VALF;
      src.view().row(7)[3] = std::nanf("");
      AggregateArgs args;
      args.problem = {reduce, false, 20, 20, 19, 21};
      args.adjacency = csr.View(false);
      args.src = src.view();
      args.dst = dst.view();
      for (const KernelConfig& config : Configs(kernel->kernel(), args.problem)) {
        args.config = config;
        ASSERT_TRUE(Launch(*kernel, args).ok());
        EXPECT_EQ(dst.at(8, 20), HUGE_VALF);
        for (int64_t i = 0; i < 20; ++i) {
          for (int64_t c = 0; c < 21; ++c) {
            if (i != 8) {
              EXPECT_TRUE(std::isfinite(dst.at(i, c))) << kernel->kernel().name() << " row " << i;
            }
          }
        }
      }
    }
  }
}

// Rows `count` from `first` on of a case as a problem of their own.
void TakeRows(int64_t first, int64_t count, AggregateArgs* args) {
  args->adjacency.row_ptr += first;
  args->adjacency.rows = args->problem.rows = args->dst.rows = count;
  args->dst.data += first * args->dst.stride;
  if (args->epilogue.row_scale != nullptr) args->epilogue.row_scale += first;
  if (!args->epilogue.residual.empty()) args->epilogue.residual.data += first * args->epilogue.residual.stride;
}

// As in PyTorch Geometric: what was NaN once is not a number again because a later neighbour is one. Rows of no edge to
// more than two blocks of edges; what is met first, in the middle and last, by itself and often.
TEST(AggregateNonFinite, NanThatIsReadDoesNotVanish) {
  const TestGraph graph = LargeGraph(400, 9000);
  size_t turn = 0;
  for (const int64_t width : {1, 7, 16, 40, 200}) {
    for (const Reduce reduce : kReduces) {
      for (const Storage storage : kStorages) {
        const EpilogueCase& epilogue = kEpilogues[turn % std::size(kEpilogues)];
        const Case c = {graph, width, reduce, kWeights[turn % 3], storage, epilogue, 0.0f};
        ++turn;
        SCOPED_TRACE(::testing::Message() << c);
        Operands operands(c);
        operands.PutNans();
        const Expected expected = operands.Expect();
        for (const auto& kernel : TheMachine().registry.aggregate.kernels()) {
          ASSERT_NO_FATAL_FAILURE(RunConfigs(*kernel, operands, [&](const TestMatrix& dst) {
            ASSERT_EQ(Differs(expected, dst, operands.edges()), "");
          }));
          // In three parts, the hub in the second.
          TestMatrix dst = operands.Destination();
          const AggregateArgs args = operands.Bind(&dst);
          if (!kernel->kernel().WhyUnsupported(args.problem).empty()) continue;
          for (const auto& [first, count] : {std::pair(0, 199), std::pair(199, 3), std::pair(202, 198)}) {
            AggregateArgs part = args;
            TakeRows(first, count, &part);
            ASSERT_TRUE(Launch(*kernel, part).ok());
          }
          ASSERT_EQ(Differs(expected, dst, operands.edges()), "") << kernel->kernel().name() << " in parts";
        }
      }
    }
  }
}

}  // namespace
}  // namespace vicinal::testing
