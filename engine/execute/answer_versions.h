// SPDX-License-Identifier: Apache-2.0
// Whether the versions that answers were computed from serve: what AnswerCache asks the stores.
#ifndef VICINAL_ENGINE_EXECUTE_ANSWER_VERSIONS_H_
#define VICINAL_ENGINE_EXECUTE_ANSWER_VERSIONS_H_

#include <optional>
#include <string>

#include "engine/execute/answer_cache.h"
#include "engine/store/graph_store.h"
#include "engine/store/model_store.h"

namespace vicinal {

// As AnswerCache::Options::is_current.
bool IsCurrent(const AnswerKey& key, const GraphStore& graphs, const ModelStore& models);

// As AnswerCache::Options::key_once_serving; `incarnation` is the engine's.
std::optional<AnswerKey> KeyOnceServing(const AnswerKey& names, const AnswerVersions& versions,
                                        const GraphStore& graphs, const ModelStore& models,
                                        const std::string& incarnation);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_ANSWER_VERSIONS_H_
