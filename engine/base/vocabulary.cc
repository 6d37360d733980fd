// SPDX-License-Identifier: Apache-2.0
#include "engine/base/vocabulary.h"

namespace vicinal {

std::string_view ToString(Reduce reduce) {
  switch (reduce) {
    case Reduce::kSum:
      return "sum";
    case Reduce::kMean:
      return "mean";
    case Reduce::kMax:
      return "max";
    case Reduce::kMin:
      return "min";
  }
  return "unknown";
}

std::string_view ToString(AttentionKind kind) {
  switch (kind) {
    case AttentionKind::kGat:
      return "gat";
    case AttentionKind::kGatV2:
      return "gatv2";
    case AttentionKind::kDot:
      return "dot";
  }
  return "unknown";
}

std::string_view ToString(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kNone:
      return "none";
    case ActivationKind::kRelu:
      return "relu";
    case ActivationKind::kElu:
      return "elu";
    case ActivationKind::kLeakyRelu:
      return "leaky_relu";
    case ActivationKind::kSigmoid:
      return "sigmoid";
    case ActivationKind::kTanh:
      return "tanh";
    case ActivationKind::kSilu:
      return "silu";
    case ActivationKind::kGelu:
      return "gelu";
    case ActivationKind::kGeluTanh:
      return "gelu_tanh";
    case ActivationKind::kSoftplus:
      return "softplus";
    case ActivationKind::kMish:
      return "mish";
    case ActivationKind::kSoftsign:
      return "softsign";
    case ActivationKind::kClamp:
      return "clamp";
    case ActivationKind::kThreshold:
      return "threshold";
    case ActivationKind::kHardSigmoid:
      return "hard_sigmoid";
    case ActivationKind::kHardSwish:
      return "hard_swish";
    case ActivationKind::kHardShrink:
      return "hard_shrink";
    case ActivationKind::kExp:
      return "exp";
    case ActivationKind::kRoot:
      return "root";
    case ActivationKind::kInverseRoot:
      return "inverse_root";
    case ActivationKind::kSquare:
      return "square";
  }
  return "unknown";
}

std::string_view ToString(Storage storage) {
  switch (storage) {
    case Storage::kFloat32:
      return "float32";
    case Storage::kBfloat16:
      return "bfloat16";
    case Storage::kFloat16:
      return "float16";
  }
  return "unknown";
}

std::string_view ToString(ProductPrecision precision) {
  switch (precision) {
    case ProductPrecision::kFloat32:
      return "float32";
    case ProductPrecision::kTf32:
      return "tf32";
    case ProductPrecision::kBfloat16:
      return "bfloat16";
    case ProductPrecision::kFloat16:
      return "float16";
  }
  return "unknown";
}

std::string_view ToString(Locality locality) {
  switch (locality) {
    case Locality::kNode:
      return "node";
    case Locality::kNeighbourhood:
      return "neighbourhood";
    case Locality::kGraph:
      return "graph";
  }
  return "unknown";
}

std::string_view ToString(SelfLoops loops) {
  switch (loops) {
    case SelfLoops::kAsSent:
      return "as_sent";
    case SelfLoops::kAddRemaining:
      return "add_remaining";
    case SelfLoops::kReplace:
      return "replace";
  }
  return "unknown";
}

std::string_view ToString(EdgeWeighting weighting) {
  switch (weighting) {
    case EdgeWeighting::kNone:
      return "none";
    case EdgeWeighting::kSent:
      return "sent";
    case EdgeWeighting::kGcnSent:
      return "gcn_sent";
    case EdgeWeighting::kGcnOnes:
      return "gcn_ones";
    case EdgeWeighting::kMeanOnes:
      return "mean_ones";
    case EdgeWeighting::kSourceSymSent:
      return "source_sym_sent";
    case EdgeWeighting::kSourceSymOnes:
      return "source_sym_ones";
    case EdgeWeighting::kSourceMeanSent:
      return "source_mean_sent";
    case EdgeWeighting::kSourceMeanOnes:
      return "source_mean_ones";
  }
  return "unknown";
}

}  // namespace vicinal
