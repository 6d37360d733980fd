// SPDX-License-Identifier: Apache-2.0
// Plans of the reference models: the bytes that are admitted are those that are taken, and the steps of two models are
// written down, so that a change of the rewriter shows.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/engine/plan/plan_testing.h"
#include "tests/engine/plan_interpreter/reference_case.h"

namespace vicinal::testing {
namespace {

std::shared_ptr<const Model> LoadReference(const std::string& name, const std::string& folder) {
  const std::string base = folder + "/" + name;
  const bool hand_written = std::filesystem::exists(std::string(VICINAL_TEST_DATA) + "/" + base + ".vicinal.json");
  return LoadModel(ReadTestFile(base + (hand_written ? ".vicinal.json" : ".json")), ReadTestFile(base + ".safetensors"))
      .value();
}

struct PreparedCase {
  PreparedCase(const ReferenceCase& test, bool sparse) : model(LoadReference(test.model, test.folder)) {
    const DataSet& data = CachedDataSet(test.data);
    const std::vector<int64_t> segments = model->graph_level ? data.segments : std::vector<int64_t>{};
    graph = PrepareEdges(data.edges, OrderKind::kNone, segments, ThePlanBench().device.get(), &data.edge_attr);
    features = UploadFeatures(data.x, model->feature_count, sparse, *graph);
  }
  std::shared_ptr<const Model> model;
  std::shared_ptr<const PreparedGraph> graph;
  std::shared_ptr<const FeatureMatrix> features;
};

// Builds a plan for each output, at full and at half precision, on one graph: what the graph derived for an earlier
// plan must not be counted again.
void CheckSizes(const ReferenceCase& test, bool sparse) {
  const PreparedCase prepared(test, sparse);
  Device& device = *ThePlanBench().device;
  for (const NamedOutput& output : prepared.model->outputs) {
    for (const Storage storage : {Storage::kFloat32, Storage::kBfloat16}) {
      SCOPED_TRACE(absl::StrCat(test.model, sparse ? " sparse " : " dense ", output.name));
      PlanRequest request = RequestFor(prepared.model, prepared.graph, *prepared.features);
      request.output = output.value;
      request.precision = storage;
      int64_t counted = -1;
      const auto admit = [&counted](int64_t bytes) { return counted = bytes, OkStatus(); };
      const int64_t held = device.allocated_bytes();
      const auto plan = Plan::Build(request, ThePlanBench().registry, device, admit);
      ASSERT_TRUE(plan.ok()) << plan.status();
      EXPECT_EQ(counted, device.allocated_bytes() - held + (*plan)->step_bytes());
    }
  }
}

class ReferencePlans : public ::testing::TestWithParam<ReferenceCase> {};

TEST_P(ReferencePlans, HoldTheBytesThatWereCounted) {
  for (const bool sparse : {false, true}) CheckSizes(GetParam(), sparse);
}

INSTANTIATE_TEST_SUITE_P(Layers, ReferencePlans, ::testing::ValuesIn(LayerCases()), CaseName);
INSTANTIATE_TEST_SUITE_P(Models, ReferencePlans,
                         ::testing::Values(ReferenceCase{"cora-gcn4", "cora"}, ReferenceCase{"cora-sagemax", "cora"},
                                           ReferenceCase{"cora-gin", "cora"}, ReferenceCase{"cora-gat", "cora"},
                                           ReferenceCase{"cora-gatv2", "cora"},
                                           ReferenceCase{"directed-chain-transformer", "directed"},
                                           ReferenceCase{"directed-chain-edge", "directed"},
                                           ReferenceCase{"proteins-ginpool", "proteins"}),
                         CaseName);

// "operation | layers | formula | bytes, operations" of each step.
std::vector<std::string> StepsOf(const ReferenceCase& test, bool sparse) {
  const PreparedCase prepared(test, sparse);
  const auto plan = Plan::Build(RequestFor(prepared.model, prepared.graph, *prepared.features), ThePlanBench().registry,
                                *ThePlanBench().device);
  std::vector<std::string> steps;
  for (const PlanStepInfo& step : (*plan)->Steps()) {
    steps.push_back(absl::StrCat(step.operation, " | ", step.layers, " | ", step.description, " | ",
                                 step.predicted_bytes, ", ", step.predicted_operations));
  }
  return steps;
}

TEST(ReferencePlanSteps, OfSageWithMaximaOfTheSparseInput) {
  const std::vector<std::string> expected = {
      "sparse_update | convs.0 | [2708, 64] = sparse x [2708, 1433] * W^T [1433, 64] | 1475496, 6299648",
      "sparse_aggregate_update | convs.0 + acts.0 | [2708, 64] = max over A[2708, 2708] with 10556 edges "
      "of sparse x [2708, 1433] * W^T [1433, 64] + bias + [2708, 64], then relu | 3352016, 25268199",
      "aggregate | convs.1 | [2708, 64] = max over A[2708, 2708] with 10556 edges of [2708, 64] | 3459480, "
      "675584",
      "dense_update | convs.1 | [2708, 7] = [2708, 64] * W^T [64, 7] | 770864, 2426368",
      "dense_update | convs.1 | [2708, 7] = [2708, 64] * W^T [64, 7] + bias + [2708, 7] | 846688, 2464280"};
  EXPECT_EQ(StepsOf({"cora-sagemax", "cora"}, /*sparse=*/true), expected);
}

TEST(ReferencePlanSteps, OfATransformer) {
  const std::vector<std::string> expected = {
      "dense_update | conv1 | [6000, 96] = x [6000, 24] * W^T [24, 96] + bias | 2889216, 28224000",
      "attention | conv1 | [6000, 24] = dot attention over A[6000, 6000] with 33396 edges of 3 heads of 8 "
      "| 4539608, 5209776",
      "rowwise | conv1 | [6000, 24] = gate between [6000, 24] and [6000, 24] | 1728000, 1296000",
      "rowwise | act | [6000, 24] = [6000, 24], then elu | 1152000, 288000",
      "dense_update | conv2 | [6000, 42] = [6000, 24] * W^T [24, 42] + bias | 1588032, 12348000",
      "attention | conv2 | [6000, 6] = dot attention over A[6000, 6000] with 33396 edges of 2 heads of 6, "
      "their mean + [6000, 6] | 2360600, 2707680"};
  EXPECT_EQ(StepsOf({"directed-chain-transformer", "directed"}, /*sparse=*/false), expected);
}

}  // namespace
}  // namespace vicinal::testing
