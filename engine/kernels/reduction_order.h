// SPDX-License-Identifier: Apache-2.0
// Names and ids of reduction orders: the order in which a kernel adds the terms of a row. Equal ids mean equal bits on
// one kind of processor. Ids are part of numerics revisions, which clients store with answers. Therefore an id depends
// only on the kernel's declaration: kernels may be renamed, moved and registered in another order.
//
// An id is the FNV-1a hash (64 bits) of "operation/name/version" or "operation/name/version/p0,p1,...", folded to
// kReductionOrderBits: the lower 52 bits of h ^ (h >> 52), with bit 52 set. All ids lie in
// [2^52, 2^53): JSON readers and metrics that hold numbers as double keep them exactly, none is 0, and none equals a
// graph's own revision, which is small. docs/adr/0019 says why; a golden test pins the ids.
#ifndef VICINAL_ENGINE_KERNELS_REDUCTION_ORDER_H_
#define VICINAL_ENGINE_KERNELS_REDUCTION_ORDER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace vicinal {

inline constexpr int kReductionOrderBits = 53;

// A kernel's declaration. Kernels of one operation that declare the same name and version give equal bits.
struct DeclaredOrder {
  std::string_view name;  // of the order, not of the kernel; static lifetime: "even_odd_blocks"
  int version = 1;        // raise it if the kernel adds in another order under the same name
  // The order that a device's kernels share: plans that use no other keep the graph's own numerics revision. Raise
  // kReductionOrderRevision (prepared/prepared_graph.h) together with the version of such an order.
  bool standard = false;

  friend bool operator==(const DeclaredOrder&, const DeclaredOrder&) = default;
};

// `parameters`: the numbers of problem and configuration that change the order. Trailing zeros are ignored.
int64_t ReductionOrderId(std::string_view operation, const DeclaredOrder& order,
                         std::span<const int64_t> parameters = {});

// Combines the order of the step at position `place` (from 0) with that of the previous steps, or a graph's revision
// with a plan's order. The result is an id as above: the same hash over the three numbers, 8 bytes each, little-endian.
int64_t MixReductionOrders(int64_t before, int64_t place, int64_t id);

// Why two orders of one operation cannot both be registered; empty: they can. Different orders must have different ids,
// and an order must be declared as standard either everywhere or nowhere.
std::string WhyOrdersConflict(std::string_view operation, const DeclaredOrder& a, const DeclaredOrder& b);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_KERNELS_REDUCTION_ORDER_H_
