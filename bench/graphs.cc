// SPDX-License-Identifier: Apache-2.0
#include "bench/graphs.h"

#include <algorithm>
#include <random>
#include <utility>

namespace vicinal::bench {
namespace {

Csr FromPairs(int64_t rows, int64_t cols, std::vector<std::pair<int32_t, int32_t>> pairs, uint64_t seed) {
  std::sort(pairs.begin(), pairs.end());
  Csr csr;
  csr.rows = rows;
  csr.cols = cols;
  csr.row_ptr.assign(rows + 1, 0);
  for (const auto& [row, col] : pairs) {
    ++csr.row_ptr[row + 1];
    csr.col.push_back(col);
  }
  for (int64_t i = 0; i < rows; ++i) csr.row_ptr[i + 1] += csr.row_ptr[i];
  csr.value = RandomFloats(csr.nnz(), seed + 1);
  return csr;
}

}  // namespace

Csr Uniform(int64_t rows, int64_t cols, int64_t edges, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::pair<int32_t, int32_t>> pairs;
  for (int64_t e = 0; e < edges; ++e) {
    const auto row = static_cast<int32_t>(random() % static_cast<uint64_t>(rows));
    pairs.emplace_back(row, static_cast<int32_t>(random() % static_cast<uint64_t>(cols)));
  }
  return FromPairs(rows, cols, std::move(pairs), seed);
}

Csr RMat(int log2_nodes, int64_t edges, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::pair<int32_t, int32_t>> pairs;
  for (int64_t e = 0; e < edges; ++e) {
    int32_t row = 0, col = 0;
    for (int level = 0; level < log2_nodes; ++level) {
      const uint64_t draw = random() % 100;
      row = 2 * row + (draw >= 76 ? 1 : 0);
      col = 2 * col + ((draw >= 57 && draw < 76) || draw >= 95 ? 1 : 0);
    }
    pairs.emplace_back(row, col);
  }
  const int64_t nodes = int64_t{1} << log2_nodes;
  return FromPairs(nodes, nodes, std::move(pairs), seed);
}

std::vector<float> RandomFloats(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>(static_cast<double>(random() >> 11) * 0x1p-52 - 1.0);
  return values;
}

}  // namespace vicinal::bench
