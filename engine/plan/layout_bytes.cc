// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/layout_bytes.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "engine/tune/work.h"

namespace vicinal {
namespace {

// Of one step: `problem` is the step's as the model has it, of which rewriting may change the width.
template <class K>
int64_t BoundOf(const PlanRequest& request, const OperationKernels<K>& operation, const typename K::Problem& problem,
                DeviceKind device) {
  const auto forced = request.forced.find(std::string(operation.operation()));
  const std::string_view name = forced == request.forced.end() ? std::string_view() : std::string_view(forced->second);
  const auto bound_of = [&](std::string_view kernel) -> int64_t {
    const auto choice = operation.Choose(problem, device, kernel);
    return choice.ok() ? choice->kernel->kernel().LayoutBytesBound(problem.rows, problem.edges) : 0;
  };
  int64_t bound = bound_of(name);
  if (!name.empty()) return bound;
  const TuningTable& table = request.graph->tuning();
  for (const TuningWork& work : table.Works()) {
    if (work.key.operation != operation.operation()) continue;
    const std::optional<KernelSetting> setting = table.Find(work.key);
    if (setting.has_value()) bound = std::max(bound, bound_of(setting->kernel));
  }
  return bound;
}

}  // namespace

int64_t LayoutBytesBound(const PlanRequest& request, const KernelRegistry& registry, DeviceKind device) {
  // Every node may have got a loop.
  const int64_t rows = request.graph->num_nodes(), edges = rows + request.graph->num_edges();
  int64_t bytes = 0;
  for (const Step& step : request.model->steps) {
    if (const auto* propagate = std::get_if<PropagateStep>(&step.op)) {
      AggregateProblem problem;
      problem.reduce = propagate->reduce;
      problem.rows = problem.cols = rows;
      problem.edges = edges;
      problem.width = step.width;
      problem.storage = request.precision;
      bytes += BoundOf(request, registry.aggregate, problem, device);
    } else if (const auto* attention = std::get_if<AttentionStep>(&step.op)) {
      const AttentionProblem problem = {attention->kind,  rows, rows, edges, attention->heads, attention->head_width,
                                        attention->concat};
      bytes += BoundOf(request, registry.attention, problem, device);
    }
  }
  return bytes;
}

}  // namespace vicinal
