// SPDX-License-Identifier: Apache-2.0
// The measurement of one key on one graph: the real adjacency, matrices of the real sizes filled with fixed values, and
// the candidates: all configurations of all kernels of the device that support the work. Products and programs have
// weights of fixed values, packed as each kernel wants them; products, if their key has an epilogue, a bias and ReLU.
//
// The caches before a run resemble those in a plan. In a plan, other steps run between two runs of a step and evict its
// rows from the nearest cache; repeating a candidate on the same few kilobytes would favour kernels that need them
// there. Therefore small matrices exist several times and are used in turn. Before each run its sources are rewritten
// (Renew), as the previous step of a plan would do; otherwise the previous candidate's kind of stores (cached or
// non-temporal) would change times by several percent.
//
// Layouts are made once for each candidate that runs, and are freed with the trial. The graph keeps only the layout of
// the winner.
#ifndef VICINAL_ENGINE_TUNE_TRIAL_H_
#define VICINAL_ENGINE_TUNE_TRIAL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/api/tuning.h"
#include "engine/base/edge_program.h"
#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/kernels/expression_form.h"
#include "engine/kernels/registry.h"
#include "engine/tune/first_runs.h"
#include "engine/tune/prior.h"

namespace vicinal {

// Candidates whose predicted time exceeds this multiple of the best prediction are not run, except for the default.
inline constexpr double kPruneFactor = 3.0;
// Maximum number of candidates that run: the best predicted setting of each kernel first, then the best others.
inline constexpr int64_t kMaxCandidates = 12;
// The same on a GPU, which has more kernel families and shorter runs.
inline constexpr int64_t kMaxGpuCandidates = 24;

struct TrialInput {
  TuningKey key;
  std::shared_ptr<const EdgeProgram> program;  // of expressions, which need it; otherwise null
  // On the device; must outlive the trial. Has values only if the key's weights are kPerEdge. Of products only `rows`
  // is read.
  CsrView adjacency;
  // Blocks of its rows for layouts (LayoutSource::blocks); must outlive the trial.
  std::span<const int64_t> blocks;
  Device* device = nullptr;
  WorkShape shape;  // with the adjacency's rows, cols and edges
  const KernelRegistry* registry = nullptr;
  const FirstRuns* first_runs = nullptr;  // whose quarantined configurations are no candidates; null: none are
  // Kernels that are no candidates, with reasons. They are asked nothing, because the answer may take runs.
  std::vector<KernelRefusal> left_out;
  // Called before allocation with an upper bound of the trial's bytes: matrices with their copies, layouts, scratch. On
  // an error, candidates are pruned with its message, and it is called again for the remaining ones. Empty: no limit.
  std::function<Status(int64_t bytes)> admit;
  // Called with the code that each candidate's program is compiled to, one after the other, before `admit`: to wait for
  // its end, so that what is measured is what serves. An error ends Make. Empty: nothing is compiled.
  std::function<Status(const ExpressionCompilation& compilation)> await_code;
  // Only these, with the default, are candidates, as far as kernels support them, and all of them run. Null: all
  // configurations in Kernel::Candidates.
  const std::vector<KernelSetting>* settings = nullptr;
  // True: no memory for one candidate alone, with which there is nothing to compare. It must not run.
  bool only_to_compare = false;
  // Limits of the candidates that run; an exhaustive search makes both very large.
  double prune_factor = kPruneFactor;
  int64_t max_candidates = 0;  // 0: the default for `device`

  int64_t most_run() const {
    if (max_candidates > 0) return max_candidates;
    return device->kind() == DeviceKind::kCpu ? kMaxCandidates : kMaxGpuCandidates;
  }
};

class Trial {
 public:
  // RESOURCE_EXHAUSTED: out of memory. FAILED_PRECONDITION: no kernel supports the work. Errors of input.admit if not
  // even the default fits, and of input.await_code. Touches all of its memory; may be called on any thread.
  static StatusOr<std::unique_ptr<Trial>> Make(const TrialInput& input);

  virtual ~Trial() = default;

  // The default first, then those that run by ascending prediction, then the pruned ones.
  const std::vector<TuningCandidate>& candidates() const { return candidates_; }
  int64_t num_to_run() const { return num_to_run_; }
  const std::vector<KernelRefusal>& refused() const { return refused_; }

  // Runs a candidate once on the matrices of `turn`, and waits for it. On the thread of `context`.
  // REQUIRES: 0 <= candidate < num_to_run().
  virtual Status Run(int64_t candidate, int64_t turn, DeviceContext& context) const = 0;

  // Rewrites the last sources of a turn, as many as the caches hold, with the same values. Does nothing on a GPU. On
  // the thread of `context`.
  virtual void Renew(int64_t turn, DeviceContext& context) const = 0;

 protected:
  std::vector<TuningCandidate> candidates_;
  int64_t num_to_run_ = 0;
  std::vector<KernelRefusal> refused_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNE_TRIAL_H_
