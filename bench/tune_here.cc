// SPDX-License-Identifier: Apache-2.0
#include "bench/tune_here.h"

#include <optional>
#include <vector>

#include "engine/base/clock.h"
#include "engine/tune/contest.h"
#include "engine/tune/trial.h"

namespace vicinal::bench {
namespace {

constexpr double kBudgetSeconds = 2.0;  // of one kind of work

Status Tune(Bench& bench, const PreparedGraph& graph, const TuningWork& work) {
  VICINAL_ASSIGN_OR_RETURN(const auto adjacency, graph.Adjacency(work.adjacency));
  TrialInput input;
  input.key = work.key;
  input.program = work.program;
  input.adjacency = adjacency->view();
  input.blocks = graph.parts().blocks;
  input.device = bench.device;
  input.registry = &bench.registry;
  input.shape.rows = input.adjacency.rows;
  input.shape.cols = input.adjacency.cols;
  input.shape.edges = input.adjacency.nnz;
  input.shape.num_threads = bench.threads;
  VICINAL_ASSIGN_OR_RETURN(const std::unique_ptr<Trial> trial, Trial::Make(input));
  const auto time = [&](int candidate, int round) -> StatusOr<double> {
    trial->Renew(round, *bench.context);
    const MonotonicTime begin = Clock::Real().Now();
    VICINAL_RETURN_IF_ERROR(trial->Run(candidate, round, *bench.context));
    return SecondsBetween(begin, Clock::Real().Now());
  };
  VICINAL_ASSIGN_OR_RETURN(const int fastest, FindFastest(static_cast<int>(trial->num_to_run()), kBudgetSeconds, time));
  TuningRecord record;
  record.key = work.key;
  record.state = TuningState::kTuned;
  record.candidates = trial->candidates();
  record.refused = trial->refused();
  record.chosen = fastest;
  graph.tuning().Put(std::move(record));
  return OkStatus();
}

}  // namespace

StatusOr<int> FindFastest(int count, double budget_seconds,
                          const std::function<StatusOr<double>(int candidate, int round)>& time) {
  for (int candidate = 0; candidate < count; ++candidate) VICINAL_RETURN_IF_ERROR(time(candidate, 0).status());
  Contest contest(count);
  const MonotonicTime begin = Clock::Real().Now();
  while (SecondsBetween(begin, Clock::Real().Now()) < budget_seconds) {
    const std::vector<int> order = contest.NextRound();
    if (order.empty()) break;
    std::vector<std::optional<double>> seconds;
    for (const int candidate : order) {
      VICINAL_ASSIGN_OR_RETURN(const double sample, time(candidate, contest.rounds()));
      seconds.push_back(sample);
    }
    contest.AddRound(seconds);
  }
  return contest.Judge().winner;
}

Status TuneHere(Bench& bench, const PreparedGraph& graph) {
  for (const TuningWork& work : graph.tuning().Works()) {
    const std::optional<TuningRecord> known = graph.tuning().Record(work.key);
    if (known && known->state == TuningState::kTuned) continue;
    VICINAL_RETURN_IF_ERROR(Tune(bench, graph, work));
  }
  return OkStatus();
}

}  // namespace vicinal::bench
