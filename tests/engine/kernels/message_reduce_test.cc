// SPDX-License-Identifier: Apache-2.0
// Conformance of message reduction: every kernel, message, reduce, width and MLP over the zoo against the oracle; equal
// bits for threads, configurations and subsets of rows; hubs; non-finite values stay in their rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "tests/engine/kernels/message_oracle.h"
#include "tests/engine/kernels/zoo.h"

namespace vicinal::testing {
namespace {

constexpr Message kMessages[] = {Message::kSource, Message::kAdd, Message::kSubtract, Message::kMultiply};
constexpr Reduce kReduces[] = {Reduce::kSum, Reduce::kMean, Reduce::kMax, Reduce::kMin};
constexpr Activation kNone = {};
constexpr Activation kLeaky = {ActivationKind::kLeakyRelu, 0.1f};

// One problem: shapes, and what is done to a message.
struct Case {
  Message message = Message::kSource;
  Reduce reduce = Reduce::kSum;
  int64_t width = 1;
  bool weighted = false;
  Activation activation = kNone;
  std::vector<int64_t> layers;  // their output widths
};

// Operands of a case; layers alternate between a bias with an activation and neither.
class Operands {
 public:
  Operands(const TestGraph& graph, const Case& c)
      : what(c), csr(ToCsr(graph)), src(graph.sources, c.width, 1), target(graph.targets, c.width, 2) {
    Random r(6);
    int64_t in_width = c.width;
    for (size_t l = 0; l < c.layers.size(); ++l) {
      weights.emplace_back(c.layers[l], in_width, 10 + l);
      biases.emplace_back(c.layers[l]);
      for (float& b : biases.back()) b = r.Float();
      in_width = c.layers[l];
    }
    out_width = in_width;
    bias.resize(out_width);
    for (float& b : bias) b = r.Float();
  }

  Activation LayerActivation(size_t l) const {
    return l % 2 == 0 ? Activation{ActivationKind::kRelu, 0} : Activation{ActivationKind::kTanh, 0};
  }

  // `packed` gets what args.layers point at.
  MessageReduceArgs Args(const MessageReduceKernel& kernel, MatrixView dst, std::vector<Buffer>* packed) const {
    MessageReduceArgs args;
    args.problem = {what.message, what.reduce, what.weighted, csr.rows, csr.cols, static_cast<int64_t>(csr.col.size()),
                    what.width};
    args.problem.num_layers = static_cast<int32_t>(what.layers.size());
    for (size_t l = 0; l < what.layers.size(); ++l) {
      args.problem.out_widths[l] = what.layers[l];
      packed->push_back(Packed(kernel, weights[l].view()));
      args.layers[l] = {packed->back().data(), l % 2 == 0 ? biases[l].data() : nullptr, LayerActivation(l)};
    }
    args.adjacency = csr.View(what.weighted);
    args.src = src.view();
    if (what.message != Message::kSource) args.target = target.view();
    args.activation = what.activation;
    args.dst = dst;
    return args;
  }

  OracleMessage Oracle() const {
    OracleMessage oracle = {what.message, what.weighted, what.activation, {}};
    for (size_t l = 0; l < weights.size(); ++l)
      oracle.layers.push_back({&weights[l], l % 2 == 0 ? &biases[l] : nullptr, LayerActivation(l)});
    return oracle;
  }

  Case what;
  TestCsr csr;
  TestMatrix src, target;
  std::vector<TestMatrix> weights;
  std::vector<std::vector<float>> biases;
  std::vector<float> bias;  // of the epilogue
  int64_t out_width = 0;
};

std::string Describe(const TestGraph& graph, const Case& c) {
  std::string text = graph.name + " message " + std::to_string(static_cast<int>(c.message)) + " " +
                     std::string(ToString(c.reduce)) + (c.weighted ? " weighted " : " ") + std::to_string(c.width);
  for (const int64_t out : c.layers) text += " -> " + std::to_string(out);
  return text;
}

// The longest sum behind an element.
int64_t Terms(const TestGraph& graph, const Case& c) {
  int64_t terms = static_cast<int64_t>(graph.edges.size()) + c.width;
  for (const int64_t out : c.layers) terms += out;
  return terms;
}

void Check(const RegisteredKernel<MessageReduceKernel>& kernel, const TestGraph& graph, const Case& c) {
  SCOPED_TRACE(std::string(kernel.kernel().name()) + " " + Describe(graph, c));
  const Operands operands(graph, c);
  TestMatrix dst(graph.targets, operands.out_width, 9);
  const TestMatrix before = dst;
  std::vector<Buffer> packed;
  MessageReduceArgs args = operands.Args(kernel.kernel(), dst.view(), &packed);
  args.epilogue.bias = operands.bias.data();
  args.epilogue.residual = dst.view();
  args.epilogue.residual_scale = 0.25f;
  args.epilogue.activation = {ActivationKind::kElu, 1.0f};
  ASSERT_EQ(kernel.kernel().WhyUnsupported(args.problem), "");
  Expected expected =
      OracleReduce(graph, c.reduce, OracleMessages(graph, operands.Oracle(), operands.src, operands.target));
  OracleEpilogue(&operands.bias, &before, 0.25f, args.epilogue.activation, &expected);
  const std::vector<KernelConfig> configs = kernel.kernel().Candidates(args.problem);
  ASSERT_FALSE(configs.empty());
  for (const KernelConfig& config : configs) {
    dst = before;
    args.config = config;
    ASSERT_TRUE(Launch(kernel, args).ok());
    EXPECT_EQ(Differs(expected, dst, Terms(graph, c)), "");
    EXPECT_TRUE(dst.GapsUntouched());
  }
}

void ForEachKernel(const std::function<void(const RegisteredKernel<MessageReduceKernel>&)>& f) {
  for (const auto& kernel : TheMachine().registry.message_reduce.kernels()) f(*kernel);
}

TEST(MessageReduceConformance, MessagesReducesAndWidthsOverTheZoo) {
  const std::vector<TestGraph> zoo = Zoo();
  ForEachKernel([&](const auto& kernel) {
    for (const TestGraph& graph : zoo) {
      for (const int64_t width : {1, 7, 16, 33, 64, 130, 300}) {
        for (const Message message : kMessages) {
          for (const Reduce reduce : kReduces) {
            const bool weighted = (static_cast<int>(message) + static_cast<int>(reduce)) % 2 == 0;
            Check(kernel, graph, {message, reduce, width, weighted, weighted ? kLeaky : kNone, {}});
          }
        }
      }
    }
  });
}

TEST(MessageReduceConformance, WeightsAndActivationsOfMessages) {
  const TestGraph graph = LargeGraph(60, 900);
  ForEachKernel([&](const auto& kernel) {
    for (const Message message : kMessages) {
      for (const ActivationKind kind : {ActivationKind::kNone, ActivationKind::kRelu, ActivationKind::kElu,
                                        ActivationKind::kLeakyRelu, ActivationKind::kSigmoid, ActivationKind::kTanh}) {
        for (const bool weighted : {false, true})
          Check(kernel, graph, {message, Reduce::kMax, 37, weighted, {kind, 0.5f}, {}});
      }
    }
  });
}

TEST(MessageReduceConformance, EdgeLayersOverTheZoo) {
  const std::vector<TestGraph> zoo = Zoo();
  const std::pair<int64_t, std::vector<int64_t>> shapes[] = {
      {1, {1}}, {5, {17}}, {33, {16, 7}}, {64, {64}}, {20, {40, 3, 21}}, {7, {8, 9, 10, 11}}, {130, {70, 41}}};
  ForEachKernel([&](const auto& kernel) {
    for (const TestGraph& graph : zoo) {
      int turn = 0;
      for (const auto& [width, layers] : shapes) {
        for (const Reduce reduce : kReduces) {
          const Message message = kMessages[turn++ % 4];
          Check(kernel, graph, {message, reduce, width, turn % 3 == 0, turn % 2 == 0 ? kLeaky : kNone, layers});
        }
      }
    }
  });
}

// A tenth of the edges meet in one node.
TEST(MessageReduceConformance, Hub) {
  const TestGraph graph = LargeGraph(300, 20000);
  ForEachKernel([&](const auto& kernel) {
    for (const Reduce reduce : kReduces) {
      Check(kernel, graph, {Message::kAdd, reduce, 19, false, {ActivationKind::kRelu, 0}, {}});
      Check(kernel, graph, {Message::kSubtract, reduce, 6, true, kNone, {12, 5}});
    }
  });
}

TEST(MessageReduceConformance, ScalesOfTheEpilogue) {
  const TestGraph graph = LargeGraph(50, 400);
  ForEachKernel([&](const auto& kernel) {
    const Operands operands(graph, {Message::kAdd, Reduce::kSum, 21, false, kNone, {}});
    std::vector<float> row_scale(50);
    Random r(3);
    for (float& s : row_scale) s = r.Float();
    TestMatrix dst(50, 21, 9);
    std::vector<Buffer> packed;
    MessageReduceArgs args = operands.Args(kernel.kernel(), dst.view(), &packed);
    args.epilogue.scale = 3.0f;
    args.epilogue.row_scale = row_scale.data();
    ASSERT_TRUE(Launch(kernel, args).ok());
    Expected expected =
        OracleReduce(graph, Reduce::kSum, OracleMessages(graph, operands.Oracle(), operands.src, operands.target));
    for (int64_t i = 0; i < 50; ++i) {
      for (int64_t c = 0; c < 21; ++c) {
        expected.v(i, c) *= 3.0 * row_scale[i];
        expected.m(i, c) *= 3.0 * std::abs(row_scale[i]);
      }
    }
    EXPECT_EQ(Differs(expected, dst, 400), "");
  });
}

// Rows [first, first + count) alone, by the same adjacency.
TEST(MessageReduceDeterminism, EqualBitsForThreadsConfigurationsAndSubsets) {
  const TestGraph graph = LargeGraph(1500, 30000);
  const Case cases[] = {{Message::kMultiply, Reduce::kSum, 40, true, kNone, {}},
                        {Message::kAdd, Reduce::kMean, 200, false, {ActivationKind::kElu, 1.0f}, {}},
                        {Message::kSubtract, Reduce::kMin, 9, false, kNone, {}},
                        {Message::kAdd, Reduce::kSum, 12, false, {ActivationKind::kRelu, 0}, {24, 10}},
                        {Message::kSubtract, Reduce::kMax, 17, true, kNone, {20}}};
  ForEachKernel([&](const auto& kernel) {
    for (const Case& c : cases) {
      SCOPED_TRACE(std::string(kernel.kernel().name()) + " " + Describe(graph, c));
      const Operands operands(graph, c);
      TestMatrix first(1500, operands.out_width, 0);
      std::vector<Buffer> packed;
      const MessageReduceArgs whole = operands.Args(kernel.kernel(), first.view(), &packed);
      ASSERT_TRUE(Launch(kernel, whole).ok());
      for (const KernelConfig& config : kernel.kernel().Candidates(whole.problem)) {
        for (int threads = 1; threads <= 3; ++threads) {
          TestMatrix again(1500, operands.out_width, 5);
          MessageReduceArgs args = whole;
          args.config = config;
          args.dst = again.view();
          ASSERT_TRUE(Launch(kernel, args, threads).ok());
          ASSERT_EQ(first.Values(), again.Values());
        }
        // 700 holds the hub's row, 750.
        for (const auto& [begin, count] : {std::pair<int64_t, int64_t>{0, 1}, {700, 100}, {750, 1}, {1449, 51}}) {
          TestMatrix part(count, operands.out_width, 6);
          MessageReduceArgs args = whole;
          args.config = config;
          args.dst = part.view();
          args.adjacency.row_ptr += begin;
          args.adjacency.rows = args.problem.rows = count;
          args.problem.edges = args.adjacency.nnz = args.adjacency.row_ptr[count] - args.adjacency.row_ptr[0];
          if (!args.target.empty()) args.target.data += begin * args.target.stride;
          ASSERT_TRUE(Launch(kernel, args, 2).ok());
          for (int64_t i = 0; i < count; ++i) {
            for (int64_t col = 0; col < operands.out_width; ++col) ASSERT_EQ(part.at(i, col), first.at(begin + i, col));
          }
        }
      }
    }
  });
}

// NaN and infinity reach the targets of their source and no other row; NaN is not lost to a maximum.
TEST(MessageReduceNonFinite, StaysWithTheRowsThatMadeIt) {
  TestGraph graph{"ladder", 40, 40, {}};
  for (int32_t i = 1; i < 40; ++i) {
    graph.edges.push_back({i - 1, i, 1.0f});
    graph.edges.push_back({i, i, 1.0f});
    graph.edges.push_back({0, i, 1.0f});
  }
  ForEachKernel([&](const auto& kernel) {
    for (const Reduce reduce : kReduces) {
      for (const std::vector<int64_t>& layers : {std::vector<int64_t>{}, std::vector<int64_t>{7, 30}}) {
        for (const float bad : {std::numeric_limits<float>::quiet_NaN(), HUGE_VALF}) {
          // Linear layers: a maximum over rectified infinities could be finite.
          Operands operands(graph, {Message::kAdd, reduce, 19, false, kNone, layers});
          operands.src.view().row(20)[4] = bad;
          TestMatrix dst(40, operands.out_width, 0);
          std::vector<Buffer> packed;
          MessageReduceArgs args = operands.Args(kernel.kernel(), dst.view(), &packed);
          for (MessageLayerArgs& layer : args.layers) layer.activation = {};
          ASSERT_TRUE(Launch(kernel, args).ok());
          int64_t spoilt = 0;
          for (int64_t i = 0; i < 40; ++i) {
            for (int64_t c = 0; c < operands.out_width; ++c) {
              const bool finite = std::isfinite(dst.at(i, c));
              ASSERT_TRUE(finite || i == 20 || i == 21) << i << ", " << c;
              if (!finite) ++spoilt;
            }
          }
          if (std::isnan(bad)) {
            EXPECT_EQ(spoilt, layers.empty() ? 2 : 2 * operands.out_width);
          }
        }
      }
    }
  });
}

TEST(MessageReduce, NothingToDo) {
  ForEachKernel([](const auto& kernel) {
    for (const TestGraph& graph : {TestGraph{"empty", 0, 5, {}}, TestGraph{"no_edges", 3, 5, {}}}) {
      const Operands operands(graph, {Message::kAdd, Reduce::kMax, 4, false, kNone, {3}});
      TestMatrix dst(graph.targets, 3, 1);
      std::vector<Buffer> packed;
      const MessageReduceArgs args = operands.Args(kernel.kernel(), dst.view(), &packed);
      ASSERT_TRUE(Launch(kernel, args).ok());
      for (const float x : dst.Values()) EXPECT_EQ(x, 0.0f);
    }
  });
}

}  // namespace
}  // namespace vicinal::testing
