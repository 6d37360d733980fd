// SPDX-License-Identifier: Apache-2.0
// What is pinned of the registered kernels: their reduction orders, whose ids clients and stored answers keep,
// and the ranges of their parameters.
#ifndef VICINAL_TESTS_ENGINE_KERNELS_KERNEL_FACTS_H_
#define VICINAL_TESTS_ENGINE_KERNELS_KERNEL_FACTS_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/kernels/registry.h"
#include "tests/engine/kernels/edge_values.h"

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

// Of `device`: where the values that tuning takes by itself, on problems of several sizes, are no values that a client
// may force, and kernels with more or fewer ranges than parameters.
inline std::vector<std::string> ValuesOutOfRange(const KernelRegistry& registry, DeviceKind device) {
  std::vector<std::string> wrong;
  const auto look = [&](const auto& kernel, const auto& problem) {
    const std::vector<std::string_view> names = kernel.ParameterNames();
    const std::vector<ParameterRange> ranges = kernel.ParameterRanges();
    if (ranges.size() != names.size()) wrong.push_back(absl::StrCat(std::string(kernel.name()), " has other ranges"));
    if (ranges.size() != names.size() || !kernel.WhyUnsupported(problem).empty()) return;
    const auto check = [&](size_t p, int32_t value) {
      if (!ranges[p].Allows(value))
        wrong.push_back(absl::StrCat(std::string(kernel.name()), " ", std::string(names[p]), "=", value));
    };
    for (const KernelConfig& config : kernel.Candidates(problem))
      for (size_t p = 0; p < names.size(); ++p) check(p, config.values[p]);
    const std::vector<std::vector<int32_t>> space = kernel.SearchSpace(problem);
    for (size_t p = 0; p < space.size(); ++p)
      for (const int32_t value : space[p]) check(p, value);
  };
  const auto look_at_all = [&](const auto& operation, const auto& problem) {
    for (const auto& entry : operation.kernels())
      if (entry->kernel().device() == device) look(entry->kernel(), problem);
  };
  EdgeProgram product;
  product.sources = product.targets = 1;
  product.values = {ValueOf(EdgeOp::kSource, 64, -1, -1, 0), ValueOf(EdgeOp::kTarget, 64, -1, -1, 0),
                    ValueOf(EdgeOp::kMultiply, 64, 0, 1)};
  product.results = {{EdgeReduce::kSum, 2, -1}};
  const auto code = CompileEdgeProgram(product, 0);
  for (const int64_t rows : {10, 20'000, 4'000'000}) {
    for (const int64_t width : {1, 64, 512}) {
      AggregateProblem sum;
      sum.rows = sum.cols = rows;
      sum.edges = 20 * rows;
      sum.width = width;
      look_at_all(registry.aggregate, sum);
      MessageReduceProblem messages;
      messages.rows = messages.cols = rows;
      messages.edges = 20 * rows;
      messages.width = width;
      look_at_all(registry.message_reduce, messages);
      look_at_all(registry.attention, AttentionProblem{AttentionKind::kGat, rows, rows, 20 * rows, 2, width, true});
      EdgeScoresProblem scores;
      scores.rows = scores.cols = rows;
      scores.edges = 20 * rows;
      scores.width = width;
      look_at_all(registry.edge_scores, scores);
    }
    look_at_all(registry.expression, ExpressionProblem{code, rows, rows, 20 * rows});
  }
  return wrong;
}

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_KERNELS_KERNEL_FACTS_H_
