// SPDX-License-Identifier: Apache-2.0
#include "engine/tuning/tuning_session.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/error.h"
#include "engine/tune/contest.h"
#include "engine/tune/estimate.h"
#include "engine/tune/prior.h"
#include "engine/tune/program_work.h"
#include "engine/tune/sample_rows.h"
#include "engine/tune/trial.h"
#include "engine/tune/work.h"
#include "engine/tuning/community_library.h"
#include "engine/tuning/expression_work.h"
#include "engine/tuning/graph_shape.h"
#include "engine/tuning/leased_runs.h"
#include "engine/tuning/product_work.h"

namespace vicinal {
namespace {

// Assumed seconds of a run if the first one was disturbed.
constexpr double kUnknownRun = 100e-6;
// Background tuning may run this many rounds even if the budget is too small for them.
constexpr double kRoundsAtLeast = 10.0;
// A kernel without support for receptive fields must be this many times as fast as the others, because with it a query
// for a few nodes computes all nodes. On an H200 that is 14 times as much for one node of amazon0505, and nothing on
// reddit, where the field of one node is half of the graph and dense_tiles is 1.3 times as fast as rows.
constexpr double kWholeGraphHandicap = 1.25;
// Rounds before the first candidate is eliminated, if half of the budget suffices for them.
constexpr double kPatientRounds = 60.0;
// Rounds that confirm an estimate.
constexpr int kConfirmingRounds = 10;
// Part of a budget that may go into communities.
constexpr double kCommunityShare = 0.5;
// More dropped runs than this share of all: the device is too busy to be measured on.
constexpr double kBusyShare = 0.5;

constexpr char kTuningThisGraph[] = "tuning this graph";

class Session {
 public:
  // `why`: why it is estimated, for users; empty: because that was asked for.
  Session(const TuningTools& tools, const TuningJob& job, TuningStrategy strategy, std::string why, LeasedRuns* runs)
      : tools_(tools),
        job_(job),
        why_(std::move(why)),
        runs_(*runs),
        used_before_(runs->used_seconds()),
        samples_before_(runs->samples()),
        dropped_before_(runs->dropped()) {
    record_.key = job.work.key;
    record_.strategy = has_models() ? strategy : TuningStrategy::kMeasured;
    record_.budget_seconds = std::chrono::duration<double>(job.budget).count();
  }

  // As TuningOutcome::record.
  StatusOr<TuningRecord> Run() {
    if (expression() && job_.work.program == nullptr) return NoSuchProgram();
    Status status = Prepare();
    if (status.ok()) status = Measure();
    if (GaveUp(status)) return status;
    if (!status.ok()) {
      record_.state = TuningState::kFailed;
      record_.note = std::string(status.message());
    } else {
      Judge();
    }
    record_.used_seconds = runs_.used_seconds();
    record_.finish_time = tools_.clock->WallNow();
    return std::move(record_);
  }

  // After Run: measurements decided nothing, because most of them were disturbed.
  bool too_busy() const { return too_busy_; }

 private:
  static bool GaveUp(const Status& status) {
    return status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kCancelled;
  }

  Status Prepare() {
    VICINAL_ASSIGN_OR_RETURN(const CsrView whole, WholeAdjacency());
    TrialInput input;
    input.key = job_.work.key;
    input.adjacency = whole;
    input.blocks = job_.graph->parts().blocks;
    input.device = tools_.device;
    input.registry = tools_.registry;
    input.first_runs = tools_.first_runs;
    input.admit = [this](int64_t bytes) { return ReserveTrial(bytes + sampled_.bytes()); };
    input.await_code = [this](const ExpressionCompilation& compilation) { return code_.Await(compilation, runs_); };
    input.shape = ShapeOf(*job_.graph, whole, runs_.num_threads());
    input.program = job_.work.program;
    const double predicted = PredictRun(input);
    if (!job_.strategy.has_value() && !estimated() && has_models() && predicted > kTooLargeRuns * kMaxRunSeconds) {
      record_.strategy = TuningStrategy::kEstimated;
      why_ = "too large to be measured";
    }
    if (estimated()) {
      VICINAL_RETURN_IF_ERROR(EstimateFor(input.shape));
      input.settings = &estimate_.settings;
    }
    if (predicted > kMaxRunSeconds) {
      share_ = kMaxRunSeconds / predicted;
      VICINAL_ASSIGN_OR_RETURN(sampled_, SampleRows(whole, share_, *tools_.device));
      // The share of edges, exactly; the sampled rows may have no edges at all.
      if (sampled_.view.nnz > 0) share_ = static_cast<double>(sampled_.view.nnz) / static_cast<double>(whole.nnz);
      input.adjacency = sampled_.view;
      input.blocks = {};  // they are of all rows
      input.shape.rows = sampled_.view.rows;
      input.shape.edges = sampled_.view.nnz;
    }
    if (product()) {
      VICINAL_ASSIGN_OR_RETURN(share_, PrepareProduct(tools_, &runs_, &input));
      used_before_ = runs_.used_seconds();  // preparing happens once per process, and is no part of the budget
    }
    VICINAL_ASSIGN_OR_RETURN(trial_, Trial::Make(input));
    record_.candidates = trial_->candidates();
    record_.refused = trial_->refused();
    record_.incomplete = !input.left_out.empty();
    left_out_ = NoteOnLeftOut(input.left_out);
    dropped_of_.assign(record_.candidates.size(), 0);
    contest_.emplace(num_to_run());
    return OkStatus();
  }

  bool estimated() const { return record_.strategy == TuningStrategy::kEstimated; }
  bool product() const { return IsProduct(record_.key); }
  bool expression() const { return IsExpression(record_.key); }
  // Products and expressions have few candidates and no models to rank them by.
  bool has_models() const { return !product() && !expression(); }

  // 0: unknown.
  double PredictRun(const TrialInput& input) const {
    if (expression()) return PredictProgramSeconds(input);
    return PredictDefaultSeconds(*tools_.registry, tools_.device->kind(), input.key, input.shape).value_or(0.0);
  }

  // Fills in estimate_, from communities and models.
  Status EstimateFor(const WorkShape& shape) {
    EstimateInput input;
    input.key = job_.work.key;
    input.shape = shape;
    input.device = tools_.device->kind();
    input.registry = tools_.registry;
    input.first_runs = tools_.first_runs;
    input.random = tools_.random;
    const int64_t size = TypicalCommunity(job_.graph->parts().profile.communities);
    const double before = runs_.used_seconds();
    VICINAL_ASSIGN_OR_RETURN(
        input.findings,
        tools_.communities->Find(tools_, input, size, kCommunityShare * record_.budget_seconds, &runs_));
    record_.profile_seconds = runs_.used_seconds() - before;
    input.random = tools_.random;  // the search does not depend on whether communities were measured just now
    const MonotonicTime begin = tools_.clock->Now();
    estimate_ = EstimateSettings(input);
    record_.model_seconds = SecondsBetween(begin, tools_.clock->Now());
    record_.modelled = estimate_.modelled;
    return OkStatus();
  }

  // Replaces the previous reservation, so that the old and the new bytes need not fit together.
  Status ReserveTrial(int64_t bytes) {
    VICINAL_ASSIGN_OR_RETURN(memory_,
                             tools_.budget->Reserve(Account::kTuning, bytes, kTuningThisGraph, {.consumed = &memory_}));
    return OkStatus();
  }

  StatusOr<CsrView> WholeAdjacency() {
    const PreparedGraph& graph = *job_.graph;
    if (product()) return CsrView{graph.num_nodes(), graph.num_nodes()};
    const AdjacencySpec& spec = job_.work.adjacency;
    const int64_t bytes = graph.Holds(spec) ? 0 : graph.ShapeOf(spec).bytes;
    VICINAL_ASSIGN_OR_RETURN(Reservation derived, tools_.budget->Reserve(Account::kTuning, bytes, kTuningThisGraph));
    VICINAL_ASSIGN_OR_RETURN(adjacency_, graph.Adjacency(spec));
    graph.SettleReservation(&derived);
    return adjacency_->view();
  }

  Status Measure() {
    if (num_to_run() == 1) return OkStatus();
    // A warm-up run, which also predicts the cost of a round.
    VICINAL_ASSIGN_OR_RETURN(const std::optional<double> first, Sample(0));
    const double run = std::max(first.value_or(kUnknownRun), 1e-9);
    double budget = record_.budget_seconds;
    if (!job_.ordered) budget = std::max(budget, kRoundsAtLeast * run * num_to_run());
    contest_.emplace(num_to_run(), RulesFor(budget, run));
    while (runs_.used_seconds() - used_before_ < budget) {
      const std::vector<int> order = contest_->NextRound();
      if (order.empty()) return OkStatus();
      std::vector<std::optional<double>> seconds;
      for (const int candidate : order) {
        VICINAL_ASSIGN_OR_RETURN(const std::optional<double> sample, Sample(candidate));
        seconds.push_back(sample);
      }
      contest_->AddRound(seconds);
    }
    return OkStatus();
  }

  int num_to_run() const { return static_cast<int>(trial_->num_to_run()); }

  // With many candidates, one may look best by chance. If runs are short, the budget allows more rounds before the
  // first elimination.
  ContestOptions RulesFor(double budget, double run) const {
    ContestOptions rules;
    const double rounds = 0.5 * budget / (run * num_to_run());
    const double patient = estimated() ? rules.min_rounds : kPatientRounds;
    rules.min_rounds = static_cast<int>(std::clamp<double>(rounds, rules.min_rounds, patient));
    if (estimated()) rules.max_rounds = kConfirmingRounds;
    for (int c = 0; c < num_to_run(); ++c) rules.handicaps.push_back(HandicapOf(record_.candidates[c]));
    return rules;
  }

  double HandicapOf(const TuningCandidate& candidate) const {
    if (candidate.whole_graph_only) return kWholeGraphHandicap;
    const bool alike = !product() || AddAlike(tools_, record_.key, job_.graph->num_nodes(), candidate.setting,
                                              record_.candidates[0].setting);
    return alike ? 1.0 : kOtherOrderHandicap;
  }

  StatusOr<std::optional<double>> Sample(int candidate) {
    VICINAL_ASSIGN_OR_RETURN(const LeasedRuns::Sampled sampled, runs_.Sample(*trial_, candidate, contest_->rounds()));
    dropped_of_[candidate] += sampled.dropped;
    return sampled.seconds;
  }

  void Judge() {
    const Contest::Verdict verdict = contest_->Judge();
    for (int c = 0; c < num_to_run(); ++c) {
      const Contest::Standing standing = contest_->StandingOf(c);
      TuningCandidate& candidate = record_.candidates[c];
      candidate.measured_seconds = standing.median_seconds / share_;
      candidate.spread = standing.spread;
      candidate.ratio = standing.ratio;
      candidate.samples = standing.samples;
      candidate.outcome = !contest_->in_play(c)   ? CandidateOutcome::kEliminated
                          : standing.samples == 0 ? CandidateOutcome::kWaiting
                                                  : CandidateOutcome::kMeasured;
    }
    for (size_t c = 0; c < record_.candidates.size(); ++c) {
      record_.candidates[c].predicted_seconds /= share_;
      record_.candidates[c].dropped_samples = dropped_of_[c];
    }
    const bool failed = num_to_run() > 1 && !AnyCompared();
    too_busy_ = !estimated() && has_models() && (failed || !verdict.decided) &&
                static_cast<double>(dropped()) > kBusyShare * static_cast<double>(samples());
    if (failed) {
      record_.state = TuningState::kFailed;
      record_.note = NothingMeasured();
      return;
    }
    record_.chosen = verdict.winner;
    record_.candidates[verdict.winner].outcome = CandidateOutcome::kChosen;
    record_.gain = verdict.gain;
    record_.state = TuningState::kTuned;
    record_.note = Note(verdict);
  }

  // True if a candidate was measured in the same round as the default.
  bool AnyCompared() const {
    for (int c = 1; c < num_to_run(); ++c) {
      if (contest_->StandingOf(c).ratio > 0.0) return true;
    }
    return false;
  }

  // Of this session, dropped ones included.
  int64_t samples() const { return runs_.samples() - samples_before_; }
  int64_t dropped() const { return runs_.dropped() - dropped_before_; }

  std::string NothingMeasured() const {
    return dropped() > 0
               ? absl::StrCat(
                     "not measured: ", dropped(), " of ", samples(),
                     " runs were disturbed by requests or other programs; tune again when the machine is less busy")
               : "not measured: the budget ended before each candidate had run once; tune again with a larger one";
  }

  std::string Note(const Contest::Verdict& verdict) const {
    const bool alone = num_to_run() == 1;
    std::string note = alone ? "one candidate only: nothing to measure" : estimated() ? Estimated() : std::string();
    const auto add = [&note](const std::string& more) { absl::StrAppend(&note, note.empty() ? "" : "; ", more); };
    if (!left_out_.empty()) add(left_out_);
    if (alone) return note;
    if (const std::string interpreted = code_.NoteOnInterpreted(num_to_run()); !interpreted.empty()) add(interpreted);
    if (verdict.kept) {
      add("the default stays: faster candidates were within the noise");
    } else if (!verdict.decided) {
      // If there is no next round, the rounds ended, not the budget.
      add(contest_->NextRound().empty()
              ? absl::StrCat("undecided after ", contest_->rounds(), " rounds, the most that are run")
              : absl::StrCat("the budget ended after ", contest_->rounds(), " rounds"));
    }
    if (const TuningCandidate* faster = FasterButHandicapped(verdict); faster != nullptr) {
      add(absl::StrCat(faster->setting.kernel,
                       absl::StrFormat(" takes %.2f of the default's time, but ", faster->ratio),
                       faster->whole_graph_only ? "whole graphs only" : "adds in another order"));
    }
    if (share_ < 1.0) {
      const double percent = 100.0 * share_;
      add(product() ? absl::StrFormat("measured on %.1f %% of the rows", percent)
                    : absl::StrFormat("measured on rows with %.1f %% of the edges", percent));
    }
    return note;
  }

  std::string Estimated() const {
    std::string text =
        absl::StrCat("estimated", why_.empty() ? "" : ", ", why_, ": models ranked ", estimate_.modelled, " settings");
    if (estimate_.searched > 0) {
      absl::StrAppend(&text, " (search of ", estimate_.searched, estimate_.searched == 1 ? " kernel" : " kernels", ", ",
                      estimate_.rounds, " generations)");
    }
    absl::StrAppend(&text, ", ", num_to_run(), " were measured");
    return text;
  }

  // The fastest candidate that lost only because of its handicap; null if the winner has the handicap, too.
  const TuningCandidate* FasterButHandicapped(const Contest::Verdict& verdict) const {
    const TuningCandidate* fastest = nullptr;
    if (HandicapOf(record_.candidates[verdict.winner]) > 1.0) return fastest;
    double least = 1.0 / verdict.gain;
    for (int c = 0; c < num_to_run(); ++c) {
      const TuningCandidate& candidate = record_.candidates[c];
      if (HandicapOf(candidate) == 1.0 || candidate.ratio <= 0.0 || candidate.ratio >= least) continue;
      least = candidate.ratio;
      fastest = &candidate;
    }
    return fastest;
  }

  const TuningTools& tools_;
  const TuningJob& job_;
  std::string why_;
  LeasedRuns& runs_;
  double used_before_;
  const int64_t samples_before_, dropped_before_;
  TuningRecord record_;
  Estimate estimate_;
  std::shared_ptr<const DeviceCsr> adjacency_;
  Reservation memory_;  // of the trial and the sampled rows; declared first, so that it is released after them
  SampledRows sampled_;
  double share_ = 1.0;    // of the edges that are measured on
  std::string left_out_;  // NoteOnLeftOut
  ProgramCode code_;      // of expressions
  std::unique_ptr<Trial> trial_;
  std::optional<Contest> contest_;
  bool too_busy_ = false;
  std::vector<int64_t> dropped_of_;
};

}  // namespace

TuningOutcome TuneKey(const TuningTools& tools, Executor* executor, const TuningJob& job,
                      const std::function<bool()>& stopping) {
  LeasedRuns runs(tools, executor, job, stopping);
  bool too_busy = false;
  const auto run = [&](TuningStrategy strategy, const char* why) {
    Session session(tools, job, strategy, why, &runs);
    StatusOr<TuningRecord> record = session.Run();
    too_busy = session.too_busy();
    return record;
  };
  StatusOr<TuningRecord> record = run(job.strategy.value_or(tools.strategy), "");
  if (record.ok() && too_busy && !job.strategy.has_value()) {
    StatusOr<TuningRecord> estimated = run(TuningStrategy::kEstimated, "too busy to be measured");
    if (!estimated.ok() || estimated->state == TuningState::kTuned) record = std::move(estimated);
    if (record.ok()) record->used_seconds = runs.used_seconds();
  }
  return {std::move(record), runs.samples(), runs.dropped()};
}

Status TuningStopped() {
  return Unavailable("DRAINING", "this server is shutting down and no longer tunes; retry on another",
                     std::chrono::seconds(1));
}

Status TunedGraphGone() { return MakeError(StatusCode::kCancelled, "the graph was replaced or deleted meanwhile", {}); }

Status NoMemoryToTune() {
  return ResourceExhausted("OUT_OF_MEMORY", "not enough memory to tune", std::chrono::seconds(1));
}

}  // namespace vicinal
