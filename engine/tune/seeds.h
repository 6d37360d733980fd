// SPDX-License-Identifier: Apache-2.0
// What was decided on some graphs, for others with a similar profile: the choices that these serve with until they are
// measured themselves. docs/tuning.md, "Seeds", defines similarity.
#ifndef VICINAL_ENGINE_TUNE_SEEDS_H_
#define VICINAL_ENGINE_TUNE_SEEDS_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "engine/api/graph_profile.h"
#include "engine/base/mutex.h"
#include "engine/tune/table.h"

namespace vicinal {

// 0 for equal profiles; graphs of at most kSimilar are similar. Symmetric. Compares what decides which kernel is
// fastest: size, degrees and their spread, and the locality in execution order.
double ProfileDistance(const GraphProfile& a, const GraphProfile& b);
inline constexpr double kSimilar = 1.0;

// Thread-safe. Holds the latest kMaxLearnt graphs by name.
class SeedLibrary {
 public:
  static constexpr size_t kMaxLearnt = 512;

  // Remembers the measured choices among `decided` (TuningTable::Decided) as those of the graph `name`, in place of
  // what was known of it. Does nothing if none was measured.
  void Learn(const std::string& name, const GraphProfile& profile, const std::vector<TuningEntry>& decided);
  // For each key the choice of the most similar graph that has it, as entries for TuningTable::Seed. Empty: no graph is
  // similar.
  std::vector<TuningEntry> For(const GraphProfile& profile) const;

 private:
  struct Learnt {
    std::string name;
    GraphProfile profile;
    std::vector<TuningEntry> choices;
  };

  mutable Mutex mutex_;
  std::deque<Learnt> learnt_ VICINAL_GUARDED_BY(mutex_);  // the latest last
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNE_SEEDS_H_
