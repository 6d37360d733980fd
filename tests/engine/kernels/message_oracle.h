// SPDX-License-Identifier: Apache-2.0
// The oracle of edge-wise work: messages, edge layers, their reduction, and scores, in double precision over edge
// lists. Values come with magnitudes, as in oracle.h.
#ifndef VICINAL_TESTS_ENGINE_KERNELS_MESSAGE_ORACLE_H_
#define VICINAL_TESTS_ENGINE_KERNELS_MESSAGE_ORACLE_H_

#include <cstdint>
#include <vector>

#include "engine/kernels/operations.h"
#include "tests/engine/kernels/oracle.h"
#include "tests/engine/kernels/zoo.h"

namespace vicinal::testing {

struct OracleLayer {
  const TestMatrix* weight;        // [out, in]
  const std::vector<float>* bias;  // or null
  Activation activation;
};

// What becomes of an edge: message, weight, activation, layers.
struct OracleMessage {
  Message message = Message::kSource;
  bool weighted = false;
  Activation activation;
  std::vector<OracleLayer> layers;
};

// One row per edge of the list.
Expected OracleMessages(const TestGraph& graph, const OracleMessage& what, const TestMatrix& src,
                        const TestMatrix& target);
// `messages` [edges, width] reduced by target; targets without edges: 0.
Expected OracleReduce(const TestGraph& graph, Reduce reduce, const Expected& messages);
// Dot products of u and v, head by head, one row per edge of the list.
Expected OracleDots(const TestGraph& graph, int64_t heads, const TestMatrix& src, const TestMatrix& target);

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_KERNELS_MESSAGE_ORACLE_H_
