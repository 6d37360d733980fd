// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda/device_graph.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "bench/cuda/numbers.h"

namespace vicinal::bench {

DeviceGraph::DeviceGraph(Gpu& gpu, std::string name, std::string order, BinaryGraph graph)
    : name_(std::move(name)), order_(std::move(order)), host_(std::move(graph)), factors_(host_.nodes) {
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
