// SPDX-License-Identifier: Apache-2.0
// The adjacency of the layers that propagate over D^-1/2 A D^-1/2: GCNConv, SGConv, APPNP, LGConv and others.
#ifndef VICINAL_ENGINE_MODEL_LAYERS_GCN_ADJACENCY_H_
#define VICINAL_ENGINE_MODEL_LAYERS_GCN_ADJACENCY_H_

#include "engine/base/vocabulary.h"

namespace vicinal::internal {

struct GcnOptions {
  bool normalize = true;
  bool add_self_loops = true;
  bool improved = false;
  bool edge_weight = false;
};

// Without edge weights, PyTorch Geometric gives every loop the weight 1, even with `improved`.
inline AdjacencySpec GcnAdjacency(const GcnOptions& options) {
  AdjacencySpec spec;
  if (options.add_self_loops) spec.loops = SelfLoops::kAddRemaining;
  if (options.add_self_loops && options.improved && options.edge_weight) spec.loop_weight = 2.0f;
  if (options.normalize) {
    spec.weighting = options.edge_weight ? EdgeWeighting::kGcnSent : EdgeWeighting::kGcnOnes;
  } else {
    spec.weighting = options.edge_weight ? EdgeWeighting::kSent : EdgeWeighting::kNone;
  }
  return spec;
}

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_LAYERS_GCN_ADJACENCY_H_
