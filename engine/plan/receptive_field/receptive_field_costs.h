// SPDX-License-Identifier: Apache-2.0
// Estimates the cost of a plan over the full graph and over receptive fields, to choose between the two. The choice
// changes no bits. On the CPU only a step's rows and edges count. On a GPU these are cheap, and fixed costs count:
// separate launches, transfers, the longest row.
#ifndef VICINAL_ENGINE_PLAN_RECEPTIVE_FIELD_RECEPTIVE_FIELD_COSTS_H_
#define VICINAL_ENGINE_PLAN_RECEPTIVE_FIELD_RECEPTIVE_FIELD_COSTS_H_

#include "engine/device/device.h"
#include "engine/plan/plan.h"
#include "engine/plan/run/launch.h"

namespace vicinal::internal {

// Nanoseconds for a target's row and for an edge: of one core on the CPU, of elapsed time on a GPU.
struct UnitCost {
  double row = 0.0;
  double edge = 0.0;
  double longest_edge = 0.0;  // additional, per edge of the longest row, over fields
};

// `entries`: nonzeros of a row of sparse features.
UnitCost UnitCostOf(const Launch& launch, DeviceKind device, double entries);

// Fixed costs and transfers, in the same unit.
struct FixedCosts {
  double run = 0.0;        // of a run over a field, besides its steps
  double step = 0.0;       // of each step of it
  double full_step = 0.0;  // of each step of a run over the full graph
  double node = 0.0;       // of gathering a node's features and `vectors` numbers
  double edge = 0.0;       // of sending an edge
};
FixedCosts FixedCostsOf(DeviceKind device, const FeatureShape& features, double entries, size_t vectors);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_RECEPTIVE_FIELD_RECEPTIVE_FIELD_COSTS_H_
