// SPDX-License-Identifier: Apache-2.0
// What tests of graphs share: graphs by hand and at random (loops, duplicates and isolated nodes on purpose), tensors
// as a client would send them, and what is expected where they are refused.
#ifndef VICINAL_TESTS_ENGINE_GRAPH_GRAPH_TESTING_H_
#define VICINAL_TESTS_ENGINE_GRAPH_GRAPH_TESTING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/status.h"
#include "engine/base/tensor.h"
#include "engine/graph/edge_list.h"

namespace vicinal::testing {

inline EdgeList MakeEdges(int64_t num_nodes, const std::vector<std::pair<int, int>>& edges,
                          std::vector<float> weights = {}) {
  EdgeList list;
  list.num_nodes = num_nodes;
  for (const auto& [source, target] : edges) {
    list.source.push_back(source);
    list.target.push_back(target);
  }
  list.weight = std::move(weights);
  return list;
}

// Small, with many duplicates and loops; about a quarter of the nodes has no edge. Weights in (0, 2), all different.
inline EdgeList RandomEdges(uint32_t seed, bool weighted) {
  std::mt19937 random(seed);
  EdgeList list;
  list.num_nodes = 1 + random() % 12;
  const int64_t connected = 1 + list.num_nodes * 3 / 4;
  const int64_t num_edges = random() % (3 * list.num_nodes);
  for (int64_t e = 0; e < num_edges; ++e) {
    list.source.push_back(static_cast<NodeId>(random() % connected % list.num_nodes));
    const bool loop = random() % 5 == 0;
    list.target.push_back(loop ? list.source.back() : static_cast<NodeId>(random() % connected % list.num_nodes));
    if (weighted) list.weight.push_back(static_cast<float>(1 + e) * 2.0f / static_cast<float>(num_edges + 1));
  }
  return list;
}

inline std::vector<NodeId> RandomPermutation(int64_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<NodeId> result(size);
  for (int64_t i = 0; i < size; ++i) result[i] = static_cast<NodeId>(i);
  for (int64_t i = size - 1; i > 0; --i) std::swap(result[i], result[random() % (i + 1)]);
  return result;
}

template <class T>
std::string Bytes(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

inline HostTensor Int64Tensor(std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  return {DataType::kInt64, std::move(shape), Bytes(values)};
}
inline HostTensor Int32Tensor(std::vector<int64_t> shape, const std::vector<int32_t>& values) {
  return {DataType::kInt32, std::move(shape), Bytes(values)};
}
inline HostTensor FloatTensor(std::vector<int64_t> shape, const std::vector<float>& values) {
  return {DataType::kFloat32, std::move(shape), Bytes(values)};
}

// edge_index of `edges`, int32.
inline HostTensor EdgeTensor(const EdgeList& edges) {
  std::vector<int32_t> ids = edges.source;
  ids.insert(ids.end(), edges.target.begin(), edges.target.end());
  return Int32Tensor({2, edges.num_edges()}, ids);
}

// What a client sent is INVALID_ARGUMENT, for `field`, with a message that has `message` in it.
template <class T>
void ExpectRefused(const StatusOr<T>& result, const std::string& field, const std::string& message) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(DetailOf(result.status()).has_value()) << result.status();
  EXPECT_EQ(DetailOf(result.status())->field, field);
  EXPECT_THAT(std::string(result.status().message()), ::testing::HasSubstr(message));
}

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_GRAPH_GRAPH_TESTING_H_
