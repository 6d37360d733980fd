// SPDX-License-Identifier: Apache-2.0
// Feature sets of edges as versions of the state directory: what graph_codec.h does for feature sets calls these.
#ifndef VICINAL_ENGINE_DURABLE_EDGE_FEATURES_CODEC_H_
#define VICINAL_ENGINE_DURABLE_EDGE_FEATURES_CODEC_H_

#include <cstdint>

#include "engine/durable/graph_codec.h"

namespace vicinal::durable {

// Publishes; as WriteFeatures.
Status WriteEdgeFeatures(const FeatureSet& set, state::VersionWriter& writer, const IsUnwanted& is_unwanted);
// As FeatureBytesBound.
StatusOr<int64_t> EdgeFeatureBytesBound(const state::Manifest& manifest, const GraphSize& graph, const Device& device);

}  // namespace vicinal::durable

#endif  // VICINAL_ENGINE_DURABLE_EDGE_FEATURES_CODEC_H_
