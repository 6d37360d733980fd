// SPDX-License-Identifier: Apache-2.0
// Graphs and models made from seeds, and their exact answers. All numbers are small integers, so every sum is exact in
// float32 and the answer has the same bits in whatever order a kernel adds.
#ifndef VICINAL_TESTS_INTEGRATION_KILL_LOOP_WORLD_H_
#define VICINAL_TESTS_INTEGRATION_KILL_LOOP_WORLD_H_

#include <cstdint>
#include <string>
#include <vector>

namespace vicinal::testing {

struct SeededGraph {
  int64_t nodes = 0;
  std::vector<int64_t> sources, targets;
  std::vector<float> x;  // [nodes, kFeatures]
};
struct SeededModel {
  std::vector<float> rel, root;  // [kClasses, kFeatures]
};

inline constexpr int64_t kFeatures = 8, kClasses = 4, kAskedNodes = 16;

SeededGraph MakeGraph(int64_t seed);
SeededModel MakeModel(int64_t seed);
std::vector<float> MakeFeatures(int64_t seed, int64_t nodes);  // [nodes, kFeatures]
std::string Architecture();                                    // one GraphConv that sums
std::string WeightsOf(const SeededModel& model);               // a safetensors file

// The nodes that are asked for: the same for all graphs, whatever their seed.
std::vector<int64_t> AskedNodes();
// Logits [kAskedNodes, kClasses] of the asked nodes.
std::vector<float> Answer(const SeededGraph& graph, const SeededModel& model);

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_INTEGRATION_KILL_LOOP_WORLD_H_
