// SPDX-License-Identifier: Apache-2.0
// Conformance of kernels that read features of edges: attention of all kinds and message reduction, edges as sent and
// with one self-loop per node in place of those sent, against the formulas in double; equal bits for threads and for
// rows of a receptive field.
#include "engine/graph/edge_features.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "engine/graph/adjacency.h"
#include "tests/engine/kernels/zoo.h"

namespace vicinal::testing {
namespace {

constexpr AttentionKind kKinds[] = {AttentionKind::kGat, AttentionKind::kGatV2, AttentionKind::kDot};

// What loops that are put in place of those sent have.
enum class Loops { kAsSent, kMean, kNumber };

// A random graph of loops, duplicates, a hub and empty rows, with features.
class FeaturedGraph {
 public:
  FeaturedGraph(int64_t nodes, int64_t edges, int64_t width, Loops loops) : width_(width), loops_(loops) {
    std::mt19937 random(static_cast<uint32_t>(nodes + edges));
    EdgeList list;
    list.num_nodes = nodes;
    for (int64_t e = 0; e < edges; ++e) {
      const auto target = random() % 3 == 0 ? 0 : static_cast<NodeId>(random() % (1 + nodes * 3 / 4));
      list.target.push_back(target);
      list.source.push_back(random() % 6 == 0 ? target : static_cast<NodeId>(random() % nodes));
    }
    sent_ = BuildCsrByTarget(list);
    adjacency_ = *BuildAdjacency(sent_, {loops == Loops::kAsSent ? SelfLoops::kAsSent : SelfLoops::kReplace});
    features_ = RandomVector(edges * width, 7);
    loop_values_ = loops == Loops::kMean ? MeanEdgeFeatures(sent_, features_, width) : RandomVector(width, 8);
  }

  const Csr& adjacency() const { return adjacency_; }
  EdgeFeaturesView View() const {
    EdgeFeaturesView view;
    view.width = width_;
    view.values = features_.data();
    view.sent = sent_.view();
    view.one_loop_each = loops_ != Loops::kAsSent;
    view.loop_values = loop_values_.data();
    view.loop_stride = loops_ == Loops::kMean ? width_ : 0;
    return view;
  }
  // Of each entry of the adjacency, found by walking along the edges as sent.
  std::vector<std::vector<double>> Expected() const {
    std::vector<std::vector<double>> all;
    for (int64_t row = 0; row < adjacency_.num_rows; ++row) {
      EdgeId from = sent_.row_ptr[row];
      const auto skip_loops = [&] {
        while (loops_ != Loops::kAsSent && from < sent_.row_ptr[row + 1] && sent_.col[from] == row) ++from;
      };
      for (EdgeId e = adjacency_.row_ptr[row]; e < adjacency_.row_ptr[row + 1]; ++e) {
        skip_loops();
        if (loops_ != Loops::kAsSent && adjacency_.col[e] == row) {
          const float* own = loop_values_.data() + (loops_ == Loops::kMean ? row * width_ : 0);
          all.emplace_back(own, own + width_);
          continue;
        }
        EXPECT_EQ(sent_.col[from], adjacency_.col[e]);
        all.emplace_back(features_.begin() + from * width_, features_.begin() + (from + 1) * width_);
        ++from;
      }
      skip_loops();
      EXPECT_EQ(from, sent_.row_ptr[row + 1]);
    }
    return all;
  }

 private:
  const int64_t width_;
  const Loops loops_;
  Csr sent_, adjacency_;
  std::vector<float> features_, loop_values_;
};

void ExpectNear(double expected, float got) { EXPECT_NEAR(got, expected, 2e-5 * (1.0 + std::abs(expected))); }

// Column c of features times W^T [A, columns].
double Term(const std::vector<double>& features, const std::vector<float>& weight, int64_t columns, int64_t c) {
  double sum = 0;
  for (size_t a = 0; a < features.size(); ++a) sum += features[a] * weight[a * columns + c];
  return sum;
}

struct Shape {
  int64_t heads, width, features;
};

// An attention problem over a graph, and its answer.
class Attention {
 public:
  Attention(const FeaturedGraph& graph, AttentionKind kind, Shape shape, bool concat)
      : graph_(graph),
        shape_(shape),
        nodes_(graph.adjacency().num_rows),
        columns_(shape.heads * (kind == AttentionKind::kGat ? 1 : shape.width)),
        value_(nodes_, shape.heads * shape.width, 1),
        score_src_(nodes_, shape.heads, 2),
        score_dst_(nodes_, shape.heads, 3),
        query_(nodes_, shape.heads * shape.width, 4),
        key_(nodes_, shape.heads * shape.width, 5),
        att_(RandomVector(shape.heads * shape.width, 6)),
        weight_(RandomVector(shape.features * columns_, 9)) {
    args_.problem = {kind, nodes_, nodes_, graph.adjacency().nnz(), shape.heads, shape.width, concat, shape.features};
    args_.adjacency = graph.adjacency().view();
    args_.value = value_.view();
    args_.score_src = score_src_.view();
    args_.score_dst = score_dst_.view();
    args_.query = query_.view();
    args_.key = key_.view();
    args_.att = att_.data();
    args_.score_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shape.width)));
    args_.edge = graph.View();
    args_.edge_weight = weight_.data();
  }

  AttentionArgs Args(MatrixView dst) const {
    AttentionArgs args = args_;
    args.dst = dst;
    return args;
  }
  int64_t out_width() const { return args_.problem.concat ? shape_.heads * shape_.width : shape_.width; }

  // Row i, as long as out_width().
  std::vector<double> Expected(int64_t i, const std::vector<std::vector<double>>& features) const {
    std::vector<double> row(out_width(), 0.0);
    const Csr& a = graph_.adjacency();
    for (int64_t k = 0; k < shape_.heads; ++k) {
      std::vector<double> share;
      double total = 0;
      for (EdgeId e = a.row_ptr[i]; e < a.row_ptr[i + 1]; ++e) {
        share.push_back(std::exp(Score(i, a.col[e], k, features[e])));
        total += share.back();
      }
      for (EdgeId e = a.row_ptr[i]; e < a.row_ptr[i + 1]; ++e) {
        for (int64_t c = 0; c < shape_.width; ++c) {
          const int64_t column = k * shape_.width + c;
          const bool dot = args_.problem.kind == AttentionKind::kDot;
          const double value = value_.at(a.col[e], column) + (dot ? Term(features[e], weight_, columns_, column) : 0.0);
          const double part = share[e - a.row_ptr[i]] / total * value;
          args_.problem.concat ? row[column] += part : row[c] += part / static_cast<double>(shape_.heads);
        }
      }
    }
    return row;
  }

 private:
  double Score(int64_t i, int64_t j, int64_t k, const std::vector<double>& features) const {
    const auto leaky = [](double x) { return x < 0 ? 0.2 * x : x; };
    if (args_.problem.kind == AttentionKind::kGat)
      return leaky(score_src_.at(j, k) + score_dst_.at(i, k) + Term(features, weight_, columns_, k));
    double score = 0;
    for (int64_t c = k * shape_.width; c < (k + 1) * shape_.width; ++c) {
      const double term = Term(features, weight_, columns_, c);
      score += args_.problem.kind == AttentionKind::kDot ? query_.at(i, c) * (key_.at(j, c) + term)
                                                         : att_[c] * leaky(value_.at(j, c) + query_.at(i, c) + term);
    }
    return args_.problem.kind == AttentionKind::kDot ? score / std::sqrt(static_cast<double>(shape_.width)) : score;
  }

  const FeaturedGraph& graph_;
  const Shape shape_;
  const int64_t nodes_, columns_;
  TestMatrix value_, score_src_, score_dst_, query_, key_;
  std::vector<float> att_, weight_;
  AttentionArgs args_;
};

void CheckAttention(const RegisteredKernel<AttentionKernel>& kernel, int64_t nodes, int64_t edges, Loops loops,
                    AttentionKind kind, Shape shape, bool concat) {
  SCOPED_TRACE(::testing::Message() << kernel.kernel().name() << " " << ToString(kind) << " " << nodes << " nodes "
                                    << shape.heads << " heads of " << shape.width << ", " << shape.features
                                    << " features, loops " << static_cast<int>(loops));
  const FeaturedGraph graph(nodes, edges, shape.features, loops);
  const Attention attention(graph, kind, shape, concat);
  TestMatrix dst(nodes, attention.out_width(), 9);
  const AttentionArgs args = attention.Args(dst.view());
  ASSERT_EQ(kernel.kernel().WhyUnsupported(args.problem), "");
  ASSERT_TRUE(Launch(kernel, args).ok());
  EXPECT_TRUE(dst.GapsUntouched());
  const std::vector<std::vector<double>> features = graph.Expected();
  for (int64_t i = 0; i < nodes; ++i) {
    const std::vector<double> expected = attention.Expected(i, features);
    for (int64_t c = 0; c < attention.out_width(); ++c) ExpectNear(expected[c], dst.at(i, c));
  }
}

TEST(EdgeFeaturesConformance, Attention) {
  constexpr Shape kShapes[] = {{1, 1, 1}, {1, 7, 3}, {1, 40, 19}, {2, 3, 2}, {3, 16, 16}, {4, 33, 5}, {19, 3, 4}};
  for (const auto& kernel : TheMachine().registry.attention.kernels()) {
    for (const Loops loops : {Loops::kAsSent, Loops::kMean, Loops::kNumber}) {
      for (const AttentionKind kind : kKinds) {
        for (const Shape shape : kShapes) {
          for (const bool concat : {true, false}) CheckAttention(*kernel, 12, 60, loops, kind, shape, concat);
        }
        // A row of more edges than any chunk, and none at all.
        CheckAttention(*kernel, 40, 1200, loops, kind, {2, 5, 4}, true);
        CheckAttention(*kernel, 3, 0, loops, kind, {2, 5, 4}, true);
      }
    }
  }
}

TEST(EdgeFeaturesConformance, AHeadThatOverflowsLeavesItsNeighborsAlone) {
  constexpr int64_t kNodes = 12, kFeatures = 2;
  for (const int64_t width : {5, 16, 21}) {
    const FeaturedGraph graph(kNodes, 60, kFeatures, Loops::kAsSent);
    for (const auto& kernel : TheMachine().registry.attention.kernels()) {
      for (const AttentionKind kind : {AttentionKind::kGatV2, AttentionKind::kDot}) {
        const Attention attention(graph, kind, {3, width, kFeatures}, true);
        TestMatrix expected(kNodes, attention.out_width(), 0), got = expected;
        AttentionArgs args = attention.Args(expected.view());
        ASSERT_TRUE(Launch(*kernel, args).ok());
        std::vector<float> weight(args.edge_weight, args.edge_weight + kFeatures * 3 * width);
        for (int64_t a = 0; a < kFeatures; ++a)
          std::fill_n(weight.begin() + (3 * a + 1) * width, width, std::numeric_limits<float>::infinity());
        args.edge_weight = weight.data();
        args.dst = got.view();
        ASSERT_TRUE(Launch(*kernel, args).ok());
        for (int64_t i = 0; i < kNodes; ++i) {
          for (int64_t c = 0; c < width; ++c) {
            ASSERT_EQ(got.at(i, c), expected.at(i, c)) << kernel->kernel().name() << " " << ToString(kind);
            ASSERT_EQ(got.at(i, 2 * width + c), expected.at(i, 2 * width + c)) << kernel->kernel().name();
          }
        }
      }
    }
  }
}

TEST(EdgeFeaturesDeterminism, AttentionForThreadsAndFields) {
  constexpr int64_t kNodes = 400;
  constexpr Shape kShape = {3, 9, 6};
  const FeaturedGraph graph(kNodes, 5000, kShape.features, Loops::kMean);
  for (const auto& kernel : TheMachine().registry.attention.kernels()) {
    for (const AttentionKind kind : kKinds) {
      const Attention attention(graph, kind, kShape, true);
      TestMatrix one(kNodes, attention.out_width(), 0), three = one, some(50, attention.out_width(), 0);
      ASSERT_TRUE(Launch(*kernel, attention.Args(one.view()), 1).ok());
      ASSERT_TRUE(Launch(*kernel, attention.Args(three.view()), 3).ok());
      EXPECT_EQ(one.Values(), three.Values());
      // The last rows, as those of a field: they have other numbers there, and `nodes` says which.
      std::vector<int32_t> nodes;
      for (int32_t i = kNodes - 50; i < kNodes; ++i) nodes.push_back(i);
      AttentionArgs args = attention.Args(some.view());
      args.adjacency.row_ptr += kNodes - 50;
      args.adjacency.rows = args.problem.rows = 50;
      args.score_dst.data += (kNodes - 50) * args.score_dst.stride;
      args.query.data += (kNodes - 50) * args.query.stride;
      args.edge.nodes = nodes.data();
      ASSERT_TRUE(Launch(*kernel, args, 2).ok());
      for (int64_t i = 0; i < 50; ++i) {
        for (int64_t c = 0; c < attention.out_width(); ++c) ASSERT_EQ(some.at(i, c), one.at(kNodes - 50 + i, c));
      }
    }
  }
}

// relu(u + W e + b) or relu(u + e), perhaps through one more layer, reduced.
struct MessageCase {
  Loops loops;
  Reduce reduce;
  int64_t width, features;
  bool product, layer;
};

void CheckMessages(const RegisteredKernel<MessageReduceKernel>& kernel, int64_t nodes, int64_t edges,
                   const MessageCase& c) {
  SCOPED_TRACE(::testing::Message() << kernel.kernel().name() << " " << ToString(c.reduce) << " " << nodes << " nodes, "
                                    << c.width << " columns, " << c.features << " features, product " << c.product
                                    << ", layer " << c.layer << ", loops " << static_cast<int>(c.loops));
  const FeaturedGraph graph(nodes, edges, c.features, c.loops);
  const TestMatrix src(nodes, c.width, 1), layer(6, c.width, 2);
  const std::vector<float> weight = RandomVector(c.features * c.width, 3), bias = RandomVector(c.width, 4);
  const int64_t out_width = c.layer ? 6 : c.width;
  TestMatrix dst(nodes, out_width, 9);
  const Buffer packed = Packed(kernel.kernel(), layer.view());
  MessageReduceArgs args;
  args.problem.reduce = c.reduce;
  args.problem.rows = args.problem.cols = nodes;
  args.problem.edges = graph.adjacency().nnz();
  args.problem.width = c.width;
  args.problem.edge_width = c.features;
  args.adjacency = graph.adjacency().view();
  args.src = src.view();
  args.activation.kind = ActivationKind::kRelu;
  args.edge = graph.View();
  if (c.product) args.edge_weight = weight.data(), args.edge_bias = bias.data();
  if (c.layer) args.problem.num_layers = 1, args.problem.out_widths[0] = 6, args.layers[0].weight = packed.data();
  args.dst = dst.view();
  ASSERT_EQ(kernel.kernel().WhyUnsupported(args.problem), "");
  const std::vector<std::vector<double>> features = graph.Expected();
  const Csr& a = graph.adjacency();
  for (const KernelConfig& config : kernel.kernel().Candidates(args.problem)) {
    args.config = config;
    ASSERT_TRUE(Launch(kernel, args).ok());
    EXPECT_TRUE(dst.GapsUntouched());
    for (int64_t i = 0; i < nodes; ++i) {
      std::vector<double> expected(out_width, 0.0);
      for (EdgeId e = a.row_ptr[i]; e < a.row_ptr[i + 1]; ++e) {
        std::vector<double> message(c.width);
        for (int64_t col = 0; col < c.width; ++col) {
          const double term = c.product ? Term(features[e], weight, c.width, col) + bias[col] : features[e][col];
          message[col] = std::max(0.0, src.at(a.col[e], col) + term);
        }
        if (c.layer) {
          std::vector<double> through(6, 0.0);
          for (int64_t h = 0; h < 6; ++h) {
            for (int64_t col = 0; col < c.width; ++col) through[h] += layer.at(h, col) * message[col];
          }
          message = through;
        }
        for (int64_t col = 0; col < out_width; ++col) {
          const bool first = e == a.row_ptr[i];
          double& so_far = expected[col];
          if (c.reduce == Reduce::kMax) so_far = first ? message[col] : std::max(so_far, message[col]);
          if (c.reduce == Reduce::kSum) so_far += message[col];
        }
      }
      for (int64_t col = 0; col < out_width; ++col) ExpectNear(expected[col], dst.at(i, col));
    }
  }
}

TEST(EdgeFeaturesConformance, Messages) {
  for (const auto& kernel : TheMachine().registry.message_reduce.kernels()) {
    for (const Loops loops : {Loops::kAsSent, Loops::kMean, Loops::kNumber}) {
      for (const Reduce reduce : {Reduce::kSum, Reduce::kMax}) {
        for (const bool layer : {false, true}) {
          for (const int64_t width : {1, 7, 16, 41, 150}) {
            CheckMessages(*kernel, 12, 60, {loops, reduce, width, 3, true, layer});
            CheckMessages(*kernel, 12, 60, {loops, reduce, width, width, false, layer});
          }
          // A row longer than any block.
          CheckMessages(*kernel, 30, 1500, {loops, reduce, 20, 18, true, layer});
        }
      }
    }
  }
}

}  // namespace
}  // namespace vicinal::testing
