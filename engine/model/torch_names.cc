// SPDX-License-Identifier: Apache-2.0
#include "engine/model/torch_names.h"

#include <cctype>
#include <utility>
#include <vector>

#include "engine/base/printable.h"
#include "engine/model/arguments.h"

namespace vicinal::internal {
namespace {

using Table = std::vector<std::pair<const char*, const char*>>;

// As PyTorch Geometric compares names of activations and norms.
std::string Normalized(const std::string& name) {
  std::string out;
  for (unsigned char c : name) {
    if (c != '-' && c != '_' && c != ' ') out += static_cast<char>(std::tolower(c));
  }
  return out;
}

// `table` maps normalised names to types; `names` are those that people write.
StatusOr<std::string> TypeOf(const nlohmann::json& value, const std::string& path, const char* names,
                             const Table& table) {
  if (value.is_null()) return std::string();
  if (!value.is_string()) return BadArchitecture(path, path + " must be a name or null");
  for (const auto& [name, type] : table) {
    if (Normalized(value.get<std::string>()) == name) return std::string(type);
  }
  return UnsupportedArgument(
      path, path + " is '" + Printable(value.get<std::string>()) + "', which is not supported; supported: " + names);
}

}  // namespace

StatusOr<std::string> ActivationType(const nlohmann::json& value, const std::string& path) {
  static const Table* const kTable = new Table{{"relu", "ReLU"},
                                               {"relu6", "ReLU6"},
                                               {"elu", "ELU"},
                                               {"celu", "CELU"},
                                               {"selu", "SELU"},
                                               {"leakyrelu", "LeakyReLU"},
                                               {"rrelu", "RReLU"},
                                               {"gelu", "GELU"},
                                               {"silu", "SiLU"},
                                               {"swish", "SiLU"},
                                               {"mish", "Mish"},
                                               {"softplus", "Softplus"},
                                               {"softsign", "Softsign"},
                                               {"sigmoid", "Sigmoid"},
                                               {"logsigmoid", "LogSigmoid"},
                                               {"tanh", "Tanh"},
                                               {"tanhshrink", "Tanhshrink"},
                                               {"hardtanh", "Hardtanh"},
                                               {"hardsigmoid", "Hardsigmoid"},
                                               {"hardswish", "Hardswish"},
                                               {"hardshrink", "Hardshrink"},
                                               {"softshrink", "Softshrink"},
                                               {"threshold", "Threshold"},
                                               {"softmax", "Softmax"},
                                               {"logsoftmax", "LogSoftmax"},
                                               {"softmin", "Softmin"}};
  return TypeOf(
      value, path,
      "relu, relu6, elu, celu, selu, leaky_relu, rrelu, gelu, silu, swish, mish, softplus, softsign, sigmoid, "
      "log_sigmoid, tanh, tanhshrink, hardtanh, hardsigmoid, hardswish, hardshrink, softshrink, threshold, "
      "softmax, log_softmax, softmin",
      *kTable);
}

StatusOr<std::string> NormType(const nlohmann::json& value, const std::string& path) {
  static const Table* const kTable =
      new Table{{"batchnorm", "BatchNorm"},       {"batch", "BatchNorm"},      {"layernorm", "LayerNorm"},
                {"layer", "LayerNorm"},           {"graphnorm", "GraphNorm"},  {"graph", "GraphNorm"},
                {"instancenorm", "InstanceNorm"}, {"instance", "InstanceNorm"}};
  return TypeOf(value, path, "batch_norm, layer_norm, graph_norm, instance_norm", *kTable);
}

}  // namespace vicinal::internal
