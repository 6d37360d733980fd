// SPDX-License-Identifier: Apache-2.0
// The metadata of feature sets, of nodes and of edges (docs/state.md, "Contents"): written and read by one list of
// members.
#ifndef VICINAL_ENGINE_DURABLE_FEATURES_METADATA_H_
#define VICINAL_ENGINE_DURABLE_FEATURES_METADATA_H_

#include <cstdint>
#include <string>

#include "engine/api/resources.h"
#include "engine/base/status.h"
#include "engine/state/manifest.h"

namespace vicinal::durable {

// The data file of every feature set, without its suffix.
inline constexpr char kFeaturesFile[] = "features";

struct FeaturesMetadata {
  int64_t feature_count = 0;  // at least 1
  int64_t create_time = 0;    // nanoseconds since 1970
  std::string source_digest;
  // Of nodes.
  bool sparse = false;
  int64_t entry_count = 0;
  // Of edges.
  int64_t edge_count = 0;
};

// The members of a set of that kind.
std::string TextOf(const FeaturesMetadata& metadata, FeatureKind kind);
// Of the kind that the manifest's store has. DATA_LOSS (STATE_DAMAGED): a member is missing or out of its range.
StatusOr<FeaturesMetadata> ParseFeaturesMetadata(const state::Manifest& manifest);

}  // namespace vicinal::durable

#endif  // VICINAL_ENGINE_DURABLE_FEATURES_METADATA_H_
