// SPDX-License-Identifier: Apache-2.0
// Names and versions of models in the Open Inference Protocol: "GRAPH/MODEL" is a model of nodes on a stored graph,
// "MODEL" alone one that classifies small graphs that come with the request.
#ifndef VICINAL_SERVER_OPEN_INFERENCE_MODEL_NAMES_H_
#define VICINAL_SERVER_OPEN_INFERENCE_MODEL_NAMES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/api/engine.h"

namespace vicinal::server {

struct OpenModelName {
  std::string graph;  // empty: there is none
  std::string model;
};

// INVALID_ARGUMENT (BAD_NAME), naming `field`.
StatusOr<OpenModelName> ParseOpenModelName(std::string_view name, std::string_view field);
std::string ToString(const OpenModelName& name);

// A version in decimal; empty: 0, the latest. INVALID_ARGUMENT (BAD_VERSION), naming `field`.
StatusOr<int64_t> ParseOpenVersion(std::string_view version, std::string_view field);

// What a name stands for at this moment.
struct OpenModel {
  OpenModelName name;
  ModelResource model;
  std::optional<GraphResource> graph;  // of a model of nodes
};
// NOT_FOUND: no such graph, model or version. FAILED_PRECONDITION (GRAPH_MODEL, NODE_MODEL): the name has a graph and
// must not, or has none and must.
StatusOr<OpenModel> FindOpenModel(const Engine& engine, const OpenModelName& name, int64_t version);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_OPEN_INFERENCE_MODEL_NAMES_H_
