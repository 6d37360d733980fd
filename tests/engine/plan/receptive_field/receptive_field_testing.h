// SPDX-License-Identifier: Apache-2.0
// What tests of receptive fields share: an account of memory to look at, and fields found the simple way, with sets.
#ifndef VICINAL_TESTS_ENGINE_PLAN_RECEPTIVE_FIELD_RECEPTIVE_FIELD_TESTING_H_
#define VICINAL_TESTS_ENGINE_PLAN_RECEPTIVE_FIELD_RECEPTIVE_FIELD_TESTING_H_

#include <cstdint>
#include <set>
#include <vector>

#include "engine/base/error.h"
#include "engine/plan/receptive_field/receptive_field.h"

namespace vicinal::testing {

// A budget whose limit a test can change, with the purpose to reserve from it.
class TestAccount {
 public:
  MemoryPurpose purpose() { return {&budget_, Account::kReceptiveFields, "a test"}; }
  int64_t held() const { return budget_.Snapshot().receptive_fields; }
  // From now on at most `bytes` may be held. REQUIRES: held() <= bytes.
  void Allow(int64_t bytes) {
    others_.Release();
    others_ = budget_.Reserve(Account::kUploads, kAll - bytes, "others").value();
  }

 private:
  static constexpr int64_t kAll = int64_t{1} << 40;
  MemoryBudget budget_{kAll};
  Reservation others_;
};

// F_0, F_1, ... of `nodes` (rows of the full graph).
inline std::vector<std::set<NodeId>> ReceptiveFieldBySets(const ReceptiveFieldShape& shape,
                                                          const std::vector<NodeId>& nodes) {
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

#endif  // VICINAL_TESTS_ENGINE_PLAN_RECEPTIVE_FIELD_RECEPTIVE_FIELD_TESTING_H_
