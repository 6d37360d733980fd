// SPDX-License-Identifier: Apache-2.0
// What tests of receptive fields share: an account of memory to look at, and fields found the simple way, with sets.
#ifndef VICINAL_TESTS_ENGINE_PLAN_FIELD_TESTING_H_
#define VICINAL_TESTS_ENGINE_PLAN_FIELD_TESTING_H_

#include <cstdint>
#include <set>
#include <vector>

#include "engine/base/error.h"
#include "engine/plan/receptive_field/receptive_field.h"

namespace vicinal::testing {

// Grants up to `most` bytes.
class TestAccount final : public MemoryAccount {
 public:
  Status Reserve(int64_t bytes) override {
    if (held + bytes > most) return ResourceExhausted("BUDGET_FULL", "no more", std::chrono::seconds(1));
    held += bytes;
    return OkStatus();
  }
  void Release(int64_t bytes) override { held -= bytes; }

  int64_t held = 0;
  int64_t most = INT64_MAX;
};

// F_0, F_1, ... of `nodes` (rows of the full graph).
inline std::vector<std::set<NodeId>> FieldBySets(const ReceptiveFieldShape& shape, const std::vector<NodeId>& nodes) {
  std::vector<std::set<NodeId>> levels = {{nodes.begin(), nodes.end()}};
  for (size_t depth = 0; depth + 1 < shape.levels.size(); ++depth) {
    std::set<NodeId> next = levels.back();
    for (const NodeId node : levels.back()) {
      for (const ReceptiveFieldShape::Edges& edges : shape.levels[depth].edges) {
        const CsrView& csr = shape.adjacencies[edges.adjacency].csr;
        next.insert(csr.col + csr.row_ptr[node], csr.col + csr.row_ptr[node + 1]);
      }
    }
    levels.push_back(std::move(next));
  }
  return levels;
}

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_PLAN_FIELD_TESTING_H_
