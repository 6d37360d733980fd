// SPDX-License-Identifier: Apache-2.0
// Chooses the kernel of a step: the one that the request forces, otherwise the one that tuning found on this graph,
// otherwise the first of the registry. Quarantined configurations are passed over.
#ifndef VICINAL_ENGINE_PLAN_BUILD_KERNEL_CHOICE_H_
#define VICINAL_ENGINE_PLAN_BUILD_KERNEL_CHOICE_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/api/tuning.h"
#include "engine/base/error.h"
#include "engine/kernels/registry.h"
#include "engine/plan/plan.h"
#include "engine/tune/first_runs.h"
#include "engine/tune/work.h"

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

// Whether there are the kernel and parameters that the request forces for `operation`, which the model need not use.
template <class K>
Status CheckForced(const ForcedKernels& forced, const OperationKernels<K>& operation, DeviceKind device) {
  if (ForcedText(forced, operation.operation()).empty()) return OkStatus();
  VICINAL_ASSIGN_OR_RETURN(const K* const kernel, operation.Find(device, ForcedName(forced, operation.operation())));
  if (ForcedText(forced, operation.operation()).back() == ':') {
    return MalformedParameters(absl::StrCat("execution.kernels[", std::string(operation.operation()), "]"),
                               "nothing follows the colon");
  }
  return ParseParameters(ParametersOf(operation, *kernel), ForcedParameters(forced, operation.operation())).status();
}

// Why `kernel` must not run with `config`, in words; empty: it may. `first_runs` may be null.
template <class K>
std::string WhyQuarantined(const FirstRuns* first_runs, const OperationKernels<K>& operation, const K& kernel,
                           const KernelConfig& config) {
  if (first_runs == nullptr) return {};
  const std::string name = ConfigurationName(operation.operation(), kernel.name(), NameParameters(kernel, config));
  const std::string why = first_runs->WhyQuarantined(name);
  return why.empty() ? why : absl::StrCat(name, " is ", why);
}

// The same for the kernel of a setting, if there is one of that name.
template <class K>
std::string WhyQuarantined(const FirstRuns* first_runs, const OperationKernels<K>& operation, DeviceKind device,
                           const KernelSetting& setting) {
  const std::string_view name = CurrentKernelName(operation.operation(), setting.kernel);
  for (const auto& entry : operation.kernels()) {
    const K& kernel = entry->kernel();
    if (kernel.device() == device && kernel.name() == name)
      return WhyQuarantined(first_runs, operation, kernel, setting.config);
  }
  return {};
}

// The first kernel after `choice` that may serve in its place, with no parameters set and on every adjacency.
template <class K>
StatusOr<KernelChoice<K>> NextChoice(const OperationKernels<K>& operation, const typename K::Problem& problem,
                                     KernelChoice<K> choice, const FirstRuns* first_runs) {
  const RegisteredKernel<K>* const first = choice.kernel;
  bool after = false;
  for (const auto& entry : operation.kernels()) {
    const K& kernel = entry->kernel();
    after = after || entry.get() == first;
    if (!after || kernel.device() != first->kernel().device() || !kernel.deterministic(KernelConfig())) continue;
    StatusOr<KernelChoice<K>> next = operation.Choose(problem, kernel.device(), kernel.name());
    if (!next.ok() || !kernel.LayoutName(problem, KernelConfig()).empty()) continue;
    std::string why = WhyQuarantined(first_runs, operation, kernel, KernelConfig());
    if (why.empty()) {
      choice.kernel = entry.get();
      return choice;
    }
    choice.refusals.push_back({std::string(kernel.name()), std::move(why)});
  }
  return FailedPrecondition("KERNEL_QUARANTINED", absl::StrCat("all ", std::string(operation.operation()),
                                                               " kernels that support this are quarantined, the last: ",
                                                               choice.refusals.back().reason));
}

// `setting`: the result of tuning, which parameters of the request replace. `tuned`: whether it was used.
template <class K>
StatusOr<KernelChoice<K>> ChooseKernel(const OperationKernels<K>& operation, const typename K::Problem& problem,
                                       DeviceKind device, const PlanRequest& request,
                                       const std::optional<KernelSetting>& setting, bool* tuned) {
  const std::string_view name = ForcedName(request.forced, operation.operation());
  const bool parameters = !ForcedParameters(request.forced, operation.operation()).empty();
  std::vector<KernelRefusal> quarantined;
  if (setting.has_value() && !parameters && (name.empty() || name == setting->kernel)) {
    // Before the kernel is asked: its answer may take runs on the device.
    std::string why = WhyQuarantined(request.first_runs, operation, device, *setting);
    if (why.empty()) {
      // It was measured on a problem that may differ in sizes, and may not support this one.
      StatusOr<KernelChoice<K>> choice = operation.Choose(problem, device, setting->kernel);
      *tuned = choice.ok();
      if (*tuned) return choice;
    } else {
      quarantined.push_back({setting->kernel, std::move(why)});
    }
  }
  VICINAL_ASSIGN_OR_RETURN(KernelChoice<K> choice, operation.Choose(problem, device, name));
  choice.refusals.insert(choice.refusals.begin(), quarantined.begin(), quarantined.end());
  if (parameters) return choice;  // whoever reads them asks for the configuration
  const std::string why = WhyQuarantined(request.first_runs, operation, choice.kernel->kernel(), KernelConfig());
  if (why.empty()) return choice;
  if (!name.empty()) return FailedPrecondition("KERNEL_QUARANTINED", why);
  return NextChoice(operation, problem, std::move(choice), request.first_runs);
}

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_BUILD_KERNEL_CHOICE_H_
