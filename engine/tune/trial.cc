// SPDX-License-Identifier: Apache-2.0
// One template over the operations; they differ in how their arguments are made (MakeArgs).
#include "engine/tune/trial.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/tune/trial_arguments.h"
#include "engine/tune/trial_weights.h"
#include "engine/tune/work.h"

namespace vicinal {
namespace {

using internal::Gathered;
using internal::GatheredBy;
using internal::kRenewedBytes;
using internal::MakeArgs;
using internal::Matrices;
using internal::MatrixBytes;
using internal::NumTurns;
using internal::Pattern;
using internal::TrialWeights;

// Kernels whose work has weights, packed by the kernel that runs.
template <class K>
inline constexpr bool kHasWeights = std::is_same_v<typename K::Problem, DenseUpdateProblem>;

// Kernels that carry out a program, with its parameters.
template <class K>
inline constexpr bool kHasProgram = std::is_same_v<typename K::Problem, ExpressionProblem>;

template <class Problem>
int64_t SourcesOf(const Problem& problem) {
  if constexpr (requires { problem.cols; }) {
    return problem.cols;
  } else {
    return problem.rows;
  }
}

template <class K>
class TrialOf final : public Trial {
 public:
  Status Init(const TrialInput& input, const OperationKernels<K>& operation, const typename K::Problem& problem) {
    Collect(input, operation, problem);
    if (kernels_.empty()) {
      std::string reasons;
      for (const KernelRefusal& r : refused_)
        absl::StrAppend(&reasons, reasons.empty() ? "" : "; ", r.kernel, ": ", r.reason);
      return FailedPrecondition("KERNEL_REFUSED",
                                absl::StrCat("no kernel supports ", Describe(input.key), ": ", reasons));
    }
    Order(input);
    if (input.only_to_compare && num_to_run_ == 1) return OkStatus();
    if constexpr (kHasProgram<K>) VICINAL_RETURN_IF_ERROR(CompilePrograms(input, problem));
    VICINAL_RETURN_IF_ERROR(Admit(input, problem));
    VICINAL_RETURN_IF_ERROR(MakeLayouts(input, problem));
    Matrices matrices(input.device, pattern_);
    VICINAL_RETURN_IF_ERROR(PackWeights(input, problem));
    const int64_t turns = NumTurns(MatrixBytes(input, problem.rows, SourcesOf(problem)));
    for (int64_t turn = 0; turn < turns; ++turn) {
      VICINAL_ASSIGN_OR_RETURN(typename K::Args args, MakeArgs(input, problem, &matrices));
      args_.push_back(args);
    }
    const int64_t scratch = ScratchBytes(input, problem, num_to_run_);
    VICINAL_ASSIGN_OR_RETURN(scratch_, matrices.Allocate(scratch / static_cast<int64_t>(sizeof(float)) + 1));
    memory_ = matrices.Take();
    return OkStatus();
  }

  // Bypasses the registry's Launch: its counters count launches of requests.
  Status Run(int64_t candidate, int64_t turn, DeviceContext& context) const override {
    typename K::Args args = args_[turn % static_cast<int64_t>(args_.size())];
    args.config = candidates_[candidate].setting.config;
    if constexpr (requires { args.layout; }) args.layout = layouts_[candidate].get();
    if constexpr (kHasWeights<K>) args.weight = weights_[candidate];
    if constexpr (kHasProgram<K>) args.parameters = parameters_[candidate];
    VICINAL_RETURN_IF_ERROR(kernels_[candidate]->Run(context, args, scratch_));
    return context.Synchronize();
  }

  void Renew(int64_t turn, DeviceContext& context) const override {
    ThreadPool* const pool = context.thread_pool();
    if (pool == nullptr) return;
    const std::vector<Gathered> matrices = GatheredBy(args_[turn % static_cast<int64_t>(args_.size())]);
    for (const Gathered& gathered : matrices) {
      const int64_t pieces = (gathered.bytes + Pattern::kBytes - 1) / Pattern::kBytes;
      const int64_t renewed = kRenewedBytes / Pattern::kBytes / static_cast<int64_t>(matrices.size());
      const int64_t first = std::max<int64_t>(0, pieces - renewed);
      pool->ParallelFor(pieces - first, [&](int64_t task, int) {
        const int64_t at = (first + task) * Pattern::kBytes;
        std::memcpy(gathered.data + at, pattern_.data(), std::min(Pattern::kBytes, gathered.bytes - at));
      });
    }
  }

 private:
  void Collect(const TrialInput& input, const OperationKernels<K>& operation, const typename K::Problem& problem) {
    for (const auto& entry : operation.kernels()) {
      const K& kernel = entry->kernel();
      if (kernel.device() != input.device->kind()) continue;
      if (Refusal refusal = WhyNoCandidate(input, kernel, problem); !refusal.empty()) {
        refused_.push_back({std::string(kernel.name()), std::move(refusal)});
        continue;
      }
      if (kernel.fallback_only() && !candidates_.empty()) {
        refused_.push_back({std::string(kernel.name()), "rounds differently from the others"});
        continue;
      }
      if (!kernel.deterministic(KernelConfig())) {
        refused_.push_back({std::string(kernel.name()), "its bits may differ from run to run"});
        continue;
      }
      for (const KernelConfig& config : ConfigsOf(input, kernel, problem)) {
        if (!kernel.deterministic(config)) continue;
        TuningCandidate candidate;
        candidate.setting = {std::string(kernel.name()), config};
        candidate.parameters = NameParameters(kernel, config);
        if (std::string why = WhyQuarantined(input, candidate); !why.empty()) {
          refused_.push_back({std::string(kernel.name()), std::move(why)});
          continue;
        }
        candidate.whole_graph_only = kernel.whole_graph_only();
        candidate.predicted_seconds = kernel.PredictSeconds(problem, config, input.shape).value_or(0.0);
        candidates_.push_back(std::move(candidate));
        kernels_.push_back(&kernel);
      }
    }
  }

  // Asks first what is cheap to know. A kernel that lost the device is not asked whether it supports the work, which
  // may take runs; with parameters, others of its configurations may serve.
  static Refusal WhyNoCandidate(const TrialInput& input, const K& kernel, const typename K::Problem& problem) {
    for (const KernelRefusal& left_out : input.left_out)
      if (left_out.kernel == kernel.name()) return left_out.reason;
    if (Refusal refusal = kernel.WhyNotTried(problem); !refusal.empty()) return refusal;
    if (kernel.ParameterNames().empty()) {
      TuningCandidate only;
      only.setting.kernel = std::string(kernel.name());
      if (std::string why = WhyQuarantined(input, only); !why.empty()) return why;
    }
    return kernel.WhyUnsupported(problem);
  }

  // The configurations of `kernel` that are candidates. The default of the first kernel that has any is one always.
  std::vector<KernelConfig> ConfigsOf(const TrialInput& input, const K& kernel,
                                      const typename K::Problem& problem) const {
    std::vector<KernelConfig> configs = kernel.Candidates(problem);
    if (input.settings == nullptr) return configs;
    configs.resize(candidates_.empty() ? 1 : 0);
    for (const KernelSetting& setting : *input.settings) {
      const bool known = std::find(configs.begin(), configs.end(), setting.config) != configs.end();
      if (setting.kernel == kernel.name() && !known) configs.push_back(setting.config);
    }
    return configs;
  }

  static std::string WhyQuarantined(const TrialInput& input, const TuningCandidate& candidate) {
    if (input.first_runs == nullptr) return {};
    const std::string name = ConfigurationName(input.key, candidate);
    const std::string why = input.first_runs->WhyQuarantined(name);
    return why.empty() ? why : absl::StrCat(name, " is ", why);
  }

  // The default, then by prediction; marks candidates that do not run.
  void Order(const TrialInput& input) {
    std::vector<size_t> order(candidates_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin() + 1, order.end(), [&](size_t a, size_t b) {
      return candidates_[a].predicted_seconds < candidates_[b].predicted_seconds;
    });
    const std::vector<bool> run = ToBeRun(input, order);
    num_to_run_ = std::count(run.begin(), run.end(), true);
    std::stable_partition(order.begin(), order.end(), [&](size_t i) { return run[i]; });
    std::vector<TuningCandidate> candidates;
    std::vector<const K*> kernels;
    for (const size_t i : order) {
      if (!run[i]) candidates_[i].outcome = CandidateOutcome::kPruned;
      candidates.push_back(std::move(candidates_[i]));
      kernels.push_back(kernels_[i]);
    }
    candidates_ = std::move(candidates);
    kernels_ = std::move(kernels);
  }

  // Each kernel comes before a second setting of any: predictions compare settings of one kernel better than kernels,
  // and a kernel with many settings would crowd out the others. `order`: the default, then by prediction.
  std::vector<bool> ToBeRun(const TrialInput& input, const std::vector<size_t>& order) const {
    double best = std::numeric_limits<double>::infinity();
    for (const TuningCandidate& candidate : candidates_)
      if (candidate.predicted_seconds > 0.0) best = std::min(best, candidate.predicted_seconds);
    std::vector<bool> run(order.size(), false);
    std::set<const K*> seen;
    int64_t count = 0;
    for (const bool first_settings : {true, false}) {
      for (const size_t i : order) {
        const bool promising =
            input.settings != nullptr || i == order[0] || candidates_[i].predicted_seconds <= input.prune_factor * best;
        const bool full = input.settings == nullptr && count == input.most_run();
        if (run[i] || !promising || full) continue;
        if (first_settings && !seen.insert(kernels_[i]).second) continue;
        run[i] = true;
        ++count;
      }
    }
    return run;
  }

  // Scratch that suffices for each of the first `count` candidates.
  int64_t ScratchBytes(const TrialInput& input, const typename K::Problem& problem, int64_t count) const {
    size_t most = 0;
    for (int64_t c = 0; c < count; ++c) {
      most = std::max(most, kernels_[c]->ScratchBytes(problem, candidates_[c].setting.config,
                                                      std::max(1, input.shape.num_threads)));
    }
    return static_cast<int64_t>(most);
  }

  // Upper bound of the trial's bytes with the first `count` candidates.
  int64_t BytesBound(const TrialInput& input, const typename K::Problem& problem, int64_t count) const {
    const int64_t matrices = MatrixBytes(input, problem.rows, SourcesOf(problem));
    int64_t layouts = 0;
    std::set<std::pair<const K*, std::string>> names;
    for (int64_t c = 0; c < count; ++c) {
      std::string name = kernels_[c]->LayoutName(problem, candidates_[c].setting.config);
      if (name.empty() || !names.emplace(kernels_[c], std::move(name)).second) continue;
      if constexpr (requires { problem.edges; }) layouts += kernels_[c]->LayoutBytesBound(problem.rows, problem.edges);
    }
    return NumTurns(matrices) * matrices + layouts + WeightBytes(input, problem, count) +
           ScratchBytes(input, problem, count) + static_cast<int64_t>(sizeof(float));
  }

  // Of the packed weights of the first `count` candidates, each of its own.
  int64_t WeightBytes(const TrialInput& input, const typename K::Problem& problem, int64_t count) const {
    int64_t bytes = 0;
    for (int64_t c = 0; c < count; ++c) {
      if constexpr (kHasWeights<K>) {
        bytes += static_cast<int64_t>(kernels_[c]->PackedBytes(problem.out_width, problem.in_width));
      } else if constexpr (kHasProgram<K>) {
        bytes += TrialWeights::ParameterBytes(*input.program, *kernels_[c], problem, candidates_[c].setting.config);
      }
    }
    return bytes;
  }

  // Weights of the pattern's values, packed for each candidate that runs.
  Status PackWeights(const TrialInput& input, const typename K::Problem& problem) {
    for (int64_t c = 0; c < num_to_run_; ++c) {
      if constexpr (kHasWeights<K>) {
        VICINAL_ASSIGN_OR_RETURN(const void* const weight,
                                 packed_.Pack(input.device, *kernels_[c], problem.out_width, problem.in_width));
        weights_.push_back(weight);
      } else if constexpr (kHasProgram<K>) {
        VICINAL_ASSIGN_OR_RETURN(auto parameters,
                                 packed_.Parameters(input, *kernels_[c], problem, candidates_[c].setting.config));
        parameters_.push_back(std::move(parameters));
      }
    }
    return OkStatus();
  }

  // One at a time, so that the program of a new plan waits for one of them at most. What was compiled stays loaded as
  // long as the trial.
  Status CompilePrograms(const TrialInput& input, const typename K::Problem& problem) {
    if (!input.await_code || num_to_run_ == 1) return OkStatus();
    for (int64_t c = 0; c < num_to_run_; ++c) {
      auto compilation = CompileExpression(*kernels_[c], problem, candidates_[c].setting.config);
      if (compilation == nullptr) continue;
      VICINAL_RETURN_IF_ERROR(input.await_code(*compilation));
      compilations_.push_back(std::move(compilation));
    }
    return OkStatus();
  }

  // Removes candidates with which the trial would be too large, except for the default.
  Status Admit(const TrialInput& input, const typename K::Problem& problem) {
    if (!input.admit || input.admit(BytesBound(input, problem, num_to_run_)).ok()) return OkStatus();
    VICINAL_RETURN_IF_ERROR(input.admit(BytesBound(input, problem, 1)));
    for (int64_t candidate = 1; candidate < num_to_run_;) {
      const Status admitted = input.admit(BytesBound(input, problem, candidate + 1));
      if (admitted.ok()) {
        ++candidate;
      } else {
        Prune(candidate, std::string(admitted.message()));
      }
    }
    return OkStatus();
  }

  // Makes the layouts of the candidates that run. Removes candidates whose layout fails, except for the default.
  Status MakeLayouts(const TrialInput& input, const typename K::Problem& problem) {
    LayoutSource source(input.adjacency, input.blocks, *input.device);
    std::vector<std::string> names;
    int64_t candidate = 0;
    while (candidate < num_to_run_) {
      const K& kernel = *kernels_[candidate];
      const std::string name = kernel.LayoutName(problem, candidates_[candidate].setting.config);
      AdjacencyLayoutRef layout;
      for (int64_t c = 0; c < candidate && !name.empty(); ++c) {
        if (kernels_[c] == &kernel && names[c] == name) layout = layouts_[c];
      }
      if (layout == nullptr && !name.empty()) {
        auto made = kernel.MakeLayout(problem, candidates_[candidate].setting.config, source);
        if (!made.ok() && candidate == 0) return made.status();
        if (!made.ok()) {
          Prune(candidate, std::string(made.status().message()));
          continue;
        }
        layout = *std::move(made);
      }
      names.push_back(name);
      layouts_.push_back(std::move(layout));
      ++candidate;
    }
    return OkStatus();
  }

  // Removes a candidate from those that run, with the reason.
  void Prune(int64_t candidate, std::string reason) {
    candidates_[candidate].outcome = CandidateOutcome::kPruned;
    refused_.push_back({candidates_[candidate].setting.kernel, std::move(reason)});
    std::rotate(candidates_.begin() + candidate, candidates_.begin() + candidate + 1,
                candidates_.begin() + num_to_run_);
    std::rotate(kernels_.begin() + candidate, kernels_.begin() + candidate + 1, kernels_.begin() + num_to_run_);
    --num_to_run_;
  }

  const Pattern pattern_;
  std::vector<const K*> kernels_;                            // of each candidate
  std::vector<AdjacencyLayoutRef> layouts_;                  // of each candidate that runs; null: it needs none
  std::vector<const void*> weights_;                         // of each candidate that runs, if kHasWeights
  std::vector<TrialWeights::ProgramParameters> parameters_;  // likewise, if kHasProgram
  std::vector<std::unique_ptr<ExpressionCompilation>> compilations_;
  std::vector<typename K::Args> args_;  // by turn
  void* scratch_ = nullptr;
  std::vector<Buffer> memory_;
  TrialWeights packed_{pattern_};
};

}  // namespace

StatusOr<std::unique_ptr<Trial>> Trial::Make(const TrialInput& input) {
  const CsrView& adjacency = input.adjacency;
  const auto make = [&]<class K>(const OperationKernels<K>& operation,
                                 const typename K::Problem& problem) -> StatusOr<std::unique_ptr<Trial>> {
    auto trial = std::make_unique<TrialOf<K>>();
    VICINAL_RETURN_IF_ERROR(trial->Init(input, operation, problem));
    return std::unique_ptr<Trial>(std::move(trial));
  };
  if (IsExpression(input.key)) {
    VICINAL_CHECK(input.program != nullptr);
    return make(input.registry->expression,
                ExpressionProblemOf(*input.program, adjacency.rows, adjacency.cols, adjacency.nnz));
  }
  return WithProblem(*input.registry, input.key, adjacency.rows, adjacency.cols, adjacency.nnz, make);
}

}  // namespace vicinal
