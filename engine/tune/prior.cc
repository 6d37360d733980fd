// SPDX-License-Identifier: Apache-2.0
#include "engine/tune/prior.h"

#include "engine/tune/work.h"

namespace vicinal {

std::optional<double> PredictDefaultSeconds(const KernelRegistry& registry, DeviceKind device, const TuningKey& key,
                                            const WorkShape& shape) {
  return WithProblem(registry, key, shape.rows, shape.cols, shape.edges,
                     [&](const auto& operation, const auto& problem) -> std::optional<double> {
                       const auto choice = operation.Choose(problem, device, {});
                       if (!choice.ok()) return std::nullopt;
                       return choice->kernel->kernel().PredictSeconds(problem, KernelConfig(), shape);
                     });
}

}  // namespace vicinal
