// SPDX-License-Identifier: Apache-2.0
// Runs the stages of preparation in order: times each, reports it, and tracks progress.
#ifndef VICINAL_ENGINE_PREPARE_STAGES_H_
#define VICINAL_ENGINE_PREPARE_STAGES_H_

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/prepare/prepare.h"

namespace vicinal::internal {

inline constexpr std::array<std::string_view, 6> kStages = {"assemble", "validate", "csr",
                                                            "renumber", "profile",  "publish"};

// The status of a preparation that was given up (ChooseOptions::given_up).
inline Status NobodyWaits() {
  ErrorDetail detail;
  detail.reason = "CANCELLED";
  return MakeError(StatusCode::kCancelled, "given up: the graph was deleted, or the server stops", detail);
}

// Not thread-safe. `context` must outlive it.
class Stages {
 public:
  explicit Stages(const PrepareContext& context) : context_(context) {}

  // Runs `body` as the stage of that name, which must be the next of kStages, and returns its StatusOr.
  // A failing stage is timed, too, but preparation ends there, and on_progress is not called. Without running `body`,
  // CANCELLED if preparation was given up.
  template <class Body>
  auto Run(std::string_view stage, const Body& body) -> decltype(body()) {
    VICINAL_CHECK(stage == kStages[times_.size()]);
    if (IsGivenUp(context_.choose.given_up)) return NobodyWaits();
    const MonotonicTime begin = context_.clock->Now();
    auto result = body();
    Record(stage, SecondsBetween(begin, context_.clock->Now()));
    if (result.ok()) TellProgress();
    return result;
  }

  std::vector<StageTime> TakeTimes() { return std::move(times_); }

 private:
  void Record(std::string_view stage, double seconds) {
    context_.stats->StageSeconds(stage, seconds);
    times_.push_back({std::string(stage), seconds});
  }
  void TellProgress() {
    if (!context_.on_progress) return;
    const size_t done = times_.size();
    context_.on_progress(static_cast<double>(done) / kStages.size(), done < kStages.size() ? kStages[done] : "");
  }

  const PrepareContext& context_;
  std::vector<StageTime> times_;
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PREPARE_STAGES_H_
