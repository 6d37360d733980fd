// SPDX-License-Identifier: Apache-2.0
#include "engine/tune/work.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/with_field.h"

namespace vicinal {
namespace {

constexpr Reduce kReduces[] = {Reduce::kSum, Reduce::kMean, Reduce::kMax, Reduce::kMin};
constexpr AttentionKind kAttentionKinds[] = {AttentionKind::kGat, AttentionKind::kGatV2, AttentionKind::kDot};
constexpr ProductPrecision kPrecisions[] = {ProductPrecision::kFloat32, ProductPrecision::kTf32,
                                            ProductPrecision::kBfloat16, ProductPrecision::kFloat16};
constexpr EdgeWeights kEdgeWeights[] = {EdgeWeights::kNone, EdgeWeights::kPerEdge, EdgeWeights::kPerSource};

template <class T, size_t kCount>
std::optional<T> Named(const T (&values)[kCount], std::string_view name) {
  for (const T value : values)
    if (ToString(value) == name) return value;
  return std::nullopt;
}

template <class T, size_t kCount>
std::string Names(const T (&values)[kCount]) {
  std::string names;
  for (const T value : values) absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(ToString(value)));
  return names;
}

// The operation's kernels for such a device.
template <class K>
std::vector<const K*> KernelsOn(const OperationKernels<K>& operation, DeviceKind device) {
  std::vector<const K*> kernels;
  for (const auto& entry : operation.kernels())
    if (entry->kernel().device() == device) kernels.push_back(&entry->kernel());
  return kernels;
}

template <class K>
bool HasParameters(const K& kernel, const std::map<std::string, int32_t>& parameters) {
  const std::vector<std::string_view> names = kernel.ParameterNames();
  return std::all_of(parameters.begin(), parameters.end(), [&](const auto& parameter) {
    return std::find(names.begin(), names.end(), parameter.first) != names.end();
  });
}

Status SetParameter(const KernelParameters& known, const std::string& field, std::string_view name, int64_t value,
                    KernelConfig* config) {
  const std::string kernel =
      absl::StrCat("the ", std::string(known.operation), " kernel '", std::string(known.kernel), "'");
  const auto found = std::find(known.names.begin(), known.names.end(), name);
  if (found == known.names.end()) {
    std::string names;
    for (const std::string_view other : known.names)
      absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(other));
    return InvalidArgument("PARAMETER_UNKNOWN", field,
                           absl::StrCat(kernel, " has no parameter ", Quoted(name), "; ",
                                        names.empty() ? "it has none" : absl::StrCat("there are: ", names)));
  }
  const ParameterRange& range = known.ranges[found - known.names.begin()];
  const bool fits = value >= std::numeric_limits<int32_t>::min() && value <= std::numeric_limits<int32_t>::max();
  if (!fits || !range.Allows(static_cast<int32_t>(value))) {
    return InvalidArgument(
        "PARAMETER_RANGE", field,
        absl::StrCat(kernel, " takes ", range.Describe(), " as ", std::string(name), "; this is ", value));
  }
  config->values[found - known.names.begin()] = static_cast<int32_t>(value);
  return OkStatus();
}

}  // namespace

TuningKey KeyOf(const AggregateProblem& problem, EdgeWeights weights) {
  TuningKey key;
  key.operation = "aggregate";
  key.kind = std::string(ToString(problem.reduce));
  key.width = problem.width;
  key.weights = weights;
  key.storage = problem.storage;
  return key;
}

TuningKey KeyOf(const AttentionProblem& problem, EdgeWeights weights) {
  TuningKey key;
  key.operation = "attention";
  key.kind = std::string(ToString(problem.kind));
  key.width = problem.head_width;
  key.heads = problem.heads;
  key.concat = problem.concat;
  key.weights = weights;
  return key;
}

TuningKey KeyOf(const DenseUpdateProblem& problem, bool epilogue) {
  TuningKey key;
  key.operation = "dense_update";
  key.kind = std::string(ToString(problem.precision));
  key.width = problem.in_width;
  key.outputs = problem.out_width;
  key.epilogue = epilogue;
  return key;
}

AggregateProblem AggregateProblemOf(const TuningKey& key, int64_t rows, int64_t cols, int64_t edges) {
  const std::optional<Reduce> reduce = Named(kReduces, key.kind);
  VICINAL_CHECK(reduce.has_value());
  AggregateProblem problem;
  problem.reduce = *reduce;
  problem.weighted = key.weights != EdgeWeights::kNone;
  problem.source_scaled = key.weights == EdgeWeights::kPerSource;
  problem.rows = rows;
  problem.cols = cols;
  problem.edges = edges;
  problem.width = key.width;
  problem.storage = key.storage;
  return problem;
}

AttentionProblem AttentionProblemOf(const TuningKey& key, int64_t rows, int64_t cols, int64_t edges) {
  const std::optional<AttentionKind> kind = Named(kAttentionKinds, key.kind);
  VICINAL_CHECK(kind.has_value());
  return {*kind, rows, cols, edges, key.heads, key.width, key.concat};
}

DenseUpdateProblem DenseUpdateProblemOf(const TuningKey& key, int64_t rows) {
  const std::optional<ProductPrecision> precision = Named(kPrecisions, key.kind);
  VICINAL_CHECK(precision.has_value());
  return {rows, key.width, key.outputs, *precision};
}

ExpressionProblem ExpressionProblemOf(const TuningKey& key, int64_t rows, int64_t cols, int64_t edges) {
  auto code = std::make_shared<EdgeCode>();
  code->width = key.width;
  return {std::move(code), rows, cols, edges};
}

bool IsKindOf(std::string_view operation, std::string_view kind) {
  if (operation == "expression") {
    return std::find(std::begin(kProgramKinds), std::end(kProgramKinds), kind) != std::end(kProgramKinds);
  }
  if (operation == "attention") return Named(kAttentionKinds, kind).has_value();
  if (operation == "dense_update") return Named(kPrecisions, kind).has_value();
  return Named(kReduces, kind).has_value();
}

std::string KindsOf(std::string_view operation) {
  if (operation == "expression") {
    return absl::StrJoin(kProgramKinds, ", ", [](std::string* to, std::string_view kind) { to->append(kind); });
  }
  if (operation == "attention") return Names(kAttentionKinds);
  return operation == "dense_update" ? Names(kPrecisions) : Names(kReduces);
}

std::optional<EdgeWeights> EdgeWeightsNamed(std::string_view name) { return Named(kEdgeWeights, name); }

std::string OnlyKernelOf(const KernelRegistry& registry, DeviceKind device, std::string_view operation) {
  std::vector<std::string> names;
  bool parameters = false;
  const auto look = [&](const auto& kernels) {
    if (kernels.operation() != operation) return;
    for (const auto* own : KernelsOn(kernels, device)) {
      if (own->fallback_only() || !own->deterministic(KernelConfig())) continue;
      names.emplace_back(own->name());
      parameters = parameters || !own->ParameterNames().empty();
    }
  };
  look(registry.aggregate);
  look(registry.attention);
  look(registry.dense_update);
  look(registry.expression);
  return names.size() == 1 && !parameters ? names.front() : "";
}

StatusOr<std::vector<std::string>> OperationsWith(const KernelRegistry& registry, DeviceKind device,
                                                  const std::string& kernel,
                                                  const std::map<std::string, int32_t>& parameters) {
  std::vector<std::string> by_name, by_parameters;
  std::string there;
  const auto look = [&](const auto& operation) {
    const std::string name(operation.operation());
    for (const auto* own : KernelsOn(operation, device)) {
      if (!own->fallback_only())
        absl::StrAppend(&there, there.empty() ? "" : ", ", std::string(own->name()), " (", name, ")");
      if (own->name() != CurrentKernelName(name, kernel)) continue;
      by_name.push_back(name);
      if (HasParameters(*own, parameters)) by_parameters.push_back(name);
    }
  };
  look(registry.aggregate);
  look(registry.attention);
  look(registry.dense_update);
  look(registry.expression);
  if (by_name.empty()) {
    return InvalidArgument(
        "KERNEL_UNKNOWN", "force.kernel",
        absl::StrCat("no kernel ", Quoted(kernel), " can be forced on a graph of this device; there are: ", there));
  }
  return by_parameters.empty() ? by_name : by_parameters;
}

StatusOr<TuningCandidate> NamedCandidate(const KernelRegistry& registry, DeviceKind device, const TuningKey& key,
                                         int64_t rows, int64_t cols, int64_t edges, const std::string& kernel,
                                         const std::map<std::string, int32_t>& parameters) {
  return WithProblem(
      registry, key, rows, cols, edges, [&](const auto& operation, const auto& problem) -> StatusOr<TuningCandidate> {
        auto choice = operation.Choose(problem, device, kernel);
        if (!choice.ok()) return WithField(choice.status(), "force.kernel");
        if (choice->kernel->kernel().fallback_only()) {
          return InvalidArgument("KERNEL_REFUSED", "force.kernel",
                                 absl::StrCat(Quoted(choice->kernel->kernel().name()),
                                              " rounds differently from the other kernels, but tuning must not change "
                                              "a graph's answers; force it for single requests instead"));
        }
        TuningCandidate candidate;
        candidate.setting.kernel = std::string(choice->kernel->kernel().name());
        for (const auto& [name, value] : parameters) {
          const auto& kernel = choice->kernel->kernel();
          VICINAL_RETURN_IF_ERROR(SetParameter(ParametersOf(operation, kernel),
                                               absl::StrCat("force.parameters[", Quoted(name), "]"), name, value,
                                               &candidate.setting.config));
        }
        if (!choice->kernel->kernel().deterministic(candidate.setting.config)) {
          return InvalidArgument("KERNEL_REFUSED", "force.kernel",
                                 absl::StrCat("the bits of ", Quoted(choice->kernel->kernel().name()),
                                              " may differ from run to run, but a graph's answers must not; force it "
                                              "for single requests instead"));
        }
        candidate.parameters = NameParameters(choice->kernel->kernel(), candidate.setting.config);
        return candidate;
      });
}

Status MalformedParameters(const std::string& field, const std::string& why) {
  return InvalidArgument("PARAMETER_MALFORMED", field,
                         absl::StrCat(why, "; parameters of a forced kernel are KERNEL:PARAMETER=VALUE,..."));
}

StatusOr<KernelConfig> ParseParameters(const KernelParameters& known, std::string_view text) {
  const std::string field = absl::StrCat("execution.kernels[", std::string(known.operation), "]");
  KernelConfig config;
  std::vector<std::string> seen;
  for (bool more = !text.empty(); more;) {
    const std::string_view word = text.substr(0, text.find(','));
    more = word.size() < text.size();
    if (more) text.remove_prefix(word.size() + 1);
    const size_t equals = word.find('=');
    const std::string name(word.substr(0, equals));
    int64_t value = 0;
    if (equals == std::string_view::npos || !absl::SimpleAtoi(std::string(word.substr(equals + 1)), &value)) {
      return MalformedParameters(field, absl::StrCat(Quoted(word), " is no PARAMETER=VALUE with a whole number"));
    }
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) {
      return MalformedParameters(field, absl::StrCat(Quoted(name), " is set twice"));
    }
    VICINAL_RETURN_IF_ERROR(SetParameter(known, field, name, value, &config));
    seen.push_back(name);
  }
  return config;
}

}  // namespace vicinal
