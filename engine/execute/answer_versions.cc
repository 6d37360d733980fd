// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/answer_versions.h"

namespace vicinal {

bool IsCurrent(const AnswerKey& key, const GraphStore& graphs, const ModelStore& models) {
  return graphs.Peek(key.graph.name, key.graph.version, key.feature_set, key.feature_set_version).ok() &&
         models.Find(key.model.name, key.model.version).ok();
}

std::optional<AnswerKey> KeyOnceServing(const AnswerKey& names, const AnswerVersions& versions,
                                        const GraphStore& graphs, const ModelStore& models,
                                        const std::string& incarnation) {
  const StatusOr<GraphHandle> handle = graphs.Peek(names.graph.name, 0, names.feature_set, 0);
  const StatusOr<ModelHandle> model = models.Find(names.model.name, 0);
  if (!handle.ok() || !model.ok() || handle->graph != versions.graph.lock() ||
      handle->features->matrix != versions.features.lock() || (*model)->model != versions.model.lock()) {
    return std::nullopt;
  }
  AnswerKey key = names;
  key.incarnation = incarnation;
  key.graph.version = handle->graph->parts().version;
  key.feature_set_version = handle->features->version;
  key.model.version = (*model)->version;
  return key;
}

}  // namespace vicinal
