// SPDX-License-Identifier: Apache-2.0
#include "server/open_inference/describe_models.h"

#include <gtest/gtest.h>

#include "engine/base/error.h"

namespace vicinal::server {
namespace {

GraphResource Graph(const std::string& name, int64_t features) {
  GraphResource graph;
  graph.name = name;
  graph.state = GraphState::kReady;
  graph.serving.emplace();
  FeatureSetResource set;
  set.name = "default";
  set.feature_count = features;
  graph.feature_sets.push_back(set);
  return graph;
}
ModelResource Model(const std::string& name, int64_t features, bool graph_level = false) {
  ModelResource model;
  model.name = name;
  model.version = 7;
  model.feature_count = features;
  model.class_count = 4;
  model.graph_level = graph_level;
  model.outputs = {"conv1", "logits"};
  return model;
}

std::vector<std::string> Listed(const std::vector<GraphResource>& graphs, const std::vector<ModelResource>& models,
                                bool ready_only) {
  inference::RepositoryIndexResponse response;
  EXPECT_TRUE(ListModels(graphs, models, ready_only, 1 << 20, &response).ok());
  std::vector<std::string> names;
  for (const auto& model : response.models()) names.push_back(model.name() + " " + model.state());
  return names;
}

TEST(DescribeModelsTest, ListsPairsThatFit) {
  GraphResource preparing = Graph("later", 0), failed = Graph("never", 0);
  for (GraphResource* const graph : {&preparing, &failed}) {
    graph->serving.reset();
    graph->feature_sets.clear();
  }
  preparing.state = GraphState::kPreparing;
  failed.state = GraphState::kFailed;
  failed.error = InvalidArgument("BAD_SHAPE", "x", "too narrow");
  const std::vector<GraphResource> graphs = {Graph("a", 3), Graph("b", 5), preparing, failed};
  const std::vector<ModelResource> models = {Model("m", 3), Model("p", 3, /*graph_level=*/true)};
  EXPECT_EQ(Listed(graphs, models, false),
            (std::vector<std::string>{"p READY", "a/m READY", "later/m LOADING", "never/m UNAVAILABLE"}));
  EXPECT_EQ(Listed(graphs, models, true), (std::vector<std::string>{"p READY", "a/m READY"}));
  inference::RepositoryIndexResponse response;
  ASSERT_TRUE(ListModels(graphs, models, false, 1 << 20, &response).ok());
  EXPECT_EQ(response.models(1).version(), "7");
  EXPECT_NE(response.models(3).reason().find("too narrow"), std::string::npos);
}

TEST(DescribeModelsTest, AListThatIsTooLongIsRefused) {
  std::vector<GraphResource> graphs;
  std::vector<ModelResource> models;
  for (int i = 0; i < 50; ++i) {
    graphs.push_back(Graph("graph" + std::to_string(i), 3));
    models.push_back(Model("model" + std::to_string(i), 3));
  }
  inference::RepositoryIndexResponse response;
  const Status status = ListModels(graphs, models, false, 1000, &response);
  EXPECT_EQ(DetailOf(status)->metadata.at("limit"), "max_response_bytes");
  EXPECT_LT(response.ByteSizeLong(), 1500u) << "it stops at the limit";
}

TEST(DescribeModelsTest, MetadataAndConfigurationAgree) {
  const OpenModel of_nodes{{"a", "m"}, Model("m", 3), Graph("a", 3)};
  const OpenModel of_graphs{{"", "p"}, Model("p", 3, true), {}};
  for (const OpenModel& model : {of_nodes, of_graphs}) {
    const inference::ModelMetadataResponse metadata = MetadataOf(model);
    const inference::ModelConfig config = ConfigOf(model);
    EXPECT_EQ(metadata.name(), config.name());
    EXPECT_EQ(metadata.versions(0), "7");
    ASSERT_EQ(metadata.inputs_size(), config.input_size());
    for (int i = 0; i < metadata.inputs_size(); ++i) {
      EXPECT_EQ(metadata.inputs(i).name(), config.input(i).name());
      EXPECT_EQ("TYPE_" + metadata.inputs(i).datatype(), inference::DataType_Name(config.input(i).data_type()));
      EXPECT_EQ(metadata.inputs(i).shape_size(), config.input(i).dims_size());
    }
    ASSERT_EQ(metadata.outputs_size(), config.output_size());
    for (int i = 0; i < metadata.outputs_size(); ++i) {
      EXPECT_EQ(metadata.outputs(i).name(), config.output(i).name());
      EXPECT_EQ("TYPE_" + metadata.outputs(i).datatype(), inference::DataType_Name(config.output(i).data_type()));
    }
  }
  EXPECT_EQ(MetadataOf(of_nodes).inputs(1).shape(1), 3);
  EXPECT_EQ(MetadataOf(of_nodes).outputs(2).shape(1), 4);
  EXPECT_TRUE(ConfigOf(of_nodes).input(0).optional());
  EXPECT_EQ(ConfigOf(of_nodes).parameters().at("embeddings").string_value(), "conv1,logits");
  EXPECT_FALSE(ConfigOf(of_graphs).input(0).optional());
  EXPECT_EQ(ConfigOf(of_graphs).parameters().count("embeddings"), 0u);
}

}  // namespace
}  // namespace vicinal::server
