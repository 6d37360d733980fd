// SPDX-License-Identifier: Apache-2.0
#include "engine/model/step.h"

namespace vicinal {
Locality LocalityOf(const StepOp& op) {
  return std::visit([](const auto& step) { return step.locality(); }, op);
}

std::string StepName(const StepOp& op) {
  return std::visit([](const auto& step) { return std::string(step.kName); }, op);
}

}  // namespace vicinal
