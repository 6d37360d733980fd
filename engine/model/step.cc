// SPDX-License-Identifier: Apache-2.0
#include "engine/model/step.h"

namespace vicinal {
namespace {

void AddWeights(const std::vector<EdgeConvOp>& nn, std::vector<WeightRef>* all) {
  for (const EdgeConvOp& op : nn) {
    const std::vector<WeightRef> weights = std::visit([](const auto& step) { return step.weights(); }, op);
    all->insert(all->end(), weights.begin(), weights.end());
  }
}

}  // namespace

std::vector<WeightRef> EdgeConvStep::weights() const {
  std::vector<WeightRef> all;
  AddWeights(nn, &all);
  return all;
}

std::vector<WeightRef> EdgeMessageStep::weights() const {
  std::vector<WeightRef> all = {edge_weight, edge_bias, gaussians.mean, gaussians.scale};
  AddWeights(nn, &all);
  return all;
}

Locality LocalityOf(const StepOp& op) {
  return std::visit([](const auto& step) { return step.locality(); }, op);
}

int64_t EdgeWidthOf(const StepOp& op) {
  return std::visit(
      [](const auto& step) -> int64_t {
        if constexpr (requires { step.edge_width; }) return step.edge_width;
        return 0;
      },
      op);
}

std::string StepName(const StepOp& op) {
  return std::visit([](const auto& step) { return std::string(step.kName); }, op);
}

std::vector<WeightRef> WeightsOf(const StepOp& op) {
  return std::visit([](const auto& step) { return step.weights(); }, op);
}

}  // namespace vicinal
