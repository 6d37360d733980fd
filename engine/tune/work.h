// SPDX-License-Identifier: Apache-2.0
// Converts between the problems of kernels and the keys of tuning, and parses the names that clients use.
#ifndef VICINAL_ENGINE_TUNE_WORK_H_
#define VICINAL_ENGINE_TUNE_WORK_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/api/tuning.h"
#include "engine/base/status.h"
#include "engine/kernels/registry.h"
#include "engine/tune/program_work.h"

namespace vicinal {

// The tuned operations: those whose time depends on the graph, of products on its number of nodes.
inline constexpr std::string_view kTunedOperations[] = {"aggregate", "attention", "dense_update", "expression"};

TuningKey KeyOf(const AggregateProblem& problem, EdgeWeights weights);
TuningKey KeyOf(const AttentionProblem& problem, EdgeWeights weights);
TuningKey KeyOf(const DenseUpdateProblem& problem, bool epilogue);

// Products read no edges: their keys are of the adjacency as sent, of which only the number of rows matters.
inline bool IsProduct(const TuningKey& key) { return key.operation == "dense_update"; }

// Whether there is anything to choose for `problem` on such a device: two kernels that tuning may choose, or two
// configurations of one. Kernels need not support the problem.
template <class K>
bool HasChoice(const OperationKernels<K>& operation, const typename K::Problem& problem, DeviceKind device) {
  size_t count = 0;
  for (const auto& entry : operation.kernels()) {
    const K& kernel = entry->kernel();
    if (kernel.device() != device || kernel.fallback_only() || !kernel.deterministic(KernelConfig())) continue;
    count += kernel.ParameterNames().empty() ? 1 : kernel.Candidates(problem).size();
  }
  return count > 1;
}

// The kernel that serves all problems of a tuned operation on such a device, because tuning has no other and it has no
// parameters; empty: there is a choice for some.
std::string OnlyKernelOf(const KernelRegistry& registry, DeviceKind device, std::string_view operation);

// The problem of a key on an adjacency of that size. REQUIRES: key.operation and key.kind are of that problem.
AggregateProblem AggregateProblemOf(const TuningKey& key, int64_t rows, int64_t cols, int64_t edges);
AttentionProblem AttentionProblemOf(const TuningKey& key, int64_t rows, int64_t cols, int64_t edges);
DenseUpdateProblem DenseUpdateProblemOf(const TuningKey& key, int64_t rows);
ExpressionProblem ExpressionProblemOf(const TuningKey& key, int64_t rows, int64_t cols, int64_t edges);

// The valid kinds, for messages: "sum, mean, max, min", "gat, gatv2, dot", "float32, tf32, bfloat16, float16" or "sum,
// mean, max, min, var, std, softmax, several".
bool IsKindOf(std::string_view operation, std::string_view kind);
std::string KindsOf(std::string_view operation);
std::optional<EdgeWeights> EdgeWeightsNamed(std::string_view name);

// The named values of a configuration.
template <class K>
std::vector<NamedParameter> NameParameters(const K& kernel, const KernelConfig& config) {
  std::vector<NamedParameter> named;
  for (const std::string_view name : kernel.ParameterNames())
    named.push_back({std::string(name), config.values[named.size()]});
  return named;
}

// Calls f(operation_kernels, problem) for the key's operation on an adjacency of that size. A key names a program, but
// does not hold it: the problem of an expression has an empty one of the key's width. That is enough to ask which
// kernel supports it and in what order it adds, not for a run.
template <class F>
auto WithProblem(const KernelRegistry& registry, const TuningKey& key, int64_t rows, int64_t cols, int64_t edges,
                 F&& f) {
  if (key.operation == "attention") return f(registry.attention, AttentionProblemOf(key, rows, cols, edges));
  if (IsProduct(key)) return f(registry.dense_update, DenseUpdateProblemOf(key, rows));
  if (IsExpression(key)) return f(registry.expression, ExpressionProblemOf(key, rows, cols, edges));
  return f(registry.aggregate, AggregateProblemOf(key, rows, cols, edges));
}

// The operations that a forced kernel applies to if the client names none: those of kTunedOperations that have a kernel
// of that name on such a device and, if there are any, only those whose kernel has all `parameters`. INVALID_ARGUMENT
// (KERNEL_UNKNOWN, field "force.kernel") if there is none; the message lists the kernels.
StatusOr<std::vector<std::string>> OperationsWith(const KernelRegistry& registry, DeviceKind device,
                                                  const std::string& kernel,
                                                  const std::map<std::string, int32_t>& parameters);

// A kernel and parameters that a client named, as a candidate. INVALID_ARGUMENT: KERNEL_UNKNOWN, KERNEL_REFUSED (with
// the kernel's reason, or because it cannot be forced on a graph), PARAMETER_UNKNOWN, PARAMETER_RANGE; the message
// lists the known names.
StatusOr<TuningCandidate> NamedCandidate(const KernelRegistry& registry, DeviceKind device, const TuningKey& key,
                                         int64_t rows, int64_t cols, int64_t edges, const std::string& kernel,
                                         const std::map<std::string, int32_t>& parameters);

// The parameters of a kernel, for those that a client names.
struct KernelParameters {
  std::string_view operation, kernel;
  std::vector<std::string_view> names;
  std::vector<ParameterRange> ranges;  // of each
};
template <class K>
KernelParameters ParametersOf(const OperationKernels<K>& operation, const K& kernel) {
  return {operation.operation(), kernel.name(), kernel.ParameterNames(), kernel.ParameterRanges()};
}

// The parameters that a request forces with a kernel, "PARAMETER=VALUE,PARAMETER=VALUE". INVALID_ARGUMENT, field
// "execution.kernels[operation]": PARAMETER_UNKNOWN, PARAMETER_RANGE, PARAMETER_MALFORMED.
StatusOr<KernelConfig> ParseParameters(const KernelParameters& known, std::string_view text);
// PARAMETER_MALFORMED: `why`, and how such parameters are written.
Status MalformedParameters(const std::string& field, const std::string& why);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNE_WORK_H_
