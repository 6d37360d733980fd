// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/build/plan_bytes.h"

#include "engine/plan/receptive_field/receptive_field_program.h"

namespace vicinal::internal {
namespace {

// Host bytes per launch: the launch itself; a second copy of its arguments, kept while a receptive field is bound; its
// step and its level of fields; pointers, and the allocator's overhead.
constexpr int64_t kPerLaunch = sizeof(Launch) + sizeof(decltype(Launch::bound)) + sizeof(FieldStep) +
                               sizeof(ReceptiveFieldShape::Level) + sizeof(ReceptiveFieldShape::Edges) + 192;

// Short strings are stored in the string object itself.
int64_t TextBytes(const std::string& text) {
  static const size_t within = std::string().capacity();
  return text.size() <= within ? 0 : static_cast<int64_t>(text.size()) + 16;
}

}  // namespace

int64_t StepBytes(const std::vector<std::unique_ptr<Launch>>& launches, const std::vector<std::string>& decisions) {
  int64_t bytes = static_cast<int64_t>(launches.size()) * kPerLaunch;
  for (const auto& launch : launches) {
    const PlanStepInfo& info = launch->info;
    bytes += TextBytes(info.operation) + TextBytes(info.layers) + TextBytes(info.description) + TextBytes(info.kernel);
    bytes += static_cast<int64_t>(info.parameters.size() * sizeof(NamedParameter));
    for (const KernelRefusal& refusal : info.refusals) {
      bytes += static_cast<int64_t>(sizeof(KernelRefusal)) + TextBytes(refusal.kernel) + TextBytes(refusal.reason);
    }
  }
  for (const std::string& decision : decisions)
    bytes += static_cast<int64_t>(sizeof(std::string)) + TextBytes(decision);
  return bytes;
}

}  // namespace vicinal::internal
