// SPDX-License-Identifier: Apache-2.0
// Chooses the kernel of a step: the one that the request forces, otherwise the one that tuning found on this graph,
// otherwise the registry's default.
#ifndef VICINAL_ENGINE_PLAN_BUILD_KERNEL_CHOICE_H_
#define VICINAL_ENGINE_PLAN_BUILD_KERNEL_CHOICE_H_

#include <optional>
#include <string>
#include <string_view>

#include "engine/api/tuning.h"
#include "engine/kernels/registry.h"
#include "engine/plan/plan.h"

namespace vicinal::internal {

// What the request forces for `operation`: "KERNEL", or "KERNEL:PARAMETER=VALUE,...".
inline std::string_view ForcedText(const ForcedKernels& forced, std::string_view operation) {
  const auto found = forced.find(std::string(operation));
  return found == forced.end() ? std::string_view() : std::string_view(found->second);
}
// Empty: the request forces no kernel.
inline std::string_view ForcedName(const ForcedKernels& forced, std::string_view operation) {
  const std::string_view text = ForcedText(forced, operation);
  return text.substr(0, text.find(':'));
}
// Empty: no parameters.
inline std::string_view ForcedParameters(const ForcedKernels& forced, std::string_view operation) {
  const std::string_view text = ForcedText(forced, operation);
  const size_t colon = text.find(':');
  return colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
}

// `setting`: the result of tuning, which parameters of the request replace. `tuned`: whether it was used.
template <class K>
StatusOr<KernelChoice<K>> ChooseKernel(const OperationKernels<K>& operation, const typename K::Problem& problem,
                                       DeviceKind device, const ForcedKernels& forced,
                                       const std::optional<KernelSetting>& setting, bool* tuned) {
  const std::string_view name = ForcedName(forced, operation.operation());
  const bool parameters = !ForcedParameters(forced, operation.operation()).empty();
  if (setting.has_value() && !parameters && (name.empty() || name == setting->kernel)) {
    // It was measured on a problem that may differ in sizes, and may not support this one.
    StatusOr<KernelChoice<K>> choice = operation.Choose(problem, device, setting->kernel);
    *tuned = choice.ok();
    if (choice.ok()) return choice;
  }
  return operation.Choose(problem, device, name);
}

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_BUILD_KERNEL_CHOICE_H_
