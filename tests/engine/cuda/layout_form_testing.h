// SPDX-License-Identifier: Apache-2.0
// Flat forms of layouts in memory, and a graph that every kernel makes a layout of.
#ifndef VICINAL_TESTS_ENGINE_CUDA_LAYOUT_FORM_TESTING_H_
#define VICINAL_TESTS_ENGINE_CUDA_LAYOUT_FORM_TESTING_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/kernels/layout_codec.h"
#include "tests/engine/cuda/host_csr.h"

namespace vicinal::cuda {

// A flat form in memory.
class MemoryInput final : public LayoutInput {
 public:
  explicit MemoryInput(const FlatLayout& flat) : numbers(flat.numbers) {
    for (const LayoutArray& array : flat.arrays) {
      arrays[array.name].assign(static_cast<const char*>(array.data), static_cast<size_t>(array.bytes));
    }
  }
  StatusOr<int64_t> BytesOf(std::string_view array) const override {
    const auto found = arrays.find(std::string(array));
    if (found == arrays.end()) return Bad("an array is missing");
    return static_cast<int64_t>(found->second.size());
  }
  Status Read(std::string_view array, void* to) const override {
    const std::string& bytes = arrays.at(std::string(array));
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    return OkStatus();
  }
  StatusOr<int64_t> Number(std::string_view name) const override {
    const auto found = numbers.find(std::string(name));
    if (found == numbers.end()) return Bad("a number is missing");
    return found->second;
  }
  Status Bad(std::string_view problem) const override { return absl::DataLossError(std::string(problem)); }

  std::map<std::string, std::string> arrays;
  std::map<std::string, int64_t> numbers;
};

// Communities, a hub that many read, rows of every length, empty rows, copies of edges.
inline HostCsr CommunityGraph(int64_t nodes, int64_t hub_edges) {
  std::mt19937 random(5);
  HostCsr graph;
  graph.cols = nodes;
  for (int64_t row = 0; row < nodes; ++row) {
    const int64_t degree = row == 70 ? hub_edges : row % 9 == 0 ? 0 : 30 + row % 40;
    const int64_t first = row / 64 * 64;
    for (int64_t e = 0; e < degree; ++e) {
      const int64_t near = std::min<int64_t>(nodes - 1, first + static_cast<int64_t>(random() % 64));
      graph.col.push_back(static_cast<int32_t>(e % 5 == 0 ? 3 : e % 7 == 0 ? random() % nodes : near));
    }
    std::sort(graph.col.begin() + graph.row_ptr.back(), graph.col.end());
    graph.row_ptr.push_back(static_cast<int64_t>(graph.col.size()));
  }
  return graph;
}

}  // namespace vicinal::cuda

#endif  // VICINAL_TESTS_ENGINE_CUDA_LAYOUT_FORM_TESTING_H_
