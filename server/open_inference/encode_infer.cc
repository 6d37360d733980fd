// SPDX-License-Identifier: Apache-2.0
#include "server/open_inference/encode_infer.h"

#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace vicinal::server {
namespace {

template <class Reply>
v1::Tensor* TensorOf(OpenOutput output, Reply* reply) {
  if constexpr (std::is_same_v<Reply, v1::EmbedResponse>) {
    return reply->mutable_embeddings();
  } else {
    switch (output) {
      case OpenOutput::kClasses:
        return reply->mutable_classes();
      case OpenOutput::kScores:
        return reply->mutable_scores();
      case OpenOutput::kProbabilities:
        return reply->mutable_probabilities();
      default:
        return reply->mutable_logits();
    }
  }
}

template <class T>
void CopyElements(const std::string& bytes, google::protobuf::RepeatedField<T>* elements) {
  elements->Resize(static_cast<int>(bytes.size() / sizeof(T)), T{});
  if (!bytes.empty()) std::memcpy(elements->mutable_data(), bytes.data(), bytes.size());
}

// The outputs that were asked for; of a request that names none, those that there are.
template <class Reply>
std::vector<OpenOutput> OutputsOf(const OpenInfer& infer, const Reply& reply) {
  if (infer.chosen) return infer.outputs;
  if constexpr (std::is_same_v<Reply, v1::EmbedResponse>) {
    return {OpenOutput::kLogits};
  } else {
    return reply.has_classes() ? infer.outputs : std::vector{OpenOutput::kLogits};
  }
}

void SetNumber(const char* name, int64_t value, inference::ModelInferResponse* response) {
  (*response->mutable_parameters())[name].set_int64_param(value);
}

void SetServedBy(const v1::ServedBy& served_by, inference::ModelInferResponse* response) {
  response->set_model_version(std::to_string(served_by.model_version()));
  SetNumber("numerics_revision", served_by.numerics_revision(), response);
  (*response->mutable_parameters())["incarnation"].set_string_param(served_by.incarnation());
  if (served_by.graph().empty()) return;
  SetNumber("graph_version", served_by.graph_version(), response);
  if (!served_by.edge_feature_set().empty()) {
    (*response->mutable_parameters())["edge_feature_set"].set_string_param(served_by.edge_feature_set());
    SetNumber("edge_feature_set_version", served_by.edge_feature_set_version(), response);
  }
  if (served_by.feature_set().empty()) return;
  (*response->mutable_parameters())["feature_set"].set_string_param(served_by.feature_set());
  SetNumber("feature_set_version", served_by.feature_set_version(), response);
}

}  // namespace

template <class Reply>
void EncodeInfer(const inference::ModelInferRequest& request, const OpenInfer& infer, Reply* reply,
                 inference::ModelInferResponse* response) {
  response->set_model_name(request.model_name());
  response->set_id(request.id());
  SetServedBy(reply->served_by(), response);
  if (infer.tells_final) (*response->mutable_parameters())["triton_final_response"].set_bool_param(true);
  for (const OpenOutput output : OutputsOf(infer, *reply)) {
    v1::Tensor* const tensor = TensorOf(output, reply);
    auto* const encoded = response->add_outputs();
    encoded->set_name(NameOf(output));
    *encoded->mutable_shape() = tensor->shape();
    const bool integers = tensor->dtype() == v1::DATA_TYPE_INT32;
    encoded->set_datatype(integers ? "INT32" : "FP32");
    if (infer.raw) {
      response->add_raw_output_contents()->swap(*tensor->mutable_data());
      continue;
    }
    if (integers) {
      CopyElements(tensor->data(), encoded->mutable_contents()->mutable_int_contents());
    } else {
      CopyElements(tensor->data(), encoded->mutable_contents()->mutable_fp32_contents());
    }
    tensor->clear_data();
  }
}
template void EncodeInfer(const inference::ModelInferRequest&, const OpenInfer&, v1::ClassifyResponse*,
                          inference::ModelInferResponse*);
template void EncodeInfer(const inference::ModelInferRequest&, const OpenInfer&, v1::EmbedResponse*,
                          inference::ModelInferResponse*);
template void EncodeInfer(const inference::ModelInferRequest&, const OpenInfer&, v1::ClassifyGraphsResponse*,
                          inference::ModelInferResponse*);

}  // namespace vicinal::server
