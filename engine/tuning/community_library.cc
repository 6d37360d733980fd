// SPDX-License-Identifier: Apache-2.0
#include "engine/tuning/community_library.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/tune/trial.h"

namespace vicinal {
namespace {

constexpr int64_t kSmallest = 16, kUsual = 64, kLargest = 256;
// Nodes of all communities together, and floats that a run gathers: so many that a GPU is busy, and that a CPU takes
// about a millisecond.
constexpr int64_t kNodes = 1024, kGathered = int64_t{1} << 22;
// Random settings of each kernel, at each density; the shortest of so many runs counts.
constexpr size_t kSettings = 8;
constexpr int kRuns = 3;
// Kinds of work that are kept.
constexpr size_t kMostKept = 256;

constexpr char kCommunities[] = "communities to tune on";

std::string NameOf(const TuningKey& key, int64_t size) {
  return absl::StrCat(Describe(key), ", concat ", key.concat, ", storage ", std::string(ToString(key.storage)),
                      ", communities of ", size);
}

// The measurement of one kind of work.
class Profile {
 public:
  Profile(const TuningTools& tools, const EstimateInput& input, double budget_seconds, LeasedRuns* runs)
      : tools_(tools), input_(input), runs_(*runs), end_seconds_(runs->used_seconds() + budget_seconds) {}

  StatusOr<CommunityFindings> Measure(int64_t size) {
    const int64_t columns = input_.key.width * input_.key.heads;
    const int64_t fitting = kGathered / (size * size * columns);
    const int64_t count = std::clamp<int64_t>(std::min(kNodes / size, fitting), 1, kNodes / kSmallest);
    std::vector<std::vector<CommunityRun>> runs;
    for (const double density : kCommunityDensities) {
      VICINAL_ASSIGN_OR_RETURN(std::vector<CommunityRun> some, MeasureDensity(size, count, density));
      runs.push_back(std::move(some));
    }
    return FindingsOf(runs);
  }

  // Whether no run was left out for want of time or because of requests.
  bool complete() const { return complete_; }

 private:
  StatusOr<std::vector<CommunityRun>> MeasureDensity(int64_t size, int64_t count, double density) {
    const bool weighted = input_.key.weights == EdgeWeights::kPerEdge;
    const Csr csr = MakeCommunities(size, count, density, weighted, input_.random);
    EstimateInput input = input_;
    input.shape.rows = input.shape.cols = csr.num_rows;
    input.shape.edges = csr.nnz();
    input.shape.degree_deviation = 0.0;
    input.shape.reuse = {};
    std::vector<CommunityRun> settings = RandomSettings(input, kSettings);
    if (settings.empty()) return settings;
    VICINAL_ASSIGN_OR_RETURN(Reservation memory,
                             tools_.budget->Reserve(Account::kTuning, csr.size_bytes(), kCommunities));
    VICINAL_ASSIGN_OR_RETURN(const std::shared_ptr<const DeviceCsr> adjacency, DeviceCsr::Upload(csr, *tools_.device));
    VICINAL_ASSIGN_OR_RETURN(const std::unique_ptr<Trial> trial, MakeTrial(input, *adjacency, settings, &memory));
    const auto floats = static_cast<double>(csr.nnz() * input_.key.width * input_.key.heads);
    for (CommunityRun& run : settings) {
      VICINAL_ASSIGN_OR_RETURN(const double seconds, Shortest(*trial, run.setting));
      run.floats_per_second = seconds > 0.0 ? floats / seconds : 0.0;
    }
    return settings;
  }

  StatusOr<std::unique_ptr<Trial>> MakeTrial(const EstimateInput& estimate, const DeviceCsr& adjacency,
                                             const std::vector<CommunityRun>& runs, Reservation* memory) const {
    std::vector<KernelSetting> settings;
    settings.reserve(runs.size());
    for (const CommunityRun& run : runs) settings.push_back(run.setting);
    TrialInput input;
    input.key = estimate.key;
    input.adjacency = adjacency.view();
    input.device = tools_.device;
    input.shape = estimate.shape;
    input.registry = tools_.registry;
    input.first_runs = tools_.first_runs;
    input.settings = &settings;
    const int64_t own = adjacency.size_bytes();
    input.admit = [this, own, memory](int64_t bytes) -> Status {
      VICINAL_ASSIGN_OR_RETURN(
          *memory, tools_.budget->Reserve(Account::kTuning, own + bytes, kCommunities, {.consumed = memory}));
      return OkStatus();
    };
    return Trial::Make(input);
  }

  // 0: it was not measured, because the time is over, its layout failed, or requests came.
  StatusOr<double> Shortest(const Trial& trial, const KernelSetting& setting) {
    std::optional<double> shortest;
    for (int candidate = 0; candidate < trial.num_to_run(); ++candidate) {
      if (trial.candidates()[candidate].setting != setting) continue;
      for (int run = 0; run < kRuns && runs_.used_seconds() < end_seconds_; ++run) {
        VICINAL_ASSIGN_OR_RETURN(const LeasedRuns::Sampled sampled, runs_.Sample(trial, candidate, run));
        if (!sampled.seconds.has_value()) continue;
        shortest = std::min(shortest.value_or(*sampled.seconds), *sampled.seconds);
      }
      complete_ = complete_ && shortest.has_value();
    }
    return shortest.value_or(0.0);
  }

  const TuningTools& tools_;
  const EstimateInput& input_;
  LeasedRuns& runs_;
  const double end_seconds_;
  bool complete_ = true;
};

}  // namespace

int64_t TypicalCommunity(const CommunityProfile& profile) {
  if (!profile.known || profile.size_quantiles[0] <= 0) return kUsual;
  const int64_t median = std::clamp(profile.size_quantiles[0], kSmallest, kLargest);
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(median)));
}

StatusOr<const CommunityFindings*> CommunityLibrary::Find(const TuningTools& tools, const EstimateInput& input,
                                                          int64_t size, double budget_seconds, LeasedRuns* runs) {
  const std::string name = NameOf(input.key, size);
  if (const auto found = findings_.find(name); found != findings_.end()) return &found->second;
  Profile profile(tools, input, budget_seconds, runs);
  VICINAL_ASSIGN_OR_RETURN(incomplete_, profile.Measure(size));
  if (!profile.complete()) return &incomplete_;
  if (findings_.size() >= kMostKept) findings_.clear();
  return &(findings_[name] = std::move(incomplete_));
}

}  // namespace vicinal
