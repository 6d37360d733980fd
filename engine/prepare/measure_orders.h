// SPDX-License-Identifier: Apache-2.0
// Measures what numberings of a graph are worth, with the kernels that will serve it.
#ifndef VICINAL_ENGINE_PREPARE_MEASURE_ORDERS_H_
#define VICINAL_ENGINE_PREPARE_MEASURE_ORDERS_H_

#include "engine/base/clock.h"
#include "engine/device/device.h"
#include "engine/kernels/registry.h"
#include "engine/prepare/choose_order.h"

namespace vicinal {

// Of what is measured: at most this many edges, as kMeasuredBlocks blocks of consecutive rows of the numbering, evenly
// spaced, so that what consecutive rows share shows; and so many bytes of rows at most, by halving the width down to
// kMinMeasuredWidth (beyond that it is refused).
inline constexpr int64_t kMeasuredEdges = int64_t{1} << 20;
inline constexpr int64_t kMeasuredBlocks = 8;
inline constexpr int64_t kMaxMeasuredBytes = int64_t{256} << 20;
inline constexpr int64_t kMinMeasuredWidth = 16;
// Rounds, each with one run of every order, after one that does not count: at least, and at most as long as the budget
// lasts.
inline constexpr int kMinRounds = 3;
inline constexpr int kMaxRounds = 15;
inline constexpr double kMeasureBudgetSeconds = 0.2;

// Bytes on the device that measuring a graph of that size takes at most.
int64_t MeasureBytesBound(int64_t num_nodes, int64_t num_edges);

// A MeasureOrders that runs the registry's first aggregate kernel of the context's device. All three must outlive it;
// one thread at a time may call it, as the context asks. FAILED_PRECONDITION, reason NOT_MEASURED: the rows are too
// many; other errors are the device's and the kernel's.
MeasureOrders MakeOrderMeasurer(const KernelRegistry& registry, DeviceContext& context, const Clock& clock);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PREPARE_MEASURE_ORDERS_H_
