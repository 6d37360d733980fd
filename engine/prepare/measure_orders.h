// SPDX-License-Identifier: Apache-2.0
// Measures the speed of numberings of a graph, with the kernels that will serve it.
#ifndef VICINAL_ENGINE_PREPARE_MEASURE_ORDERS_H_
#define VICINAL_ENGINE_PREPARE_MEASURE_ORDERS_H_

#include "engine/base/clock.h"
#include "engine/device/device.h"
#include "engine/kernels/registry.h"
#include "engine/prepare/choose_order.h"
#include "engine/tune/first_runs.h"

namespace vicinal {

// Limits of the sample: at most this many edges, as kMeasuredBlocks evenly spaced blocks of consecutive rows of the
// numbering, which preserve the locality of consecutive rows; and at most so many bytes of rows, by halving the width
// down to kMinMeasuredWidth (otherwise an error).
inline constexpr int64_t kMeasuredEdges = int64_t{1} << 20;
inline constexpr int64_t kMaxMeasuredBytes = int64_t{256} << 20;
inline constexpr int64_t kMinMeasuredWidth = 16;
// Minimum number of rounds, each with one run per order, after a warm-up round; further rounds while the budget lasts.
inline constexpr int kMinRounds = 3;
inline constexpr int kMaxRounds = 15;
inline constexpr double kMeasureBudgetSeconds = 0.2;

// The width at which a graph of so many nodes is measured, its rows in `max_bytes`; less than kMinMeasuredWidth: it
// cannot be.
int64_t WidthToMeasure(int64_t num_nodes, int64_t max_bytes = kMaxMeasuredBytes);
// FAILED_PRECONDITION (NOT_MEASURED): too many rows.
Status CheckMeasurable(int64_t num_nodes, int64_t max_bytes = kMaxMeasuredBytes);

// Upper bound of the device bytes for measuring a graph of that size.
int64_t MeasureBytesBound(int64_t num_nodes, int64_t num_edges);

// A MeasureOrders that runs the registry's first aggregate kernel of the context's device. All must outlive it; one
// thread at a time may call it, because of the context. `first_runs` may be null: nobody wants to know. FAILED_
// PRECONDITION: too many rows (NOT_MEASURED), or the kernel is quarantined (KERNEL_QUARANTINED). Other errors of the
// device and the kernel.
MeasureOrders MakeOrderMeasurer(const KernelRegistry& registry, DeviceContext& context, const Clock& clock,
                                FirstRuns* first_runs = nullptr);

// How `auto` chooses for the context's device: on the CPU by its caches and this measurer; on a GPU by the times of the
// kernels that tuning may choose (measure_tuned_orders.h). `pool` is for work on the host. All must outlive the result.
// `first_runs` may be null.
ChooseOptions ChooseOptionsFor(const KernelRegistry& registry, DeviceContext& context, const Clock& clock,
                               ThreadPool* pool, FirstRuns* first_runs = nullptr);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PREPARE_MEASURE_ORDERS_H_
