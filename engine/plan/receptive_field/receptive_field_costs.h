// SPDX-License-Identifier: Apache-2.0
// What plans cost over the full graph and over receptive fields, estimated: for the choice between the two, which no
// bit of an answer depends on. On the CPU a step costs its rows and edges, and nothing else counts. On a GPU those are
// cheap, and what every run pays counts: its launches one by one, what it sends, the longest row.
#ifndef VICINAL_ENGINE_PLAN_RECEPTIVE_FIELD_RECEPTIVE_FIELD_COSTS_H_
#define VICINAL_ENGINE_PLAN_RECEPTIVE_FIELD_RECEPTIVE_FIELD_COSTS_H_

#include "engine/device/device.h"
#include "engine/plan/plan.h"
#include "engine/plan/run/launch.h"

namespace vicinal::internal {

// Nanoseconds for a target's row and for an edge: of one core on the CPU, of the time that passes on a GPU.
struct UnitCost {
  double row = 0.0;
  double edge = 0.0;
  double longest_edge = 0.0;  // more for each edge of the longest row, over fields
};

// `entries`: nonzeros of a row of sparse features.
UnitCost UnitCostOf(const Launch& launch, DeviceKind device, double entries);

// The rest, in the same unit.
struct FixedCosts {
  double run = 0.0;        // of a run over a field, beside its steps
  double step = 0.0;       // of each step of it
  double full_step = 0.0;  // of each step of a run over the full graph
  double node = 0.0;       // of bringing a node of a field along, with its features and `vectors` numbers
  double edge = 0.0;       // of bringing an edge along
};
FixedCosts FixedCostsOf(DeviceKind device, const FeatureShape& features, double entries, size_t vectors);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_RECEPTIVE_FIELD_RECEPTIVE_FIELD_COSTS_H_
