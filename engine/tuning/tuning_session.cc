// SPDX-License-Identifier: Apache-2.0
#include "engine/tuning/tuning_session.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/error.h"
#include "engine/execute/awaited.h"
#include "engine/tune/contest.h"
#include "engine/tune/sample_rows.h"
#include "engine/tune/trial.h"

namespace vicinal {
namespace {

// Assumed seconds of a run if the first one was disturbed.
constexpr double kUnknownRun = 100e-6;
// Attempts at an undisturbed sample; after that the round continues without it.
constexpr int kTries = 4;
// Background tuning may run this many rounds even if the budget is too small for them.
constexpr double kRoundsAtLeast = 10.0;
// A kernel without support for receptive fields must be this many times as fast as the others, because with it a query
// for a few nodes computes all nodes. On an H200 that is 14 times as much for one node of amazon0505, and nothing on
// reddit, where the field of one node is half of the graph and dense_tiles is 1.3 times as fast as rows.
constexpr double kWholeGraphHandicap = 1.25;
// Rounds before the first candidate is eliminated, if half of the budget suffices for them.
constexpr double kPatientRounds = 60.0;

// Reuse of gathered rows from the profile, at the next larger of its widths.
CacheShares ReuseOf(const LocalityProfile& locality, int64_t row_bytes) {
  size_t i = 0;
  while (i + 1 < kReuseWidths.size() && kReuseWidths[i] * static_cast<int64_t>(sizeof(float)) < row_bytes) ++i;
  return {locality.reuse[i].l2, locality.reuse[i].llc};
}

WorkShape ShapeOf(const PreparedGraph& graph, const CsrView& adjacency, int num_threads) {
  WorkShape shape;
  shape.rows = adjacency.rows;
  shape.cols = adjacency.cols;
  shape.edges = adjacency.nnz;
  shape.num_threads = num_threads;
  const LocalityProfile& locality = graph.parts().profile.after;
  const bool known = std::any_of(locality.reuse.begin(), locality.reuse.end(),
                                 [](const ReuseEstimate& r) { return r.l2 > 0.0 || r.llc > 0.0; });
  if (known) shape.reuse = [&locality](int64_t row_bytes) { return ReuseOf(locality, row_bytes); };
  return shape;
}

constexpr char kTuningThisGraph[] = "tuning this graph";

int64_t SizeOf(const SampledRows& rows) {
  return static_cast<int64_t>(rows.row_ptr.bytes() + rows.col.bytes() + rows.value.bytes());
}

class Session {
 public:
  Session(const TuningTools& tools, Executor* executor, const TuningJob& job, const std::function<bool()>& stopping)
      : tools_(tools), executor_(*executor), job_(job), stopping_(stopping) {
    record_.key = job.work.key;
    record_.budget_seconds = std::chrono::duration<double>(job.budget).count();
  }

  // As TuningOutcome::record.
  StatusOr<TuningRecord> Run() {
    Status status = Prepare();
    if (status.ok()) status = Measure();
    if (GaveUp(status)) return status;
    if (!status.ok()) {
      record_.state = TuningState::kFailed;
      record_.note = std::string(status.message());
    } else {
      Judge();
    }
    record_.finish_time = tools_.clock->WallNow();
    return std::move(record_);
  }

  int64_t samples() const { return samples_; }
  int64_t dropped() const { return dropped_; }

 private:
  static bool GaveUp(const Status& status) {
    return status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kCancelled;
  }

  Status Prepare() {
    VICINAL_RETURN_IF_ERROR(DeriveAdjacency());
    const CsrView whole = adjacency_->view();
    TrialInput input;
    input.key = job_.work.key;
    input.adjacency = whole;
    input.blocks = job_.graph->parts().blocks;
    input.device = tools_.device;
    input.registry = tools_.registry;
    input.first_runs = tools_.first_runs;
    input.admit = [this](int64_t bytes) { return ReserveTrial(bytes + SizeOf(sampled_)); };
    input.shape = ShapeOf(*job_.graph, whole, executor_.num_threads());
    const double predicted =
        PredictDefaultSeconds(*tools_.registry, tools_.device->kind(), input.key, input.shape).value_or(0.0);
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
    VICINAL_ASSIGN_OR_RETURN(trial_, Trial::Make(input));
    record_.candidates = trial_->candidates();
    record_.refused = trial_->refused();
    dropped_of_.assign(record_.candidates.size(), 0);
    contest_.emplace(num_to_run());
    return OkStatus();
  }

  // Replaces the previous reservation, so that the old and the new bytes need not fit together.
  Status ReserveTrial(int64_t bytes) {
    VICINAL_ASSIGN_OR_RETURN(memory_,
                             tools_.budget->Reserve(Account::kTuning, bytes, kTuningThisGraph, {.consumed = &memory_}));
    return OkStatus();
  }

  Status DeriveAdjacency() {
    const PreparedGraph& graph = *job_.graph;
    const AdjacencySpec& spec = job_.work.adjacency;
    const int64_t bytes = graph.Holds(spec) ? 0 : graph.ShapeOf(spec).bytes;
    VICINAL_ASSIGN_OR_RETURN(Reservation derived, tools_.budget->Reserve(Account::kTuning, bytes, kTuningThisGraph));
    VICINAL_ASSIGN_OR_RETURN(adjacency_, graph.Adjacency(spec));
    graph.SettleReservation(&derived);
    return OkStatus();
  }

  Status Measure() {
    if (num_to_run() == 1) return OkStatus();
    // A warm-up run, which also predicts the cost of a round.
    VICINAL_ASSIGN_OR_RETURN(const std::optional<double> first, Sample(0));
    const double run = std::max(first.value_or(kUnknownRun), 1e-9);
    double budget = record_.budget_seconds;
    if (!job_.ordered) budget = std::max(budget, kRoundsAtLeast * run * num_to_run());
    contest_.emplace(num_to_run(), RulesFor(budget, run));
    while (used_ < budget) {
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
    rules.min_rounds = static_cast<int>(std::clamp<double>(rounds, rules.min_rounds, kPatientRounds));
    for (int c = 0; c < num_to_run(); ++c) {
      rules.handicaps.push_back(record_.candidates[c].whole_graph_only ? kWholeGraphHandicap : 1.0);
    }
    return rules;
  }

  // One measured run.
  struct Tried {
    RunSample sample;
    double used_seconds = 0.0;  // of the executor's thread, renewing included
    bool stopped = false;       // a request came
  };

  // Time of one run of a candidate; nullopt if requests arrived during every attempt. If other programs disturbed all
  // attempts, the shortest counts: machines that are always busy must be tuned, too, and Contest tolerates noise.
  StatusOr<std::optional<double>> Sample(int candidate) {
    std::optional<double> shortest;
    for (int attempt = 0; attempt < kTries; ++attempt) {
      if (stopping_()) return TuningStopped();
      if (!tools_.is_current(*job_.graph)) return TunedGraphGone();
      VICINAL_ASSIGN_OR_RETURN(const Tried tried, RunWatched(candidate));
      const double seconds = tried.sample.seconds;
      used_ += tried.used_seconds;
      ++samples_;
      if (!tried.stopped && !tried.sample.disturbed) return std::optional<double>(seconds);
      if (!tried.stopped) shortest = std::min(shortest.value_or(seconds), seconds);
      ++dropped_;
      ++dropped_of_[candidate];
    }
    if (shortest.has_value()) {
      --dropped_;
      --dropped_of_[candidate];
    }
    return shortest;
  }

  StatusOr<Tried> RunWatched(int candidate) {
    StatusOr<Tried> tried = RunInLease(candidate);
    if (tools_.first_runs == nullptr) return tried;
    const std::string name = ConfigurationName(record_.key, record_.candidates[candidate]);
    const bool cut_short = tried.ok() && tried->stopped;
    tools_.first_runs->End(name, cut_short ? absl::CancelledError("a request came") : tried.status());
    return tried;
  }

  StatusOr<Tried> RunInLease(int candidate) {
    Awaited<StatusOr<Tried>> outcome;
    // The mark of a first run is written when the executor is free, not before: while requests keep the run waiting, an
    // end of the process says nothing about the kernel.
    executor_.SubmitBackground({"tuning", [&](const Status& admitted, DeviceContext& context, const Lease& lease) {
                                  if (admitted.ok() && tools_.first_runs != nullptr) {
                                    tools_.first_runs->Begin(
                                        ConfigurationName(record_.key, record_.candidates[candidate]));
                                  }
                                  outcome.Set(admitted.ok() ? MeasureOne(candidate, context, lease) : admitted);
                                }});
    return outcome.Take();
  }

  // On the executor's thread, so it must not throw. When a request arrives, loops on the CPU stop early: on a shared
  // machine, a run may take ten times kMaxRunSeconds.
  StatusOr<Tried> MeasureOne(int candidate, DeviceContext& context, const Lease& lease) try {
    const std::function<bool()> wanted = [&lease] { return lease.ShouldStop(); };
    const ThreadPool::StopScope loops(context.thread_pool(), wanted);
    const int64_t turn = contest_->rounds();
    const MonotonicTime begin = tools_.clock->Now();
    trial_->Renew(turn, context);
    const double renewing = SecondsBetween(begin, tools_.clock->Now());
    const auto run = [&] { return trial_->Run(candidate, turn, context); };
    VICINAL_ASSIGN_OR_RETURN(const RunSample sample,
                             tools_.meter->Measure(record_.key, record_.candidates[candidate].setting, run));
    // The budget counts the executor's time on the clock, not only what the meter reports.
    const double passed = SecondsBetween(begin, tools_.clock->Now());
    return Tried{sample, std::max(passed, renewing + sample.seconds), lease.ShouldStop()};
  } catch (const std::bad_alloc&) {
    return NoMemoryToTune();
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
    record_.used_seconds = used_;
    if (num_to_run() > 1 && !AnyCompared()) {
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

  std::string NothingMeasured() const {
    return dropped_ > 0
               ? absl::StrCat(
                     "not measured: ", dropped_, " of ", samples_,
                     " runs were disturbed by requests or other programs; tune again when the machine is less busy")
               : "not measured: the budget ended before each candidate had run once; tune again with a larger one";
  }

  std::string Note(const Contest::Verdict& verdict) const {
    if (num_to_run() == 1) return "one candidate only: nothing to measure";
    std::string note;
    if (verdict.kept) {
      note = "the default stays: faster candidates were within the noise";
    } else if (!verdict.decided) {
      // If there is no next round, the rounds ended, not the budget.
      note = contest_->NextRound().empty()
                 ? absl::StrCat("undecided after ", contest_->rounds(), " rounds, the most that are run")
                 : absl::StrCat("the budget ended after ", contest_->rounds(), " rounds");
    }
    if (const TuningCandidate* faster = FasterForWholeGraphs(verdict); faster != nullptr) {
      absl::StrAppend(&note, note.empty() ? "" : "; ", faster->setting.kernel,
                      absl::StrFormat(" takes %.2f of the default's time, but whole graphs only", faster->ratio));
    }
    if (share_ < 1.0) {
      absl::StrAppend(&note, note.empty() ? "" : "; ",
                      absl::StrFormat("measured on rows with %.1f %% of the edges", 100.0 * share_));
    }
    return note;
  }

  // The fastest candidate that lost only because of its handicap; null if the winner has the handicap, too.
  const TuningCandidate* FasterForWholeGraphs(const Contest::Verdict& verdict) const {
    const TuningCandidate* fastest = nullptr;
    if (record_.candidates[verdict.winner].whole_graph_only) return fastest;
    double least = 1.0 / verdict.gain;
    for (int c = 0; c < num_to_run(); ++c) {
      const TuningCandidate& candidate = record_.candidates[c];
      if (!candidate.whole_graph_only || candidate.ratio <= 0.0 || candidate.ratio >= least) continue;
      least = candidate.ratio;
      fastest = &candidate;
    }
    return fastest;
  }

  const TuningTools& tools_;
  Executor& executor_;
  const TuningJob& job_;
  const std::function<bool()>& stopping_;
  TuningRecord record_;
  std::shared_ptr<const DeviceCsr> adjacency_;
  Reservation memory_;  // of the trial and the sampled rows; declared first, so that it is released after them
  SampledRows sampled_;
  double share_ = 1.0;  // of the edges that are measured on
  std::unique_ptr<Trial> trial_;
  std::optional<Contest> contest_;
  double used_ = 0.0;
  int64_t samples_ = 0, dropped_ = 0;
  std::vector<int64_t> dropped_of_;
};

}  // namespace

TuningOutcome TuneKey(const TuningTools& tools, Executor* executor, const TuningJob& job,
                      const std::function<bool()>& stopping) {
  Session session(tools, executor, job, stopping);
  StatusOr<TuningRecord> record = session.Run();
  return {std::move(record), session.samples(), session.dropped()};
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
