// SPDX-License-Identifier: Apache-2.0
// Scores of links through the engine's door: against formulas in double on the rows that Embed gives, with all
// decoders; bits that depend neither on the batch, nor on threads, nor on who else is chosen from; refusals.
#include "engine/api/links.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <utility>

#include "engine/base/error.h"
#include "tests/engine/api/engine_testing.h"
#include "tests/engine/model/safetensors_builder.h"

namespace vicinal::testing {
namespace {

constexpr int64_t kNodes = 230, kFeatures = 7, kWidth = 12, kEdges = 1500, kRelations = 3, kHidden = 5;

using Matrix = std::vector<float>;

Matrix Random(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Matrix values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 900.0f;
  return values;
}

std::string Document(const std::string& decoder) {
  return R"({"format": "vicinal.model/1", "in_channels": 7, "layers": [
    {"name": "conv", "type": "SAGEConv", "args": {"in_channels": 7, "out_channels": 12}},
    {"name": "act", "type": "Tanh"},
    {"name": "out", "type": "Linear", "args": {"in_channels": 12, "out_channels": 12}}])" +
         (decoder.empty() ? "" : ", \"decoder\": " + decoder) + "}";
}

SafetensorsBuilder Encoder() {
  return SafetensorsBuilder()
      .Add("conv.lin_l.weight", {kWidth, kFeatures}, Random(kWidth * kFeatures, 1))
      .Add("conv.lin_l.bias", {kWidth}, Random(kWidth, 2))
      .Add("conv.lin_r.weight", {kWidth, kFeatures}, Random(kWidth * kFeatures, 3))
      .Add("out.weight", {kWidth, kWidth}, Random(kWidth * kWidth, 4))
      .Add("out.bias", {kWidth}, Random(kWidth, 5));
}

const Matrix& Weight() {
  static const Matrix& weight = *new Matrix(Random(kRelations * kWidth * kWidth, 6));
  return weight;
}
const Matrix& Bias() {
  static const Matrix& bias = *new Matrix(Random(kRelations, 7));
  return bias;
}
// Of the MLPs: [H, 2 D] or [H, D], [H], [1, H], [1].
const Matrix& First() {
  static const Matrix& weight = *new Matrix(Random(kHidden * 2 * kWidth, 8));
  return weight;
}
const Matrix& FirstBias() {
  static const Matrix& bias = *new Matrix(Random(kHidden, 9));
  return bias;
}
const Matrix& Last() {
  static const Matrix& weight = *new Matrix(Random(kHidden, 10));
  return weight;
}

std::string Mlp(const std::string& combine, int64_t in) {
  return R"({"type": "mlp", "prefix": "dec.", "args": {"combine": ")" + combine +
         R"(", "nn": [{"type": "Linear", "args": {"in_channels": )" + std::to_string(in) +
         R"(, "out_channels": 5}}, {"type": "ReLU"}, {"type": "Linear", "args": {"in_channels": 5, "out_channels": 1}}]}})";
}

// A score in double.
using Oracle = double (*)(const float* u, const float* v, int64_t relation);

double Dot(const float* u, const float* v, int64_t) {
  double sum = 0;
  for (int64_t c = 0; c < kWidth; ++c) sum += static_cast<double>(u[c]) * v[c];
  return sum;
}
double Cosine(const float* u, const float* v, int64_t) { return Dot(u, v, 0) / std::sqrt(Dot(u, u, 0) * Dot(v, v, 0)); }
double Bilinear(const float* u, const float* v, int64_t relation) {
  double sum = Bias()[static_cast<size_t>(relation)];
  for (int64_t a = 0; a < kWidth; ++a) {
    for (int64_t b = 0; b < kWidth; ++b) {
      sum += static_cast<double>(u[a]) * Weight()[static_cast<size_t>((relation * kWidth + a) * kWidth + b)] * v[b];
    }
  }
  return sum;
}
double DistMult(const float* u, const float* v, int64_t relation) {
  double sum = 0;
  for (int64_t c = 0; c < kWidth; ++c)
    sum += static_cast<double>(u[c]) * Weight()[static_cast<size_t>(relation * kWidth + c)] * v[c];
  return sum;
}
double Network(const std::vector<double>& input) {
  double score = Bias()[0];
  const auto width = static_cast<int64_t>(input.size());
  for (int64_t h = 0; h < kHidden; ++h) {
    double hidden = FirstBias()[static_cast<size_t>(h)];
    for (int64_t c = 0; c < width; ++c) {
      hidden += First()[static_cast<size_t>(h * width + c)] * input[static_cast<size_t>(c)];
    }
    score += Last()[static_cast<size_t>(h)] * std::max(hidden, 0.0);
  }
  return score;
}
double Concatenated(const float* u, const float* v, int64_t) {
  std::vector<double> input(u, u + kWidth);
  input.insert(input.end(), v, v + kWidth);
  return Network(input);
}
double Multiplied(const float* u, const float* v, int64_t) {
  std::vector<double> input;
  for (int64_t c = 0; c < kWidth; ++c) input.push_back(static_cast<double>(u[c]) * v[c]);
  return Network(input);
}

struct Case {
  const char* model;
  LinkDecoder decoder;
  int64_t relations;
  Oracle oracle;
};
const Case kCases[] = {{"plain", LinkDecoder::kDefault, 1, Dot},
                       {"plain", LinkDecoder::kCosine, 1, Cosine},
                       {"bilinear", LinkDecoder::kModel, kRelations, Bilinear},
                       {"distmult", LinkDecoder::kDefault, kRelations, DistMult},
                       {"concat", LinkDecoder::kModel, 1, Concatenated},
                       {"product", LinkDecoder::kModel, 1, Multiplied},
                       {"distmult", LinkDecoder::kDot, 1, Dot}};

class LinksTest : public ::testing::Test {
 protected:
  static std::unique_ptr<Engine> World(EngineOptions options = {}) {
    auto engine = MakeEngine(options);
    std::mt19937 random(3);
    std::vector<int64_t> ends;
    for (int64_t e = 0; e < 2 * kEdges; ++e) ends.push_back(static_cast<int64_t>(random() % (kNodes - 1)));
    GraphSource source;
    source.name = "g";
    source.node_count = kNodes;
    source.edge_index = Ints(ends, {2, kEdges});
    source.x = Floats(Random(kNodes * kFeatures, 11), {kNodes, kFeatures});
    source.order = OrderKind::kRcm;
    EXPECT_TRUE(engine->PutGraph(std::move(source)).ok());
    EXPECT_TRUE(AwaitGraph(*engine, "g").ok());
    Put(*engine, "plain", "", Encoder());
    Put(*engine, "bilinear", R"({"type": "bilinear", "args": {"num_relations": 3}})",
        Encoder()
            .Add("decoder.weight", {kRelations, kWidth, kWidth}, Weight())
            .Add("decoder.bias", {kRelations}, Bias()));
    Put(*engine, "distmult", R"({"type": "distmult", "output": "out", "prefix": "", "args": {"num_relations": 3}})",
        Encoder().Add("rel_emb", {kRelations, kWidth},
                      Matrix(Weight().begin(), Weight().begin() + kRelations * kWidth)));
    Put(*engine, "concat", Mlp("concat", 2 * kWidth),
        Encoder()
            .Add("dec.nn.0.weight", {kHidden, 2 * kWidth}, First())
            .Add("dec.nn.0.bias", {kHidden}, FirstBias())
            .Add("dec.nn.2.weight", {1, kHidden}, Last())
            .Add("dec.nn.2.bias", {1}, {Bias()[0]}));
    Put(*engine, "product", Mlp("product", kWidth),
        Encoder()
            .Add("dec.nn.0.weight", {kHidden, kWidth}, Matrix(First().begin(), First().begin() + kHidden * kWidth))
            .Add("dec.nn.0.bias", {kHidden}, FirstBias())
            .Add("dec.nn.2.weight", {1, kHidden}, Last())
            .Add("dec.nn.2.bias", {1}, {Bias()[0]}));
    return engine;
  }
  static void Put(Engine& engine, const std::string& name, const std::string& decoder,
                  const SafetensorsBuilder& weights) {
    ModelSource source;
    source.name = name;
    source.architecture_json = Document(decoder);
    source.weights_file = weights.Build();
    const auto put = engine.PutModel(std::move(source), {});
    ASSERT_TRUE(put.ok()) << name << ": " << put.status();
  }
  static Engine& Shared() {
    static Engine& engine = *World().release();
    return engine;
  }
  static InferenceRequest Request(const std::string& model, WantedLinks links) {
    InferenceRequest request;
    request.graph = "g";
    request.model = model;
    request.links = std::make_shared<const WantedLinks>(std::move(links));
    return request;
  }
  static InferenceResult Ask(Engine& engine, InferenceRequest request) {
    const auto result = Infer(engine, std::move(request));
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : InferenceResult();
  }
  static const Matrix& Rows() {
    static const Matrix& rows = *new Matrix(Ask(Shared(), AllNodes("g", "plain")).values);
    return rows;
  }
  static const float* Row(int64_t node) { return Rows().data() + node * kWidth; }
  static WantedLinks Pairs(std::vector<int64_t> sources, std::vector<int64_t> targets) {
    WantedLinks links;
    links.pairs = LinkPairs{std::move(sources), std::move(targets), {}};
    return links;
  }
  static WantedLinks Partners(std::vector<int64_t> nodes, int64_t k) {
    WantedLinks links;
    links.partners.emplace();
    links.partners->nodes.all = nodes.empty();
    links.partners->nodes.ids = std::move(nodes);
    links.partners->partners.all = true;
    links.partners->k = k;
    return links;
  }
  static void ExpectRefused(InferenceRequest request, StatusCode code, const std::string& reason,
                            const std::string& field = "") {
    const auto result = Infer(Shared(), std::move(request));
    EXPECT_EQ(result.status().code(), code) << result.status();
    const auto detail = DetailOf(result.status());
    EXPECT_TRUE(detail && detail->reason == reason && (field.empty() || detail->field == field)) << result.status();
  }
};

constexpr double kTolerance = 3e-5;

TEST_F(LinksTest, PairsHaveTheScoresOfTheFormulas) {
  std::mt19937 random(5);
  for (const Case& of : kCases) {
    WantedLinks links = Pairs({}, {});
    links.decoder = of.decoder;
    for (int64_t i = 0; i < 9000; ++i) {  // more than a block
      links.pairs->sources.push_back(static_cast<int64_t>(random() % kNodes));
      links.pairs->targets.push_back(static_cast<int64_t>(random() % kNodes));
      links.pairs->relations.push_back(static_cast<int32_t>(random() % of.relations));
    }
    const LinkPairs pairs = *links.pairs;
    const InferenceResult result = Ask(Shared(), Request(of.model, std::move(links)));
    ASSERT_EQ(result.values.size(), pairs.sources.size());
    EXPECT_TRUE(result.links.empty());
    for (size_t i = 0; i < pairs.sources.size(); ++i) {
      const double expected = of.oracle(Row(pairs.sources[i]), Row(pairs.targets[i]), pairs.relations[i]);
      ASSERT_NEAR(result.values[i], expected, kTolerance * std::max(1.0, std::abs(expected))) << of.model << " " << i;
    }
  }
}

TEST_F(LinksTest, FewPairsAreComputedOverTheirReceptiveFieldWithTheSameBits) {
  WantedLinks links = Pairs({3, 3, 229}, {7, 7, 0});
  InferenceRequest field = Request("plain", links), full = Request("plain", links);
  field.options.receptive_field = ReceptiveField::kAlways;
  full.options.receptive_field = ReceptiveField::kNever;
  const InferenceResult of_field = Ask(Shared(), field);
  EXPECT_TRUE(of_field.receptive_field);
  EXPECT_EQ(of_field.values, Ask(Shared(), full).values);
  EXPECT_EQ(of_field.values[0], of_field.values[1]);
  EXPECT_EQ(of_field.served_by.model, "plain");
  EXPECT_GT(of_field.served_by.numerics_revision, 0);
}

TEST_F(LinksTest, EdgesOfTheGraphHaveTheBitsOfPairs) {
  for (const Case& of : kCases) {
    WantedLinks all;
    all.decoder = of.decoder;
    all.all_edges = true;
    all.relation = static_cast<int32_t>(of.relations - 1);
    const InferenceResult edges = Ask(Shared(), Request(of.model, all));
    ASSERT_EQ(edges.rows, kEdges);
    ASSERT_EQ(edges.links.size(), 2 * static_cast<size_t>(kEdges));
    WantedLinks pairs = Pairs({}, {});
    pairs.decoder = of.decoder;
    pairs.relation = all.relation;
    for (int64_t e = 0; e < kEdges; ++e) {
      pairs.pairs->sources.push_back(edges.links[static_cast<size_t>(2 * e)]);
      pairs.pairs->targets.push_back(edges.links[static_cast<size_t>(2 * e + 1)]);
      if (e == 0) continue;
      const auto at = [&](int64_t i) {
        return std::pair(edges.links[static_cast<size_t>(2 * i + 1)], edges.links[static_cast<size_t>(2 * i)]);
      };
      EXPECT_LE(at(e - 1), at(e)) << "by target, then source";
    }
    EXPECT_EQ(edges.values, Ask(Shared(), Request(of.model, std::move(pairs))).values) << of.model;
  }
}

TEST_F(LinksTest, PartnersAreTheBestByTheFormulas) {
  constexpr int64_t kBest = 9;
  for (const Case& of : kCases) {
    for (const bool targets : {false, true}) {
      WantedLinks links = Partners({5, 229, 5, 100}, kBest);
      links.decoder = of.decoder;
      links.relation = static_cast<int32_t>(of.relations - 1);
      links.partners->nodes_are_targets = targets;
      const std::vector<int64_t> nodes = links.partners->nodes.ids;
      const InferenceResult result = Ask(Shared(), Request(of.model, links));
      ASSERT_EQ(result.values.size(), nodes.size() * kBest);
      for (size_t q = 0; q < nodes.size(); ++q) {
        std::vector<double> scores;
        const auto score = [&](int64_t partner) {
          const float *node = Row(nodes[q]), *other = Row(partner);
          return targets ? of.oracle(other, node, links.relation) : of.oracle(node, other, links.relation);
        };
        for (int64_t i = 0; i < kNodes; ++i) {
          if (i != nodes[q]) scores.push_back(score(i));
        }
        std::sort(scores.begin(), scores.end(), std::greater<>());
        std::set<int64_t> seen;
        for (size_t i = 0; i < kBest; ++i) {
          const int64_t partner = result.links[q * kBest + i];
          ASSERT_TRUE(partner >= 0 && partner < kNodes && partner != nodes[q]);
          EXPECT_TRUE(seen.insert(partner).second);
          const double tolerance = kTolerance * std::max(1.0, std::abs(scores[i]));
          EXPECT_NEAR(result.values[q * kBest + i], scores[i], tolerance) << of.model;
          EXPECT_NEAR(score(partner), scores[i], tolerance);
        }
      }
    }
  }
}

TEST_F(LinksTest, BitsDependNeitherOnTheBatchNorOnThreadsNorOnNamedPartners) {
  EngineOptions alone;
  alone.num_threads = 1;
  const auto one_thread = World(alone);
  std::vector<int64_t> everyone(kNodes);
  for (int64_t i = 0; i < kNodes; ++i) everyone[static_cast<size_t>(i)] = kNodes - 1 - i;
  for (const Case& of : kCases) {
    WantedLinks links = Partners({}, 6);
    links.decoder = of.decoder;
    const InferenceResult all = Ask(Shared(), Request(of.model, links));
    const InferenceResult threads = Ask(*one_thread, Request(of.model, links));
    EXPECT_EQ(threads.values, all.values) << of.model;
    EXPECT_EQ(threads.links, all.links) << of.model;
    links.partners->partners = {false, everyone};
    const InferenceResult named = Ask(Shared(), Request(of.model, links));
    EXPECT_EQ(named.values, all.values) << of.model;
    EXPECT_EQ(named.links, all.links) << of.model;
    for (const int64_t node : {0, 77, 229}) {
      WantedLinks single = Partners({node}, 6);
      single.decoder = of.decoder;
      const InferenceResult one = Ask(Shared(), Request(of.model, single));
      EXPECT_TRUE(std::equal(one.values.begin(), one.values.end(), all.values.begin() + node * 6)) << of.model;
      EXPECT_TRUE(std::equal(one.links.begin(), one.links.end(), all.links.begin() + node * 6)) << of.model;
    }
  }
}

TEST_F(LinksTest, LinksOfTheGraphAndTheNodeItselfCanBeLeftOut) {
  WantedLinks all;
  all.all_edges = true;
  const InferenceResult edges = Ask(Shared(), Request("plain", all));
  std::set<std::pair<int64_t, int64_t>> known;
  for (int64_t e = 0; e < kEdges; ++e) {
    known.insert({edges.links[static_cast<size_t>(2 * e)], edges.links[static_cast<size_t>(2 * e + 1)]});
  }
  for (const char* model : {"plain", "concat"}) {
    for (const bool targets : {false, true}) {
      for (const bool self : {false, true}) {
        WantedLinks links = Partners({2, 90, 2}, kNodes);
        links.partners->exclude_links = true;
        links.partners->include_self = self;
        links.partners->nodes_are_targets = targets;
        const InferenceResult result = Ask(Shared(), Request(model, links));
        for (size_t q = 0; q < 3; ++q) {
          const int64_t node = links.partners->nodes.ids[q];
          std::set<int64_t> expected;
          for (int64_t i = 0; i < kNodes; ++i) {
            const bool linked = i != node && known.contains(targets ? std::pair(i, node) : std::pair(node, i));
            if (!linked && (self || i != node)) expected.insert(i);
          }
          std::set<int64_t> found;
          for (size_t i = 0; i < kNodes; ++i) {
            const int64_t partner = result.links[q * kNodes + i];
            if (partner >= 0) {
              found.insert(partner);
            } else {
              EXPECT_EQ(result.values[q * kNodes + i], -std::numeric_limits<float>::infinity());
              EXPECT_GE(i, expected.size()) << "those that are missing come last";
            }
          }
          EXPECT_EQ(found, expected) << model << " " << node;
        }
      }
    }
  }
}

TEST_F(LinksTest, EqualScoresAreInOrderOfIds) {
  auto engine = MakeEngine();
  GraphSource source;
  source.name = "g";
  source.node_count = 40;
  std::vector<int64_t> ends(2 * 39);
  for (int64_t i = 0; i < 39; ++i) ends[static_cast<size_t>(i)] = i, ends[static_cast<size_t>(39 + i)] = i + 1;
  source.edge_index = Ints(ends, {2, 39});
  source.x = Floats(Matrix(40, 1.0f), {40, 1});
  source.order = OrderKind::kDegree;
  ASSERT_TRUE(engine->PutGraph(std::move(source)).ok());
  ASSERT_TRUE(AwaitGraph(*engine, "g").ok());
  ModelSource model;
  model.name = "plain";
  model.architecture_json = R"({"format": "vicinal.model/1", "in_channels": 1, "layers": [
    {"name": "out", "type": "Linear", "args": {"in_channels": 1, "out_channels": 3}}]})";
  model.weights_file = SafetensorsBuilder().AddRamp("out.weight", {3, 1}).AddRamp("out.bias", {3}).Build();
  ASSERT_TRUE(engine->PutModel(std::move(model), {}).ok());
  for (const LinkDecoder decoder : {LinkDecoder::kDot, LinkDecoder::kCosine}) {
    WantedLinks links = Partners({1, 39}, 4);
    links.decoder = decoder;
    const InferenceResult result = Ask(*engine, Request("plain", links));
    EXPECT_EQ(result.links, (std::vector<int64_t>{0, 2, 3, 4, 0, 1, 2, 3}));
  }
}

TEST_F(LinksTest, KeptRowsGiveTheSameBits) {
  EngineOptions options;
  options.keep_answers = KeepAnswers::kAlways;
  const auto engine = World(options);
  WantedLinks all;
  all.all_edges = true;
  const std::vector<InferenceRequest> requests = {Request("distmult", Pairs({1, 2, 3}, {4, 5, 6})),
                                                  Request("distmult", all), Request("distmult", Partners({}, 5))};
  while (!Ask(*engine, requests[0]).kept) continue;
  for (const InferenceRequest& request : requests) {
    const InferenceResult kept = Ask(*engine, request), computed = Ask(Shared(), request);
    EXPECT_TRUE(kept.kept);
    EXPECT_FALSE(computed.kept);
    EXPECT_EQ(kept.values, computed.values);
    EXPECT_EQ(kept.links, computed.links);
    EXPECT_EQ(kept.served_by.numerics_revision, computed.served_by.numerics_revision);
  }
}

TEST_F(LinksTest, EdgesTakeTheForcedKernel) {
  WantedLinks all;
  all.all_edges = true;
  const InferenceResult chosen = Ask(Shared(), Request("plain", all));
  InferenceRequest curve = Request("plain", all);
  curve.options.kernels = {{"edge_scores", "template_sddmm:hilbert_order=3"}};
  EXPECT_EQ(Ask(Shared(), curve).values, chosen.values);
  InferenceRequest unknown = Request("plain", all);
  unknown.options.kernels = {{"edge_scores", "fast"}};
  ExpectRefused(unknown, StatusCode::kInvalidArgument, "KERNEL_UNKNOWN");
}

TEST_F(LinksTest, BadLinksAreRefusedWithTheirReason) {
  const auto invalid = [](const std::string& model, WantedLinks links, const std::string& reason,
                          const std::string& field = "") {
    ExpectRefused(Request(model, std::move(links)), StatusCode::kInvalidArgument, reason, field);
  };
  invalid("plain", WantedLinks(), "BAD_LINKS");
  invalid("plain", Pairs({}, {}), "BAD_LINKS", "pairs.sources");
  invalid("plain", Pairs({1}, {}), "BAD_LINKS", "pairs.targets");
  invalid("plain", Pairs({1, 2}, {3}), "BAD_LINKS");
  WantedLinks both = Pairs({1}, {2});
  both.all_edges = true;
  invalid("plain", both, "BAD_LINKS");
  WantedLinks relations = Pairs({1, 1}, {2, 2});
  relations.pairs->relations = {0};
  invalid("distmult", relations, "BAD_LINKS");
  relations.pairs->relations = {0, 3};
  invalid("distmult", relations, "RELATION_OUT_OF_RANGE");
  relations.pairs->relations = {0, -1};
  invalid("distmult", relations, "RELATION_OUT_OF_RANGE");
  WantedLinks relation = Pairs({1}, {2});
  relation.relation = 1;
  invalid("plain", relation, "RELATION_OUT_OF_RANGE");
  invalid("plain", Pairs({1}, {kNodes}), "NODE_OUT_OF_RANGE");
  invalid("plain", Pairs({-1}, {0}), "NODE_OUT_OF_RANGE");
  invalid("plain", Partners({kNodes}, 1), "NODE_OUT_OF_RANGE");
  invalid("plain", Partners({0}, kNodes + 1), "BAD_TOP_K");
  invalid("plain", Partners({0}, -1), "BAD_TOP_K");
  WantedLinks few = Partners({0}, 3);
  few.partners->partners = {false, {4, 4, 7}};
  invalid("plain", few, "BAD_TOP_K");
  few.partners->partners = {};
  invalid("plain", few, "BAD_SELECTION");
  WantedLinks own = Pairs({1}, {2});
  own.decoder = LinkDecoder::kModel;
  ExpectRefused(Request("plain", own), StatusCode::kFailedPrecondition, "NO_DECODER");
  InferenceRequest other = Request("distmult", Pairs({1}, {2}));
  other.options.output = "act";
  ExpectRefused(other, StatusCode::kInvalidArgument, "OUTPUT_NOT_DECODED");
  other.options.output = "nothing";
  other.links = Request("plain", Pairs({1}, {2})).links;
  other.model = "plain";
  ExpectRefused(other, StatusCode::kInvalidArgument, "OUTPUT_UNKNOWN");
}

TEST_F(LinksTest, TheShapeOfTheScoresIsAskedFor) {
  InferenceRequest request = Request("plain", Partners({0, 1, 2}, 0));
  AnswerShape asked;
  request.check_answer = [&asked](const AnswerShape& shape) {
    asked = shape;
    return OkStatus();
  };
  const InferenceResult result = Ask(Shared(), request);
  EXPECT_EQ(asked.rows, 3);
  EXPECT_EQ(asked.width, 10) << "the default";
  EXPECT_EQ(result.values.size(), 30u);
}

TEST_F(LinksTest, ACancelledRequestEnds) {
  auto cancel = std::make_shared<CancelToken>();
  cancel->Cancel();
  InferenceRequest request = Request("concat", Partners({}, 3));
  request.limits.cancel = cancel;
  EXPECT_EQ(Infer(Shared(), request).status().code(), StatusCode::kCancelled);
}

TEST_F(LinksTest, ExplainTellsHowRowsBecomeScores) {
  WantedLinks all;
  all.all_edges = true;
  const auto distmult = Shared().Explain(Request("distmult", all));
  ASSERT_TRUE(distmult.ok()) << distmult.status();
  ASSERT_TRUE(distmult->links.has_value());
  EXPECT_EQ(distmult->links->decoder, "distmult");
  EXPECT_EQ(distmult->links->output, "out");
  EXPECT_EQ(distmult->links->width, kWidth);
  EXPECT_EQ(distmult->links->operations_per_pair, 3 * kWidth);
  const auto concat = Shared().Explain(Request("concat", all));
  ASSERT_TRUE(concat.ok()) << concat.status();
  EXPECT_EQ(concat->links->operations_per_pair, 2 * (kHidden * 2 * kWidth + kHidden));
  InferenceRequest forced = Request("plain", all);
  forced.options.kernels = {{"edge_scores", "template_sddmm"}};
  EXPECT_EQ(Shared().Explain(forced)->links->kernel, "template_sddmm");
  forced.options.kernels = {{"edge_scores", "template_sddmm:hilbert_order=3"}};
  EXPECT_EQ(Shared().Explain(forced)->links->kernel, "template_sddmm");
  EXPECT_EQ(Shared().Explain(forced)->links->parameters, std::vector<NamedParameter>({{"hilbert_order", 3}}));
  EXPECT_FALSE(Shared().Explain(AllNodes("g", "plain"))->links.has_value());
}

TEST_F(LinksTest, ReferencesHoldTheDecoderToo) {
  Engine& engine = Shared();
  const std::vector<int64_t> nodes = {0, 1}, ends = {3, 4, 5, 6, 3, 8}, relations = {0, 2, 1};
  Matrix scores;
  for (size_t i = 0; i < 3; ++i) {
    scores.push_back(static_cast<float>(DistMult(Row(ends[i]), Row(ends[3 + i]), relations[i])));
  }
  const Matrix logits(Row(0), Row(2));
  const auto put = [&](const std::string& decoder, const Matrix& expected, bool with_index) {
    SafetensorsBuilder reference;
    reference.Add("logits", {2, kWidth}, logits).AddBytes("nodes", "I64", {2}, BytesOf(nodes));
    reference.Add("link_scores", {3}, expected).AddBytes("link_relations", "I64", {3}, BytesOf(relations));
    if (with_index) reference.AddBytes("link_index", "I64", {2, 3}, BytesOf(ends));
    ModelSource source;
    source.name = "referenced";
    source.replace = true;
    source.architecture_json = Document(decoder);
    SafetensorsBuilder weights = Encoder();
    if (!decoder.empty()) {
      weights.Add("decoder.weight", {kRelations, kWidth},
                  Matrix(Weight().begin(), Weight().begin() + kRelations * kWidth));
    }
    source.weights_file = weights.Build();
    source.reference.emplace();
    source.reference->graph = "g";
    source.reference->file = reference.Build();
    return engine.PutModel(std::move(source), {});
  };
  const std::string distmult = R"({"type": "distmult", "args": {"num_relations": 3}})";
  const auto good = put(distmult, scores, true);
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_TRUE(good->reference_checked);
  Matrix wrong = scores;
  wrong[1] += 0.01f * std::max(1.0f, std::abs(wrong[1]));
  const Status missed = put(distmult, wrong, true).status();
  EXPECT_EQ(DetailOf(missed)->reason, "REFERENCE_MISSED");
  EXPECT_NE(missed.message().find("link 1: its score is"), absl::string_view::npos) << missed;
  EXPECT_EQ(DetailOf(put(distmult, scores, false).status())->reason, "BAD_REFERENCE");
  EXPECT_EQ(DetailOf(put("", scores, true).status())->reason, "BAD_REFERENCE");
}

// The first layer's weights are packed for each request: 9.6 MB.
TEST_F(LinksTest, PackedWeightsAreCounted) {
  constexpr int64_t kWide = 100'000, kBudget = int64_t{64} << 20, kLeft = int64_t{2} << 20;
  EngineOptions options;
  options.memory_budget_bytes = kBudget;
  const auto engine = World(options);
  std::string decoder = Mlp("concat", 2 * kWidth);
  for (const char* key : {"\"out_channels\": 5}", "\"in_channels\": 5,"}) {
    const size_t at = decoder.find(key);
    ASSERT_NE(at, std::string::npos);
    decoder.replace(at + std::string(key).size() - 2, 1, std::to_string(kWide));
  }
  Put(*engine, "wide", decoder,
      Encoder()
          .AddRamp("dec.nn.0.weight", {kWide, 2 * kWidth})
          .AddRamp("dec.nn.0.bias", {kWide})
          .AddRamp("dec.nn.2.weight", {1, kWide})
          .AddRamp("dec.nn.2.bias", {1}));
  Ask(*engine, Request("wide", Pairs({1}, {2})));
  const auto others =
      engine->memory().Reserve(Account::kRequests, kBudget - kLeft - engine->memory().Snapshot().total(), "a test");
  ASSERT_TRUE(others.ok()) << others.status();
  const auto refused = Infer(*engine, Request("wide", Pairs({1}, {2})));
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.status().message().find("packed weights"), std::string::npos) << refused.status();
}

TEST_F(LinksTest, ModelsTellTheirDecoder) {
  const ModelResource model = *Shared().GetModel("bilinear");
  EXPECT_EQ(model.decoder, "bilinear");
  EXPECT_EQ(model.decoder_output, "logits");
  EXPECT_EQ(model.decoder_relations, kRelations);
  EXPECT_EQ(Shared().GetModel("plain")->decoder, "");
}

}  // namespace
}  // namespace vicinal::testing
