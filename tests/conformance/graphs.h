// SPDX-License-Identifier: Apache-2.0
// Small graphs that are awkward in one way each, and a few larger ones with hubs.
#ifndef VICINAL_TESTS_CONFORMANCE_GRAPHS_H_
#define VICINAL_TESTS_CONFORMANCE_GRAPHS_H_

#include <cstdint>
#include <vector>

#include "tests/conformance/machine.h"

namespace vicinal::conformance {

// `brief`: what everything takes longest for has fewer edges, the hub 12,000 in place of 100,000, the skewed graph a
// third.
std::vector<HostGraph> GraphZoo(bool brief);
bool HasHub(const HostGraph& graph);
// `rows` rows of the given numbers of edges to random sources, duplicates and loops included.
HostGraph RandomGraph(const std::string& name, int64_t cols, const std::vector<int64_t>& degrees, uint64_t seed);
// The rows `rows` of `graph` as a graph of their own, over the same sources.
HostGraph RowsOf(const HostGraph& graph, const std::vector<int64_t>& rows);

}  // namespace vicinal::conformance

#endif  // VICINAL_TESTS_CONFORMANCE_GRAPHS_H_
