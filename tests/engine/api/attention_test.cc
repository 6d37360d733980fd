// SPDX-License-Identifier: Apache-2.0
// Attention weights through the engine's door: against what PyTorch Geometric's layers return in float64
// (tests/data/make_attention_references.py), in every order of nodes; subsets with identical bits; refusals.
#include <algorithm>

#include "engine/api/links.h"
#include "tests/engine/api/reference_models.h"

namespace vicinal::testing {
namespace {

struct Expectation {
  std::string layer;
  std::vector<int64_t> edges;  // [m, 2]
  std::vector<float> weights;  // [m, heads]
};

std::vector<Expectation> ExpectationsOf(const std::string& model) {
  const std::string file = ReadTestFile("attention/" + model + ".safetensors");
  const auto parsed = Safetensors::Parse(file);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  constexpr std::string_view kEdges = ".edges";
  std::vector<Expectation> all;
  for (const auto& [name, entry] : parsed->entries()) {
    const std::string key(name);
    if (!key.ends_with(kEdges)) continue;
    Expectation one;
    one.layer = key.substr(0, key.size() - kEdges.size());
    one.edges.resize(entry.bytes.size() / sizeof(int64_t));
    std::memcpy(one.edges.data(), entry.bytes.data(), entry.bytes.size());
    const std::string weights = one.layer + ".weights";
    one.weights = *Safetensors::ToFloats(*parsed->Find(weights), weights);
    all.push_back(std::move(one));
  }
  return all;
}

InferenceRequest Attention(const std::string& graph, const std::string& model, const std::string& layer,
                           NodeSelection nodes) {
  InferenceRequest request;
  request.graph = graph;
  request.model = model;
  auto links = std::make_shared<WantedLinks>();
  links->attention = WantedAttention{layer, std::move(nodes)};
  request.links = std::move(links);
  return request;
}

// FAConv's weights are tanh of sums that may cancel, so that one near 0 has no accuracy of its own: of all together in
// the contract's, each within a few roundings of terms of 10.
void ExpectCloseTo1(const InferenceResult& result, const std::vector<float>& expected, const std::string& what) {
  ASSERT_EQ(result.values.size(), expected.size()) << what;
  double error = 0.0, norm = 0.0, worst = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = static_cast<double>(result.values[i]) - expected[i];
    error += difference * difference;
    norm += static_cast<double>(expected[i]) * expected[i];
    worst = std::max(worst, std::abs(difference));
  }
  EXPECT_LE(std::sqrt(error / norm), 2e-6) << what;
  EXPECT_LE(worst, 4e-6) << what;
}

class AttentionTest : public ::testing::TestWithParam<ReferenceModel> {};

TEST_P(AttentionTest, EqualsPyTorchGeometricInEveryOrder) {
  const ReferenceModel& test = GetParam();
  Engine& engine = ReferenceBench::TheEngine();
  if (!engine.GetModel(test.model).ok()) PutModel(engine, test.model, test.folder);
  const std::vector<Expectation> expectations = ExpectationsOf(test.model);
  ASSERT_FALSE(expectations.empty());
  for (const Expectation& expected : expectations) {
    std::vector<float> bits;
    for (const OrderKind order : {OrderKind::kNone, OrderKind::kDegree, OrderKind::kRcm}) {
      const std::string graph = ReferenceBench::Graph(test.data, order);
      const std::string what = expected.layer + " on " + graph;
      const auto all = Infer(engine, Attention(graph, test.model, expected.layer, {true, {}}));
      ASSERT_TRUE(all.ok()) << what << all.status();
      ASSERT_EQ(all->links.size(), static_cast<size_t>(2 * all->rows));
      ASSERT_GE(all->links.size(), expected.edges.size());
      InferenceResult kept = *all;  // the references are of the first targets
      kept.rows = static_cast<int64_t>(expected.edges.size() / 2);
      kept.values.resize(static_cast<size_t>(kept.rows * kept.width));
      EXPECT_EQ(std::vector<int64_t>(all->links.begin(),
                                     all->links.begin() + static_cast<std::ptrdiff_t>(expected.edges.size())),
                expected.edges)
          << what;
      if (test.model.starts_with("fa")) {
        ExpectCloseTo1(kept, expected.weights, what);
      } else {
        ExpectClose(kept, expected.weights, 2e-6, what);
      }
    }
  }
}

TEST_P(AttentionTest, SubsetsHaveTheSameBits) {
  const ReferenceModel& test = GetParam();
  Engine& engine = ReferenceBench::TheEngine();
  if (!engine.GetModel(test.model).ok()) PutModel(engine, test.model, test.folder);
  const std::string graph = ReferenceBench::Graph(test.data, OrderKind::kRcm);
  for (const Expectation& expected : ExpectationsOf(test.model)) {
    const auto all = Infer(engine, Attention(graph, test.model, expected.layer, {true, {}}));
    ASSERT_TRUE(all.ok()) << all.status();
    const std::vector<int64_t> targets = {40, 0, 117, 40};  // 117 is isolated in `tiny`
    for (const ReceptiveField field : {ReceptiveField::kAlways, ReceptiveField::kNever}) {
      InferenceRequest some = Attention(graph, test.model, expected.layer, {false, targets});
      some.options.receptive_field = field;
      const auto subset = Infer(engine, some);
      ASSERT_TRUE(subset.ok()) << subset.status();
      std::vector<int64_t> links;
      std::vector<float> weights;
      for (const int64_t target : targets) {
        for (int64_t e = 0; e < all->rows; ++e) {
          if (all->links[2 * e + 1] != target) continue;
          links.insert(links.end(), {all->links[2 * e], target});
          weights.insert(weights.end(), all->values.begin() + e * all->width,
                         all->values.begin() + (e + 1) * all->width);
        }
      }
      EXPECT_EQ(subset->links, links);
      EXPECT_EQ(subset->values, weights);
    }
  }
}

std::vector<ReferenceModel> ModelsWithAttention() {
  std::vector<ReferenceModel> models;
  for (const auto& file : std::filesystem::directory_iterator(std::string(VICINAL_TEST_DATA) + "/attention")) {
    if (file.path().extension() != ".safetensors") continue;
    const std::string name = file.path().stem().string();
    const bool directed = name.starts_with("directed");
    models.push_back({name, directed ? "directed" : "tiny", 2e-6, directed ? "models" : "layers"});
  }
  std::sort(models.begin(), models.end(), [](const auto& a, const auto& b) { return a.model < b.model; });
  return models;
}
INSTANTIATE_TEST_SUITE_P(Models, AttentionTest, ::testing::ValuesIn(ModelsWithAttention()), CaseName);

class AttentionRefusals : public ::testing::Test {
 protected:
  AttentionRefusals() : engine_(ReferenceBench::TheEngine()), graph_(ReferenceBench::Graph("tiny", OrderKind::kNone)) {
    for (const char* model : {"dir-gat", "gat-bare", "sage-add", "transformer"}) {
      if (!engine_.GetModel(model).ok()) PutModel(engine_, model, "layers");
    }
  }
  void ExpectRefused(InferenceRequest request, const std::string& reason, const std::string& message) {
    const auto got = Infer(engine_, std::move(request));
    EXPECT_EQ(got.status().code(), StatusCode::kInvalidArgument) << got.status();
    EXPECT_EQ(DetailOf(got.status())->reason, reason);
    EXPECT_NE(got.status().message().find(message), absl::string_view::npos) << got.status();
  }

  Engine& engine_;
  const std::string graph_;
};

TEST_F(AttentionRefusals, SayWhichLayersThereAre) {
  const std::string layer = ExpectationsOf("gat-bare").front().layer;
  ExpectRefused(
      Attention(graph_, "gat-bare", "nonesuch", {true, {}}), "ATTENTION_UNKNOWN",
      "the model has no layer 'nonesuch', whose attention weights are asked for; the model's layers that have: '" +
          layer + "'");
  ExpectRefused(Attention(graph_, "gat-bare", layer + "s", {true, {}}), "ATTENTION_UNKNOWN",
                "(did you mean '" + layer + "'?)");
  const auto model = engine_.GetModel("sage-add");
  ASSERT_TRUE(model.ok()) << model.status();
  const LayerInfo& first = model->layers.front();
  ExpectRefused(Attention(graph_, "sage-add", first.name, {true, {}}), "ATTENTION_UNKNOWN",
                "layer '" + first.name + "' (" + first.type +
                    ") has no attention weights to show; none of the model's layers has");
}

TEST_F(AttentionRefusals, ALayerOfTwoDirectionsHasTwoAttentionsAndShowsNone) {
  const auto model = engine_.GetModel("dir-gat");
  ASSERT_TRUE(model.ok()) << model.status();
  const auto layer = std::find_if(model->layers.begin(), model->layers.end(),
                                  [](const LayerInfo& one) { return one.type == "DirGNNConv"; });
  ASSERT_NE(layer, model->layers.end());
  ExpectRefused(Attention(graph_, "dir-gat", layer->name, {true, {}}), "ATTENTION_UNKNOWN",
                "(DirGNNConv) has no attention weights to show: it may attend, but in two directions");
}

TEST_F(AttentionRefusals, NodesAndOutputsAreChecked) {
  const std::string layer = ExpectationsOf("gat-bare").front().layer;
  ExpectRefused(Attention(graph_, "gat-bare", layer, {false, {5, 120}}), "NODE_OUT_OF_RANGE", "nodes.ids[1]");
  ExpectRefused(Attention(graph_, "gat-bare", layer, {false, {}}), "BAD_SELECTION", "nodes");
  InferenceRequest both = Attention(graph_, "gat-bare", layer, {true, {}});
  both.options.output = "logits";
  ExpectRefused(both, "BAD_ATTENTION", "send two requests");
  InferenceRequest large = Attention(graph_, "gat-bare", layer, {true, {}});
  large.check_answer = [](const AnswerShape& shape) {
    return InvalidArgument("LIMIT_EXCEEDED", "nodes", std::to_string(shape.rows) + " x " + std::to_string(shape.width));
  };
  ExpectRefused(large, "LIMIT_EXCEEDED", " x 2");
}

TEST_F(AttentionRefusals, ANodeWithoutInEdgesHasNone) {
  const std::string layer = ExpectationsOf("transformer").front().layer;
  const auto none = Infer(engine_, Attention(graph_, "transformer", layer, {false, {119}}));
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->rows, 0);
  const auto loop =
      Infer(engine_, Attention(graph_, "gat-bare", ExpectationsOf("gat-bare").front().layer, {false, {119}}));
  ASSERT_TRUE(loop.ok()) << loop.status();
  EXPECT_EQ(loop->links, (std::vector<int64_t>{119, 119}));
  EXPECT_EQ(loop->values, (std::vector<float>(2, 1.0f)));
}

}  // namespace
}  // namespace vicinal::testing
