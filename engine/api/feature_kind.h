// SPDX-License-Identifier: Apache-2.0
// What the rows of a feature set describe. Each kind has names of its own.
#ifndef VICINAL_ENGINE_API_FEATURE_KIND_H_
#define VICINAL_ENGINE_API_FEATURE_KIND_H_

namespace vicinal {

enum class FeatureKind { kNodes, kEdges };

// As messages and ErrorDetail::resource_type call such a set.
constexpr const char* TypeName(FeatureKind kind) {
  return kind == FeatureKind::kNodes ? "feature set" : "edge feature set";
}

}  // namespace vicinal

#endif  // VICINAL_ENGINE_API_FEATURE_KIND_H_
