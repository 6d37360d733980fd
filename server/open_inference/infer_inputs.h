// SPDX-License-Identifier: Apache-2.0
// The input tensors of a ModelInfer message, raw or typed: names, types, shapes and sizes are checked here, once for
// both forms, before anything is copied.
#ifndef VICINAL_SERVER_OPEN_INFERENCE_INFER_INPUTS_H_
#define VICINAL_SERVER_OPEN_INFERENCE_INFER_INPUTS_H_

#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "inference/grpc_inference.pb.h"
#include "vicinal/v1/tensor.pb.h"

namespace vicinal::server {

// Owns copies of the tensors.
class InferInputs {
 public:
  // Of a model of nodes: nodes, x, x_nodes. Of a model of graphs: ptr, edge_index, x, edge_weight, edge_attr. All may
  // be absent. INVALID_ARGUMENT (BAD_INPUT) with the field.
  static StatusOr<InferInputs> OfNodes(const inference::ModelInferRequest& request);
  static StatusOr<InferInputs> OfGraphs(const inference::ModelInferRequest& request);

  // Null: there is none.
  v1::Tensor* Find(std::string_view name);
  // Moves the input into `tensor`. False: there is none.
  bool Move(std::string_view name, v1::Tensor* tensor);

 private:
  using Tensors = std::vector<std::pair<std::string_view, v1::Tensor>>;  // names are constants
  explicit InferInputs(Tensors tensors) : tensors_(std::move(tensors)) {}

  Tensors tensors_;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_OPEN_INFERENCE_INFER_INPUTS_H_
