// SPDX-License-Identifier: Apache-2.0
// Measures the speed of numberings of a graph with the kernels that tuning may choose: the best order for one kernel is
// not the best for another, and a GPU has kernels that only pay where an order makes dense blocks.
#ifndef VICINAL_ENGINE_PREPARE_MEASURE_TUNED_ORDERS_H_
#define VICINAL_ENGINE_PREPARE_MEASURE_TUNED_ORDERS_H_

#include <cstdint>

#include "engine/base/clock.h"
#include "engine/base/thread_pool.h"
#include "engine/device/device.h"
#include "engine/kernels/registry.h"
#include "engine/prepare/choose_order.h"
#include "engine/tune/first_runs.h"

namespace vicinal {

// Edges of the sample (order_sample.h). A GPU needs many rows to be busy: of 492 edges each, the degree of the graph
// Reddit, these are 17,000, two waves of warps on an H200.
inline constexpr int64_t kTunedMeasuredEdges = int64_t{1} << 23;
// Of the rows that are gathered, at most: 4 million at kMeasuredWidth, 16 million at kMinMeasuredWidth. More than on a
// CPU, as the memory of a GPU is.
inline constexpr int64_t kMaxTunedMeasuredBytes = int64_t{1} << 30;
// Candidates of each order that run, and runs of each after a first that does not count.
inline constexpr int64_t kTunedCandidates = 8;
inline constexpr int kTunedRuns = 5;
// The cache of one multiprocessor, since Volta at most this large together with its shared memory.
inline constexpr int64_t kFirstGpuCacheBytes = int64_t{256} << 10;

// Upper bound of the bytes for measuring a graph of that size, on the device and on the host.
int64_t TunedMeasureBytesBound(int64_t num_nodes, int64_t num_edges);

// The time of an order is that of its fastest candidate. Orders are measured one after the other: runs on a GPU hardly
// scatter, and one order at a time needs memory. `pool` (null: none) is for the host's part. All must outlive the
// result; one thread at a time may call it, because of the context. `first_runs` may be null; quarantined candidates do
// not run. Errors: as MakeOrderMeasurer's.
MeasureOrders MakeTunedOrderMeasurer(const KernelRegistry& registry, DeviceContext& context, const Clock& clock,
                                     ThreadPool* pool, FirstRuns* first_runs = nullptr);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PREPARE_MEASURE_TUNED_ORDERS_H_
