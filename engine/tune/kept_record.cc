// SPDX-License-Identifier: Apache-2.0
#include "engine/tune/kept_record.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/tune/work.h"

namespace vicinal {
namespace {

// Calls f(kernel, problem) with the kernel of that name (or a current name for it) on the device; false without one.
template <class F>
bool WithKernel(const KernelRegistry& registry, DeviceKind device, const TuningKey& key, const AdjacencyShape& shape,
                const std::string& kernel, F&& f) {
  return WithProblem(registry, key, shape.rows, shape.cols, shape.edges,
                     [&](const auto& operation, const auto& problem) {
                       const std::string_view current = CurrentKernelName(operation.operation(), kernel);
                       for (const auto& entry : operation.kernels()) {
                         if (entry->kernel().device() != device || entry->kernel().name() != current) continue;
                         f(entry->kernel(), problem);
                         return true;
                       }
                       return false;
                     });
}

// The configuration of a candidate that is evidence only, as far as this build knows the kernel.
void Configure(const KernelRegistry& registry, DeviceKind device, const TuningKey& key, const AdjacencyShape& shape,
               TuningCandidate* candidate) {
  WithKernel(registry, device, key, shape, candidate->setting.kernel, [&](const auto& kernel, const auto&) {
    const std::vector<std::string_view> names = kernel.ParameterNames();
    for (const NamedParameter& parameter : candidate->parameters) {
      const auto found = std::find(names.begin(), names.end(), parameter.name);
      if (found != names.end()) candidate->setting.config.values[found - names.begin()] = parameter.value;
    }
    candidate->setting.kernel = std::string(kernel.name());
    candidate->parameters = NameParameters(kernel, candidate->setting.config);
  });
}

bool IsPlain(const TuningCandidate& candidate) {
  return std::all_of(candidate.parameters.begin(), candidate.parameters.end(),
                     [](const NamedParameter& parameter) { return parameter.value == 0; });
}

// As what serves without tuning: it may be a fallback, which cannot be chosen otherwise.
bool IsDefault(const KernelRegistry& registry, DeviceKind device, const TuningKey& key, const AdjacencyShape& shape,
               const TuningCandidate& candidate) {
  if (!IsPlain(candidate)) return false;
  return WithProblem(
      registry, key, shape.rows, shape.cols, shape.edges, [&](const auto& operation, const auto& problem) {
        const auto choice = operation.Choose(problem, device, {});
        return choice.ok() &&
               choice->kernel->kernel().name() == CurrentKernelName(operation.operation(), candidate.setting.kernel);
      });
}

Status CheckChoice(const KernelRegistry& registry, DeviceKind device, const AdjacencyShape& shape,
                   const KeptRecord& record) {
  const TuningKey& key = record.entry.work.key;
  const TuningCandidate& choice = *record.entry.record.choice();
  std::map<std::string, int32_t> parameters;
  for (const NamedParameter& parameter : choice.parameters) {
    if (parameter.value != 0) parameters[parameter.name] = parameter.value;
  }
  if (!IsDefault(registry, device, key, shape, choice)) {
    VICINAL_RETURN_IF_ERROR(
        NamedCandidate(registry, device, key, shape.rows, shape.cols, shape.edges, choice.setting.kernel, parameters)
            .status());
  }
  DeclaredOrder order;
  WithKernel(registry, device, key, shape, choice.setting.kernel,
             [&](const auto& kernel, const auto&) { order = kernel.declared_order(); });
  if (order.name == record.order && order.version == record.order_version) return OkStatus();
  return InvalidArgument("KERNEL_VERSION", "order",
                         absl::StrCat("kernel '", choice.setting.kernel, "' adds in order '", std::string(order.name),
                                      "' version ", order.version, "; when this was recorded it was '", record.order,
                                      "' version ", record.order_version));
}

}  // namespace

KeptRecord Keep(const KernelRegistry& registry, DeviceKind device, const TuningEntry& entry) {
  KeptRecord kept{entry, "", 0};
  const TuningCandidate* const choice = entry.record.choice();
  if (choice == nullptr) return kept;
  WithKernel(registry, device, entry.work.key, {}, choice->setting.kernel, [&](const auto& kernel, const auto&) {
    const DeclaredOrder order = kernel.declared_order();
    kept.order = std::string(order.name);
    kept.order_version = order.version;
  });
  return kept;
}

void Thin(KeptRecord* kept) {
  TuningRecord& record = kept->entry.record;
  record.refused.clear();
  if (record.candidates.size() <= 2) return;
  if (record.chosen == 0) {
    record.candidates.resize(1);
    return;
  }
  record.candidates = {record.candidates[0], record.candidates[record.chosen]};
  record.chosen = 1;
}

StatusOr<TuningEntry> Usable(const KernelRegistry& registry, DeviceKind device, const AdjacencyShape& shape,
                             bool graph_weighted, const KeptRecord& kept) {
  TuningEntry entry = kept.entry;
  const TuningKey& key = entry.work.key;
  const bool sent = entry.work.adjacency.weighting == EdgeWeighting::kSent && shape.weighted;
  if (shape.weighted != (key.weights == EdgeWeights::kPerEdge) || (sent && !graph_weighted)) {
    return InvalidArgument("ADJACENCY_MISMATCH", "weights",
                           absl::StrCat("it is for weights ", std::string(ToString(key.weights)),
                                        ", which this graph does not have "
                                        "there"));
  }
  if (entry.record.choice() != nullptr) VICINAL_RETURN_IF_ERROR(CheckChoice(registry, device, shape, kept));
  for (TuningCandidate& candidate : entry.record.candidates) Configure(registry, device, key, shape, &candidate);
  return entry;
}

int64_t ReductionOrderOf(const KernelRegistry& registry, DeviceKind device, const AdjacencyShape& shape,
                         const TuningKey& key, const std::optional<KernelSetting>& setting) {
  return WithProblem(
      registry, key, shape.rows, shape.cols, shape.edges, [&](const auto& operation, const auto& problem) -> int64_t {
        const auto choice = operation.Choose(problem, device, setting ? setting->kernel : "");
        if (!choice.ok()) return 0;
        return choice->kernel->kernel().ReductionOrder(problem, setting ? setting->config : KernelConfig());
      });
}

}  // namespace vicinal
