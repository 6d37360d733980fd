// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda/device_graph.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "bench/cuda/numbers.h"

namespace vicinal::bench {

DeviceGraph::DeviceGraph(Gpu& gpu, std::string name, std::string order, RenumberedGraph graph)
    : name_(std::move(name)),
      order_(std::move(order)),
      host_(std::move(graph.graph)),
      blocks_(std::move(graph.blocks)),
      factors_(host_.nodes) {
  for (int64_t row = 0; row < host_.nodes; ++row) {
    factors_[row] = 1.0f / std::sqrt(static_cast<float>(host_.row_ptr[row + 1] - host_.row_ptr[row] + 1));
  }
  offsets_ = gpu.Upload(std::vector<int64_t>(host_.row_ptr.begin(), host_.row_ptr.end()));
  narrow_ = gpu.Upload(host_.row_ptr);
  col_ = gpu.Upload(host_.col);
  device_factors_ = gpu.Upload(factors_);
  value_ = gpu.Allocate(edges() * sizeof(float));
  FillNumbers(value_.data(), edges(), kEdgeNumbers, Storage::kFloat32, gpu.stream());
}

CsrView DeviceGraph::view(bool weighted) const {
  return {
      nodes(), nodes(), edges(), offsets_.as<int64_t>(), col_.as<int32_t>(), weighted ? value_.as<float>() : nullptr};
}

PeerMatrix DeviceGraph::peer() const { return {nodes(), edges(), narrow_.as<int32_t>(), col_.as<int32_t>()}; }

StatusOr<DeviceGraph::Layout> DeviceGraph::FindLayout(Gpu& gpu, bool weighted, const std::string& kernel,
                                                      const std::string& name, const LayoutMaker& make) const {
  constexpr int64_t kMaxBytes = int64_t{24} << 30;
  const std::tuple key = {weighted, kernel, name};
  if (const auto found = layouts_.find(key); found != layouts_.end()) return found->second;
  int64_t bytes = 0;
  for (const auto& [known, layout] : layouts_) bytes += layout.layout->size_bytes();
  if (bytes > kMaxBytes) layouts_.clear();
  LayoutSource source(view(weighted), blocks_, gpu.device());
  const auto begin = std::chrono::steady_clock::now();
  VICINAL_ASSIGN_OR_RETURN(AdjacencyLayoutRef layout, make(source));
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  return layouts_[key] = {std::move(layout), spent.count()};
}

Buffer DeviceGraph::PeerValues(Gpu& gpu, const Operation& operation) const {
  if (operation.weights == Weights::kPerEdge) {
    Buffer values = gpu.Allocate(edges() * sizeof(float));
    FillNumbers(values.data(), edges(), kEdgeNumbers, operation.storage, gpu.stream());
    return values;
  }
  if (operation.storage != Storage::kFloat32) {
    return gpu.Upload(std::vector<uint16_t>(edges(), ToSixteenBits(1.0f, operation.storage)));
  }
  std::vector<float> values(edges(), 1.0f);
  for (int64_t row = 0; row < nodes(); ++row) {
    const int32_t begin = host_.row_ptr[row], end = host_.row_ptr[row + 1];
    if (operation.weights == Weights::kRankOne) {
      for (int32_t e = begin; e < end; ++e) values[e] = factors_[row] * factors_[host_.col[e]];
    } else if (operation.reduce == Reduce::kMean) {
      std::fill(values.begin() + begin, values.begin() + end, 1.0f / static_cast<float>(end - begin));
    }
  }
  return gpu.Upload(values);
}

}  // namespace vicinal::bench
