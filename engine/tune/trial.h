// SPDX-License-Identifier: Apache-2.0
// What is measured for one key on one graph: the real adjacency, matrices of the real sizes filled with the same values
// each time, and the candidates: every configuration of every kernel of the device that takes the work.
//
// What a run finds in the caches is what a plan would leave there, not what another candidate left. Small matrices are
// there several times and taken in turn: in a plan, other steps run between two runs of a step and push its rows out of
// the nearest cache, so running a candidate over and over on the same few kilobytes would flatter those that need them
// there. And before each run its sources are written anew (Renew), as the step before would have: candidates
// that store past the caches, or do not, would else help or harm whoever comes next by several percent.
//
// What kernels prepare from the adjacency (layouts) is made for the candidates that are to be run, each once, and goes
// with the trial: the graph keeps only that of the choice.
#ifndef VICINAL_ENGINE_TUNE_TRIAL_H_
#define VICINAL_ENGINE_TUNE_TRIAL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/api/tuning.h"
#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/kernels/registry.h"
#include "engine/tune/prior.h"

namespace vicinal {

// Candidates whose predicted time is this many times the best prediction are not run, unless they are the default.
inline constexpr double kPruneFactor = 3.0;
// At most so many are run: of each kernel the one predicted fastest, then whatever is.
inline constexpr int64_t kMaxCandidates = 12;
// On a GPU there are more families, and their runs are short.
inline constexpr int64_t kMaxGpuCandidates = 24;

struct TrialInput {
  TuningKey key;
  // On the device; must outlive the trial. With values where the key's weights are kPerEdge, else without.
  CsrView adjacency;
  // Blocks of its rows, for kernels that want them (LayoutSource::blocks); must outlive the trial.
  std::span<const int64_t> blocks;
  Device* device = nullptr;
  WorkShape shape;  // rows, cols and edges are the adjacency's
  const KernelRegistry* registry = nullptr;
  // Asked, before any of it is allocated, for all that the trial would hold at most: matrices with their copies,
  // layouts and scratch, in bytes. Candidates for which it refuses are pruned, with its words, and it is asked again
  // without them. Empty: whatever it takes.
  std::function<Status(int64_t bytes)> admit;
  // What is run; a search of everything sets both out of reach.
  double prune_factor = kPruneFactor;
  int64_t max_candidates = 0;  // 0: as many as pay on `device`

  int64_t most_run() const {
    if (max_candidates > 0) return max_candidates;
    return device->kind() == DeviceKind::kCpu ? kMaxCandidates : kMaxGpuCandidates;
  }
};

class Trial {
 public:
  // RESOURCE_EXHAUSTED: no memory. FAILED_PRECONDITION: no kernel takes the work. Errors of input.admit where not even
  // the default fits. Touches all that it holds; on any thread.
  static StatusOr<std::unique_ptr<Trial>> Make(const TrialInput& input);

  virtual ~Trial() = default;

  // The default first, then those to be run by rising prediction, then the pruned.
  const std::vector<TuningCandidate>& candidates() const { return candidates_; }
  int64_t num_to_run() const { return num_to_run_; }
  const std::vector<KernelRefusal>& refused() const { return refused_; }

  // Runs a candidate once and waits for it. `turn` says on which of the matrices. On the thread of `context`.
  // REQUIRES: 0 <= candidate < num_to_run().
  virtual Status Run(int64_t candidate, int64_t turn, DeviceContext& context) const = 0;

  // Writes the sources of a turn anew, with the same values: those that come last, as much as caches hold. Nothing on a
  // GPU. On the thread of `context`.
  virtual void Renew(int64_t turn, DeviceContext& context) const = 0;

 protected:
  std::vector<TuningCandidate> candidates_;
  int64_t num_to_run_ = 0;
  std::vector<KernelRefusal> refused_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNE_TRIAL_H_
