// SPDX-License-Identifier: Apache-2.0
#include "engine/model/step.h"

namespace vicinal {
namespace {

struct LocalityVisitor {
  Locality operator()(const PropagateStep&) const { return Locality::kNeighbourhood; }
  Locality operator()(const AttentionStep&) const { return Locality::kNeighbourhood; }
  Locality operator()(const EdgeMlpStep&) const { return Locality::kNeighbourhood; }
  Locality operator()(const LayerNormStep& step) const { return step.per_node ? Locality::kNode : Locality::kGraph; }
  Locality operator()(const ReadoutStep&) const { return Locality::kGraph; }
  template <class T>
  Locality operator()(const T&) const {
    return Locality::kNode;
  }
};

struct NameVisitor {
  std::string operator()(const LinearStep&) const { return "linear"; }
  std::string operator()(const PropagateStep&) const { return "propagate"; }
  std::string operator()(const AttentionStep&) const { return "attention"; }
  std::string operator()(const EdgeMlpStep&) const { return "edge_mlp"; }
  std::string operator()(const BiasStep&) const { return "bias"; }
  std::string operator()(const ActivationStep&) const { return "activation"; }
  std::string operator()(const BatchNormStep&) const { return "batch_norm"; }
  std::string operator()(const LayerNormStep&) const { return "layer_norm"; }
  std::string operator()(const AddStep&) const { return "add"; }
  std::string operator()(const GateStep&) const { return "gate"; }
  std::string operator()(const ConcatStep&) const { return "concat"; }
  std::string operator()(const MaxStep&) const { return "max"; }
  std::string operator()(const NormalizeStep&) const { return "normalize"; }
  std::string operator()(const ReadoutStep&) const { return "readout"; }
};

}  // namespace

Locality LocalityOf(const StepOp& op) { return std::visit(LocalityVisitor(), op); }
std::string StepName(const StepOp& op) { return std::visit(NameVisitor(), op); }

}  // namespace vicinal
