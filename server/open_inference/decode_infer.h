// SPDX-License-Identifier: Apache-2.0
// Decodes ModelInfer's message into the request of vicinal.v1 that means the same, so that both are answered by one
// handler. Pure functions; docs/open_inference.md lists inputs, outputs and parameters.
#ifndef VICINAL_SERVER_OPEN_INFERENCE_DECODE_INFER_H_
#define VICINAL_SERVER_OPEN_INFERENCE_DECODE_INFER_H_

#include <chrono>
#include <optional>
#include <variant>
#include <vector>

#include "engine/base/status.h"
#include "inference/grpc_inference.pb.h"
#include "server/open_inference/model_names.h"
#include "vicinal/v1/inference.pb.h"

namespace vicinal::server {

enum class OpenOutput { kClasses, kScores, kLogits, kProbabilities, kEmbeddings };
const char* NameOf(OpenOutput output);

struct OpenInfer {
  // Classify and Embed: of a model of nodes; ClassifyGraphs: of a model of graphs.
  std::variant<v1::ClassifyRequest, v1::EmbedRequest, v1::ClassifyGraphsRequest> request;
  std::vector<OpenOutput> outputs;  // in the order of the reply
  bool chosen = false;              // the request names the outputs; else a regression's are its logits
  bool raw = true;                  // the reply has raw_output_contents, not contents
  bool tells_final = false;         // the reply says that no other one follows
  std::optional<std::chrono::microseconds> timeout;
};

// Errors are INVALID_ARGUMENT with the field. Copies the tensors; what the engine can check (ids, widths, values) is
// left to it. A request for graphs that names no outputs asks for logits, too, since the model may be a regression.
StatusOr<OpenInfer> DecodeInfer(const OpenModelName& name, const inference::ModelInferRequest& request);
// The same request for the logits of nodes: for a model that turned out to predict numbers. Moves the tensors.
v1::EmbedRequest LogitsInstead(v1::ClassifyRequest* request);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_OPEN_INFERENCE_DECODE_INFER_H_
