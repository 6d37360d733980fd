// SPDX-License-Identifier: Apache-2.0
// Reads the safetensors file that comes with a model's reference: expected answers, and the graph if it is in line
// (proto ModelReference).
#ifndef VICINAL_ENGINE_EXECUTE_MODEL_REFERENCE_H_
#define VICINAL_ENGINE_EXECUTE_MODEL_REFERENCE_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/api/links.h"
#include "engine/model/model.h"
#include "engine/model/safetensors.h"
#include "engine/prepare/inline_graph.h"

namespace vicinal {

struct ReferenceAnswers {
  std::vector<float> values;  // [rows, classes]
  int64_t rows = 0;
  int64_t classes = 0;
  std::optional<std::vector<int64_t>> nodes;  // nullopt: all
};

// `logits` (or `graph_logits` for models of graphs) [n, C] and optionally `nodes` [n]. INVALID_ARGUMENT (BAD_REFERENCE,
// ...).
StatusOr<ReferenceAnswers> ReadReferenceAnswers(const Safetensors& file, const Model& model);

struct ReferenceLinks {
  LinkPairs pairs;
  std::vector<float> scores;  // one per pair
};

// `link_index` [2, n], `link_scores` [n] and optionally `link_relations` [n]; nullopt without `link_scores`.
// INVALID_ARGUMENT (BAD_REFERENCE, ...), also where the model has no decoder.
StatusOr<std::optional<ReferenceLinks>> ReadReferenceLinks(const Safetensors& file, const Model& model);

// `edge_index`, `x`, optionally `edge_weight` and `edge_attr`, and `ptr` for a model of graphs. Codes as
// InlineGraphMaker's.
StatusOr<InlineGraph> ReadInlineGraph(const Safetensors& file, const Model& model, const InlineGraphMaker& maker,
                                      const Clock& clock);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_MODEL_REFERENCE_H_
