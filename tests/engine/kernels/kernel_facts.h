// SPDX-License-Identifier: Apache-2.0
// What is pinned of the registered kernels: their reduction orders, whose ids clients and stored answers keep.
#ifndef VICINAL_TESTS_ENGINE_KERNELS_KERNEL_FACTS_H_
#define VICINAL_TESTS_ENGINE_KERNELS_KERNEL_FACTS_H_

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/kernels/registry.h"

namespace vicinal::testing {

// "aggregate even_odd_blocks 1 standard 4503599627370496": operation, order, version, whether standard, and the id
// without parameters. One per declared order of `device`, sorted; names of kernels are no part of it.
inline std::vector<std::string> DeclaredOrders(const KernelRegistry& registry, DeviceKind device) {
  std::vector<std::string> orders;
  registry.ForEachOperation([&](const auto& operation) {
    for (const auto& entry : operation.kernels()) {
      if (entry->kernel().device() != device) continue;
      const DeclaredOrder order = entry->kernel().declared_order();
      orders.push_back(absl::StrCat(std::string(operation.operation()), " ", std::string(order.name), " ",
                                    order.version, order.standard ? " standard " : " own ",
                                    ReductionOrderId(operation.operation(), order)));
    }
  });
  std::sort(orders.begin(), orders.end());
  orders.erase(std::unique(orders.begin(), orders.end()), orders.end());
  return orders;
}

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_KERNELS_KERNEL_FACTS_H_
