// SPDX-License-Identifier: Apache-2.0
#include "server/open_inference/decode_infer.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "server/open_inference/infer_inputs.h"

namespace vicinal::server {
namespace {

using inference::InferParameter;
using inference::ModelInferRequest;

constexpr OpenOutput kOutputs[] = {OpenOutput::kClasses, OpenOutput::kScores, OpenOutput::kLogits,
                                   OpenOutput::kProbabilities, OpenOutput::kEmbeddings};

// --- inputs ---

Status BadInput(std::string_view message) { return InvalidArgument("BAD_INPUT", "inputs", message); }

// Appends the elements of an int64 tensor.
void AppendIds(const v1::Tensor& tensor, google::protobuf::RepeatedField<int64_t>* ids) {
  const auto count = static_cast<int>(tensor.data().size() / sizeof(int64_t));
  ids->Resize(count, 0);
  if (count > 0) std::memcpy(ids->mutable_data(), tensor.data().data(), tensor.data().size());
}

// --- parameters ---

Status BadParameter(const std::string& name, std::string_view message) {
  return InvalidArgument("BAD_PARAMETER", absl::StrCat("parameters[", name, "]"), message);
}

StatusOr<int64_t> IntOf(const std::string& name, const InferParameter& value, int64_t least, int64_t most) {
  int64_t number = -1;
  if (value.has_int64_param()) {
    number = value.int64_param();
  } else if (value.has_uint64_param()) {
    number = static_cast<int64_t>(std::min<uint64_t>(value.uint64_param(), std::numeric_limits<int64_t>::max()));
  } else {
    return BadParameter(name, absl::StrCat("the parameter '", name, "' must be a whole number"));
  }
  if (number >= least && number <= most) return number;
  return BadParameter(
      name, absl::StrCat("the parameter '", name, "' is ", number, "; it must be from ", least, " to ", most));
}

StatusOr<std::string> TextOf(const std::string& name, const InferParameter& value) {
  if (value.has_string_param()) return value.string_param();
  return BadParameter(name, absl::StrCat("the parameter '", name, "' must be a text"));
}

StatusOr<bool> BoolOf(const std::string& name, const InferParameter& value) {
  if (value.has_bool_param()) return value.bool_param();
  return BadParameter(name, absl::StrCat("the parameter '", name, "' must be true or false"));
}

struct Parameters {
  std::optional<int32_t> top_k;
  std::string output;
  v1::Priority priority = v1::PRIORITY_UNSPECIFIED;
  v1::Target target;  // versions, feature set, incarnation, digest
  bool names_target = false;
};

// Triton's: 1 is first, 2 comes after it, 0 is the default.
Status ReadPriority(const std::string& name, const InferParameter& value, v1::Priority* priority) {
  if (value.has_string_param()) {
    if (value.string_param() == "interactive") *priority = v1::PRIORITY_INTERACTIVE;
    if (value.string_param() == "batch") *priority = v1::PRIORITY_BATCH;
    if (*priority != v1::PRIORITY_UNSPECIFIED) return OkStatus();
    return BadParameter(name, absl::StrCat("the priority ", Quoted(value.string_param()),
                                           " is unknown; it must be 'interactive' (1) or 'batch' (2)"));
  }
  VICINAL_ASSIGN_OR_RETURN(const int64_t number, IntOf(name, value, 0, 2));
  *priority = static_cast<v1::Priority>(number);
  return OkStatus();
}

// What says about which graph and features a request of nodes is. False: it is another parameter.
StatusOr<bool> ReadTarget(const std::string& name, const InferParameter& value, v1::Target* target) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  if (name == "graph_version") {
    VICINAL_ASSIGN_OR_RETURN(const int64_t version, IntOf(name, value, 0, kMost));
    target->set_graph_version(version);
  } else if (name == "feature_set_version") {
    VICINAL_ASSIGN_OR_RETURN(const int64_t version, IntOf(name, value, 0, kMost));
    target->set_feature_set_version(version);
  } else if (name == "feature_set") {
    VICINAL_ASSIGN_OR_RETURN(*target->mutable_feature_set(), TextOf(name, value));
  } else if (name == "edge_feature_set_version") {
    VICINAL_ASSIGN_OR_RETURN(const int64_t version, IntOf(name, value, 0, kMost));
    target->set_edge_feature_set_version(version);
  } else if (name == "edge_feature_set") {
    VICINAL_ASSIGN_OR_RETURN(*target->mutable_edge_feature_set(), TextOf(name, value));
  } else if (name == "ids_digest") {
    VICINAL_ASSIGN_OR_RETURN(*target->mutable_ids_digest(), TextOf(name, value));
  } else {
    return false;
  }
  return true;
}

Status ReadParameter(const std::string& name, const InferParameter& value, Parameters* out, OpenInfer* infer) {
  if (name == "top_k") {
    VICINAL_ASSIGN_OR_RETURN(const int64_t k, IntOf(name, value, 1, std::numeric_limits<int32_t>::max()));
    out->top_k = static_cast<int32_t>(k);
  } else if (name == "output") {
    VICINAL_ASSIGN_OR_RETURN(out->output, TextOf(name, value));
  } else if (name == "priority") {
    return ReadPriority(name, value, &out->priority);
  } else if (name == "timeout") {
    VICINAL_ASSIGN_OR_RETURN(const int64_t us, IntOf(name, value, 0, std::numeric_limits<int64_t>::max()));
    if (us > 0) infer->timeout = std::chrono::microseconds(us);
  } else if (name == "binary_data_output") {
    VICINAL_ASSIGN_OR_RETURN(infer->raw, BoolOf(name, value));
  } else if (name == "triton_enable_empty_final_response") {
    VICINAL_ASSIGN_OR_RETURN(infer->tells_final, BoolOf(name, value));
  } else if (name == "incarnation") {
    VICINAL_ASSIGN_OR_RETURN(*out->target.mutable_incarnation(), TextOf(name, value));
  } else {
    VICINAL_ASSIGN_OR_RETURN(const bool known, ReadTarget(name, value, &out->target));
    if (!known) {
      return InvalidArgument(
          "BAD_PARAMETER", "parameters",
          absl::StrCat("the parameter ", Quoted(name),
                       " is unknown; known are top_k, output, priority, timeout, binary_data_output, "
                       "triton_enable_empty_final_response, incarnation, graph_version, feature_set, "
                       "feature_set_version, edge_feature_set, edge_feature_set_version, ids_digest"));
    }
    out->names_target = true;
  }
  return OkStatus();
}

// --- outputs ---

Status BadOutput(std::string_view field, std::string_view message) {
  return InvalidArgument("BAD_OUTPUT", field, message);
}

bool Has(const OpenInfer& infer, OpenOutput output) {
  return std::find(infer.outputs.begin(), infer.outputs.end(), output) != infer.outputs.end();
}

Status ReadOutputs(const ModelInferRequest& request, bool of_nodes, OpenInfer* infer) {
  infer->chosen = !request.outputs().empty();
  if (!infer->chosen) infer->outputs = {OpenOutput::kClasses, OpenOutput::kScores};
  for (int i = 0; i < request.outputs_size(); ++i) {
    const std::string field = absl::StrCat("outputs[", i, "]");
    const auto& wanted = request.outputs(i);
    const auto* const output = std::find_if(std::begin(kOutputs), std::end(kOutputs),
                                            [&](OpenOutput known) { return NameOf(known) == wanted.name(); });
    if (output == std::end(kOutputs) || (*output == OpenOutput::kEmbeddings && !of_nodes)) {
      return BadOutput(field + ".name",
                       absl::StrCat("the model has no output ", Quoted(wanted.name()),
                                    "; its outputs are classes, scores, logits, probabilities",
                                    of_nodes ? ", and alone embeddings (the parameter 'output' says which)" : ""));
    }
    if (!wanted.parameters().empty()) {
      return BadOutput(field + ".parameters",
                       absl::StrCat("the output '", wanted.name(),
                                    "' has parameters; none is known. For the best classes ask for the output "
                                    "'classes' and set the request's parameter 'top_k'"));
    }
    if (Has(*infer, *output))
      return BadOutput(field + ".name", absl::StrCat("the output '", wanted.name(), "' is requested twice"));
    infer->outputs.push_back(*output);
  }
  if (Has(*infer, OpenOutput::kEmbeddings) && infer->outputs.size() > 1)
    return BadOutput("outputs", "the output 'embeddings' must be requested alone: it is another pass over the graph");
  return OkStatus();
}

// --- requests ---

// A logits request of nodes is an embedding: it serves models that predict numbers, too.
bool IsEmbedding(const OpenInfer& infer) {
  return infer.outputs.size() == 1 && (Has(infer, OpenOutput::kEmbeddings) || Has(infer, OpenOutput::kLogits));
}

bool WantsClasses(const OpenInfer& infer) {
  return Has(infer, OpenOutput::kClasses) || Has(infer, OpenOutput::kScores);
}

Status CheckUse(const Parameters& parameters, const OpenInfer& infer) {
  if (parameters.top_k && !WantsClasses(infer))
    return BadParameter("top_k", "the parameter 'top_k' needs the output 'classes' or 'scores'");
  if (!parameters.output.empty() && !Has(infer, OpenOutput::kEmbeddings))
    return BadParameter("output", "the parameter 'output' needs the output 'embeddings'");
  return OkStatus();
}

// Target, nodes, features and priority of Classify or Embed.
template <class Request>
Status FillNodes(const OpenModelName& name, int64_t version, const Parameters& parameters, InferInputs* inputs,
                 Request* request) {
  *request->mutable_target() = parameters.target;
  request->mutable_target()->set_graph(name.graph);
  request->mutable_target()->set_model(name.model);
  request->mutable_target()->set_model_version(version);
  request->mutable_execution()->set_priority(parameters.priority);
  if (const v1::Tensor* const nodes = inputs->Find("nodes")) {
    AppendIds(*nodes, request->mutable_nodes()->mutable_ids());
    if (request->nodes().ids().empty())
      return BadInput("the input 'nodes' is empty; leave it out to ask for all nodes");
  } else {
    request->mutable_nodes()->set_all(true);
  }
  const v1::Tensor* const rows = inputs->Find("x_nodes");
  if (inputs->Find("x") == nullptr) {
    if (rows == nullptr) return OkStatus();
    return BadInput("the input 'x_nodes' needs the input 'x', the features of these nodes");
  }
  if (rows != nullptr) {
    AppendIds(*rows, request->mutable_features()->mutable_rows());
    if (request->features().rows().empty())
      return BadInput("the input 'x_nodes' is empty; leave out both it and 'x' to use the stored features");
  }
  inputs->Move("x", request->mutable_features()->mutable_dense());
  return OkStatus();
}

Status FillGraphs(const OpenModelName& name, int64_t version, const Parameters& parameters, InferInputs* inputs,
                  v1::ClassifyGraphsRequest* request) {
  request->set_model(name.model);
  request->set_model_version(version);
  request->set_incarnation(parameters.target.incarnation());
  request->mutable_execution()->set_priority(parameters.priority);
  v1::GraphBatch* const graphs = request->mutable_graphs();
  const std::pair<const char*, v1::Tensor*> required[] = {{"ptr", graphs->mutable_ptr()},
                                                          {"edge_index", graphs->mutable_edge_index()},
                                                          {"x", graphs->mutable_features()->mutable_dense()}};
  for (const auto& [input, tensor] : required) {
    if (!inputs->Move(input, tensor))
      return BadInput(absl::StrCat("the input '", input, "' is missing; a model of small graphs needs it"));
  }
  if (inputs->Find("edge_weight") != nullptr) inputs->Move("edge_weight", graphs->mutable_edge_weight());
  if (inputs->Find("edge_attr") != nullptr) inputs->Move("edge_attr", graphs->mutable_edge_attr());
  return OkStatus();
}

template <class Request>
void FillWants(const Parameters& parameters, const OpenInfer& infer, Request* request) {
  if (WantsClasses(infer)) request->set_top_k(parameters.top_k.value_or(1));
  request->set_return_logits(Has(infer, OpenOutput::kLogits));
  request->set_return_probabilities(Has(infer, OpenOutput::kProbabilities));
}

}  // namespace

const char* NameOf(OpenOutput output) {
  switch (output) {
    case OpenOutput::kClasses:
      return "classes";
    case OpenOutput::kScores:
      return "scores";
    case OpenOutput::kLogits:
      return "logits";
    case OpenOutput::kProbabilities:
      return "probabilities";
    case OpenOutput::kEmbeddings:
      return "embeddings";
  }
  return "";
}

StatusOr<OpenInfer> DecodeInfer(const OpenModelName& name, const ModelInferRequest& request) {
  const bool of_nodes = !name.graph.empty();
  OpenInfer infer;
  VICINAL_ASSIGN_OR_RETURN(const int64_t version, ParseOpenVersion(request.model_version(), "model_version"));
  Parameters parameters;
  for (const auto& [key, value] : request.parameters())
    VICINAL_RETURN_IF_ERROR(ReadParameter(key, value, &parameters, &infer));
  VICINAL_RETURN_IF_ERROR(ReadOutputs(request, of_nodes, &infer));
  VICINAL_RETURN_IF_ERROR(CheckUse(parameters, infer));
  if (!of_nodes) {
    if (parameters.names_target) {
      return InvalidArgument(
          "BAD_PARAMETER", "parameters",
          "the request names a graph's version, feature set or ids, but the model reads no stored graph");
    }
    VICINAL_ASSIGN_OR_RETURN(InferInputs inputs, InferInputs::OfGraphs(request));
    auto& graphs = infer.request.emplace<v1::ClassifyGraphsRequest>();
    VICINAL_RETURN_IF_ERROR(FillGraphs(name, version, parameters, &inputs, &graphs));
    FillWants(parameters, infer, &graphs);
    if (!infer.chosen && !parameters.top_k) {
      graphs.clear_top_k();
      graphs.set_return_logits(true);
    }
    return infer;
  }
  VICINAL_ASSIGN_OR_RETURN(InferInputs inputs, InferInputs::OfNodes(request));
  if (IsEmbedding(infer)) {
    auto& embed = infer.request.emplace<v1::EmbedRequest>();
    VICINAL_RETURN_IF_ERROR(FillNodes(name, version, parameters, &inputs, &embed));
    embed.set_output(Has(infer, OpenOutput::kLogits) ? "logits" : parameters.output);
    return infer;
  }
  auto& classify = infer.request.emplace<v1::ClassifyRequest>();
  VICINAL_RETURN_IF_ERROR(FillNodes(name, version, parameters, &inputs, &classify));
  FillWants(parameters, infer, &classify);
  return infer;
}

v1::EmbedRequest LogitsInstead(v1::ClassifyRequest* request) {
  v1::EmbedRequest embed;
  embed.mutable_target()->Swap(request->mutable_target());
  embed.mutable_nodes()->Swap(request->mutable_nodes());
  if (request->has_features()) embed.mutable_features()->Swap(request->mutable_features());
  embed.mutable_execution()->Swap(request->mutable_execution());
  embed.set_output("logits");
  return embed;
}

}  // namespace vicinal::server
