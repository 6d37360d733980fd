// SPDX-License-Identifier: Apache-2.0
#include "server/open_inference/describe_models.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/error.h"
#include "proto/wire/names.h"

namespace vicinal::server {
namespace {

struct OpenTensor {
  const char* name;
  const char* datatype;
  inference::DataType type;
  std::vector<int64_t> shape;
  bool optional = false;
};

OpenTensor Ids(const char* name, bool optional) { return {name, "INT64", inference::TYPE_INT64, {-1}, optional}; }
OpenTensor Floats(const char* name, std::vector<int64_t> shape, bool optional = false) {
  return {name, "FP32", inference::TYPE_FP32, std::move(shape), optional};
}

std::vector<OpenTensor> InputsOf(const ModelResource& model) {
  if (!model.graph_level)
    return {Ids("nodes", true), Floats("x", {-1, model.feature_count}, true), Ids("x_nodes", true)};
  std::vector<OpenTensor> inputs = {Ids("ptr", false),
                                    {"edge_index", "INT64", inference::TYPE_INT64, {2, -1}},
                                    Floats("x", {-1, model.feature_count}),
                                    Floats("edge_weight", {-1}, !model.uses_edge_weight)};
  if (model.edge_feature_width > 0) inputs.push_back(Floats("edge_attr", {-1, model.edge_feature_width}));
  return inputs;
}

std::vector<OpenTensor> OutputsOf(const ModelResource& model) {
  return {{"classes", "INT32", inference::TYPE_INT32, {-1, -1}},
          Floats("scores", {-1, -1}),
          Floats("logits", {-1, model.class_count}),
          Floats("probabilities", {-1, model.class_count})};
}

void Describe(const std::vector<OpenTensor>& tensors,
              google::protobuf::RepeatedPtrField<inference::ModelMetadataResponse::TensorMetadata>* list) {
  for (const OpenTensor& tensor : tensors) {
    auto* const entry = list->Add();
    entry->set_name(tensor.name);
    entry->set_datatype(tensor.datatype);
    entry->mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
  }
}

struct State {
  const char* name;
  std::string reason;
};

State StateOf(const GraphResource& graph) {
  if (graph.serving) return {"READY", ""};
  if (graph.state == GraphState::kFailed) {
    return {"UNAVAILABLE", absl::StrCat("the graph's preparation failed: ", std::string(graph.error.message()))};
  }
  return {"LOADING", "the graph is being prepared or loaded"};
}

// Whether the features that a request need not bring are the model's. Unknown before the graph serves.
bool Fits(const GraphResource& graph, const ModelResource& model) {
  if (model.graph_level) return false;
  if (!graph.serving) return true;
  return std::any_of(graph.feature_sets.begin(), graph.feature_sets.end(), [&](const FeatureSetResource& set) {
    return set.kind == FeatureKind::kNodes && set.name == wire::kDefaultFeatureSet &&
           set.feature_count == model.feature_count;
  });
}

// A list that has an end.
class Index {
 public:
  Index(int64_t max_bytes, inference::RepositoryIndexResponse* response)
      : max_bytes_(max_bytes), response_(*response) {}

  Status Add(const OpenModelName& name, const ModelResource& model, const State& state) {
    auto* const entry = response_.add_models();
    entry->set_name(ToString(name));
    entry->set_version(std::to_string(model.version));
    entry->set_state(state.name);
    entry->set_reason(state.reason);
    bytes_ += static_cast<int64_t>(entry->ByteSizeLong());
    if (bytes_ <= max_bytes_) return OkStatus();
    return OverLimit(
        "max_response_bytes", "", bytes_, max_bytes_,
        "the list of all pairs of graphs and models is larger than one reply may be "
        "(--max_response_bytes); use GraphService/ListGraphs and ModelService/ListModels, which have pages");
  }

 private:
  const int64_t max_bytes_;
  inference::RepositoryIndexResponse& response_;
  int64_t bytes_ = 0;
};

}  // namespace

inference::ModelMetadataResponse MetadataOf(const OpenModel& model) {
  inference::ModelMetadataResponse metadata;
  metadata.set_name(ToString(model.name));
  metadata.add_versions(std::to_string(model.model.version));
  metadata.set_platform(kOpenPlatform);
  Describe(InputsOf(model.model), metadata.mutable_inputs());
  Describe(OutputsOf(model.model), metadata.mutable_outputs());
  return metadata;
}

inference::ModelConfig ConfigOf(const OpenModel& model) {
  inference::ModelConfig config;
  config.set_name(ToString(model.name));
  config.set_platform(kOpenPlatform);
  config.set_backend(kOpenPlatform);
  for (const OpenTensor& tensor : InputsOf(model.model)) {
    inference::ModelInput* const input = config.add_input();
    input->set_name(tensor.name);
    input->set_data_type(tensor.type);
    input->mutable_dims()->Add(tensor.shape.begin(), tensor.shape.end());
    input->set_optional(tensor.optional);
  }
  for (const OpenTensor& tensor : OutputsOf(model.model)) {
    inference::ModelOutput* const output = config.add_output();
    output->set_name(tensor.name);
    output->set_data_type(tensor.type);
    output->mutable_dims()->Add(tensor.shape.begin(), tensor.shape.end());
  }
  if (!model.model.graph_level)
    (*config.mutable_parameters())["embeddings"].set_string_value(absl::StrJoin(model.model.outputs, ","));
  return config;
}

bool IsReady(const OpenModel& model) { return !model.graph || model.graph->serving.has_value(); }

Status ListModels(const std::vector<GraphResource>& graphs, const std::vector<ModelResource>& models, bool ready_only,
                  int64_t max_bytes, inference::RepositoryIndexResponse* response) {
  Index index(max_bytes, response);
  for (const ModelResource& model : models) {
    if (model.graph_level) VICINAL_RETURN_IF_ERROR(index.Add({"", model.name}, model, {"READY", ""}));
  }
  for (const GraphResource& graph : graphs) {
    const State state = StateOf(graph);
    if (ready_only && !graph.serving) continue;
    for (const ModelResource& model : models) {
      if (Fits(graph, model)) VICINAL_RETURN_IF_ERROR(index.Add({graph.name, model.name}, model, state));
    }
  }
  return OkStatus();
}

}  // namespace vicinal::server
