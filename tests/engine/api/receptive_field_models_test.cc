// SPDX-License-Identifier: Apache-2.0
// The reference models for some nodes: over their receptive field and over the full graph with the same bits, on real
// graphs; those with a norm over the whole graph are refused, and exact all the same.
#include <random>

#include "engine/base/error.h"
#include "tests/engine/api/reference_models.h"

namespace vicinal::testing {
namespace {

class ReceptiveFieldReferenceModels : public ::testing::TestWithParam<ReferenceModel> {};

TEST_P(ReceptiveFieldReferenceModels, SomeNodesHaveTheBitsOfAll) {
  const ReferenceModel& test = GetParam();
  Engine& engine = ReferenceBench::TheEngine();
  PutModel(engine, test.model);
  const bool whole = std::string(test.model).find("gcn4") != std::string::npos;  // norm='layer_norm'
  std::mt19937 random(11);
  for (const OrderKind order : {OrderKind::kNone, OrderKind::kRcm}) {
    const std::string graph = ReferenceBench::Graph(test.data, order);
    const auto all = Infer(engine, AllNodes(graph, test.model));
    ASSERT_TRUE(all.ok()) << all.status();
    ExpectClose(*all, Expected(test.model, "logits"), test.tolerance, graph);
    for (const int64_t count : {1, 3, 20, 200}) {
      InferenceRequest some = AllNodes(graph, test.model);
      some.nodes = {false, {}};
      for (int64_t i = 0; i < count; ++i) some.nodes.ids.push_back(static_cast<int64_t>(random() % all->rows));
      some.nodes.ids.push_back(some.nodes.ids.front());
      for (const ReceptiveField mode : {ReceptiveField::kAuto, ReceptiveField::kAlways}) {
        some.options.receptive_field = mode;
        const auto got = Infer(engine, some);
        if (whole && mode == ReceptiveField::kAlways) {
          EXPECT_EQ(got.status().code(), StatusCode::kFailedPrecondition);
          continue;
        }
        ASSERT_TRUE(got.ok()) << got.status();
        if (whole) {
          EXPECT_FALSE(got->receptive_field);
        }
        if (mode == ReceptiveField::kAlways) {
          EXPECT_TRUE(got->receptive_field);
        }
        for (size_t i = 0; i < some.nodes.ids.size(); ++i) {
          ASSERT_EQ(0, std::memcmp(got->values.data() + i * all->width,
                                   all->values.data() + some.nodes.ids[i] * all->width, all->width * sizeof(float)))
              << graph << ", node " << some.nodes.ids[i];
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Small, ReceptiveFieldReferenceModels, ::testing::ValuesIn(SmallReferenceModels()), CaseName);

}  // namespace
}  // namespace vicinal::testing
