// SPDX-License-Identifier: Apache-2.0
// A random history of a state directory, and what must be true of it after any crash: all that was reported durable is
// there with equal bytes, nothing else is but what was under way, and no reserved version comes again.
#ifndef VICINAL_TESTS_ENGINE_STATE_HISTORY_H_
#define VICINAL_TESTS_ENGINE_STATE_HISTORY_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/state/state_directory.h"
#include "tests/engine/state/simulated_file_system.h"
#include "tests/split_mix.h"

namespace vicinal::state {

// The contents of a version: a function of its id.
std::string ContentsOf(const VersionId& id);
// Reads all of a version. Fails unless it has exactly those contents.
Status CheckContents(const StateDirectory& directory, const Manifest& manifest);
// Writes and publishes it.
Status PublishVersion(StateDirectory& directory, const VersionId& id);

class History {
 public:
  explicit History(uint64_t seed) : random_(seed), files_(std::make_unique<SimulatedFileSystem>()) {}

  SimulatedFileSystem& files() { return *files_; }
  testing::SplitMix64& random() { return random_; }
  void Open();
  // One random operation. Failures are what an injected fault or a kill makes of it.
  void Step();
  // Ends the process, as kill -9 does, and starts the next one.
  void Restart();
  // Goes on with what a power failure left.
  void CutPower();
  // Checks what a power failure now would leave. Any number of times, also within a Step.
  void CheckCrash();
  int64_t crashes() const { return crashes_; }
  int64_t published() const { return static_cast<int64_t>(durable_.size()); }

 private:
  void CheckState(SimulatedFileSystem& files, bool adopt);
  void Publish(Store store);
  void Remove();
  void Forget();
  void CheckLost(const StateDirectory& directory) const;
  int64_t Reserve(Store store);
  const VersionId* Pick(Store store);
  bool GraphIsGone(const VersionId& id) const;

  testing::SplitMix64 random_;
  std::unique_ptr<SimulatedFileSystem> files_;
  std::unique_ptr<StateDirectory> directory_;
  std::set<VersionId> durable_;    // reported durable
  std::set<VersionId> uncertain_;  // whose publication or removal is under way, or failed
  std::set<VersionId> lost_;       // quarantined, and not forgotten since
  std::set<VersionId> forgotten_;  // were in lost_
  std::map<Store, int64_t> reserved_;
  int64_t crashes_ = 0;
};

}  // namespace vicinal::state

#endif  // VICINAL_TESTS_ENGINE_STATE_HISTORY_H_
