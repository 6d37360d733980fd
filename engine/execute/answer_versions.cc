// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/answer_versions.h"

namespace vicinal {

bool IsCurrent(const AnswerKey& key, const GraphStore& graphs, const ModelStore& models) {
  const StatusOr<GraphHandle> handle =
      graphs.Peek(key.graph.name, key.graph.version, key.feature_set, key.feature_set_version,
                  {key.edge_feature_set, key.edge_feature_set_version});
  return handle.ok() && (key.edge_feature_set.empty() || handle->edges.ok()) &&
         models.Find(key.model.name, key.model.version).ok();
}

std::optional<AnswerKey> KeyOnceServing(const AnswerKey& names, const AnswerVersions& versions,
                                        const GraphStore& graphs, const ModelStore& models,
                                        const std::string& incarnation) {
  const StatusOr<GraphHandle> handle =
      graphs.Peek(names.graph.name, 0, names.feature_set, 0, {names.edge_feature_set, 0});
  const StatusOr<ModelHandle> model = models.Find(names.model.name, 0);
  if (!handle.ok() || !model.ok() || handle->graph != versions.graph.lock() ||
      handle->features->matrix != versions.features.lock() || (*model)->model != versions.model.lock()) {
    return std::nullopt;
  }
  AnswerKey key = names;
  if (versions.edges) {
    if (!handle->edges.ok() || *handle->edges == nullptr || (*handle->edges)->edges != versions.edges->lock())
      return std::nullopt;
    key.edge_feature_set_version = (*handle->edges)->version;
  }
  key.incarnation = incarnation;
  key.graph.version = handle->graph->parts().version;
  key.feature_set_version = handle->features->version;
  key.model.version = (*model)->version;
  return key;
}

}  // namespace vicinal
