// SPDX-License-Identifier: Apache-2.0
// If a key is forced or reset while it waits or is measured, the forced or reset state stays.
#include "engine/tuning/tuning_service.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/check.h"
#include "engine/base/error.h"

namespace vicinal {
namespace {

// Ordered works; all share one thread.
constexpr size_t kMaxWaiting = 2048;

double Seconds(Nanoseconds time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

TuningService::TuningService(Parts parts) : parts_(std::move(parts)) {}

TuningService::~TuningService() { VICINAL_CHECK(!thread_.joinable()); }

void TuningService::Start(Executor* executor) {
  executor_ = executor;
  thread_ = std::thread([this] { Loop(); });
}

void TuningService::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  came_.NotifyAll();
  ended_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

bool TuningService::stopping() const {
  MutexLock lock(&mutex_);
  return stopping_;
}

StatusOr<bool> TuningService::Change(const PreparedGraph& graph, const TuningChange& change) {
  StatusOr<bool> changed = parts_.change ? parts_.change(graph, change) : graph.tuning().Apply(change);
  if (changed.ok() && parts_.seeds != nullptr) {
    parts_.seeds->Learn(graph.parts().name, graph.parts().profile, graph.tuning().Decided());
  }
  return changed;
}

void TuningService::Consider(const std::shared_ptr<const PreparedGraph>& graph) {
  if (parts_.budget_per_key <= Nanoseconds::zero()) return;
  {
    MutexLock lock(&mutex_);
    // Compared without lock(), which could make this thread the last owner and free a graph under the mutex.
    const bool known = std::any_of(graphs_.begin(), graphs_.end(), [&](const auto& other) {
      return !other.owner_before(graph) && !graph.owner_before(other);
    });
    if (!known) graphs_.push_back(graph);
    idle_ = false;
  }
  came_.NotifyOne();
}

Status TuningService::Order(const std::shared_ptr<const PreparedGraph>& graph, const std::vector<TuningWork>& works,
                            Nanoseconds budget, std::optional<TuningStrategy> strategy, bool wait,
                            const WorkLimits& limits) {
  std::vector<std::shared_ptr<Job>> jobs;
  {
    MutexLock lock(&mutex_);
    if (stopping_) return TuningStopped();
    if (ordered_.size() + works.size() > kMaxWaiting) {
      return ResourceExhausted("TUNING_QUEUE_FULL",
                               absl::StrCat(ordered_.size(), " measurements are waiting, and at most ", kMaxWaiting,
                                            " may wait; retry when some are done (GetTuning shows them)"),
                               std::chrono::seconds(10));
    }
    for (const TuningWork& work : works) {
      jobs.push_back(std::make_shared<Job>(Job{{graph, work, budget, true, strategy}, false}));
      graph->tuning().Queue(work.key);
      ordered_.push_back(jobs.back());
    }
    idle_ = false;
  }
  came_.NotifyOne();
  if (!wait) return OkStatus();
  // The limits do not notify, so they are polled.
  constexpr std::chrono::milliseconds kLook(20);
  MutexLock lock(&mutex_);
  while (!std::all_of(jobs.begin(), jobs.end(), [](const auto& job) { return job->ended; })) {
    if (stopping_) return TuningStopped();
    VICINAL_RETURN_IF_ERROR(limits.Check(*parts_.clock));
    ended_.WaitUntil(&mutex_, std::chrono::steady_clock::now() + kLook);
  }
  return OkStatus();
}

std::shared_ptr<TuningService::Job> TuningService::MostWanted(Graphs* held) {
  auto best = std::make_shared<Job>();
  int64_t most = -1;
  std::erase_if(graphs_, [](const auto& graph) { return graph.expired(); });
  for (const auto& weak : graphs_) {
    const std::shared_ptr<const PreparedGraph> graph = weak.lock();
    if (graph == nullptr) continue;
    held->push_back(graph);
    if (!parts_.is_current(*graph)) continue;
    if (graph->tuning().used_seconds() >= Seconds(parts_.budget_per_graph)) continue;
    const std::optional<TuningWork> work = graph->tuning().MostWanted();
    if (!work.has_value()) continue;
    const int64_t uses = graph->tuning().Record(work->key)->uses;
    if (uses <= most) continue;
    most = uses;
    *best = Job{{graph, *work, parts_.budget_per_key, false}, false};
  }
  return most >= 0 ? best : nullptr;
}

std::shared_ptr<TuningService::Job> TuningService::NextJob(Graphs* held) {
  if (ordered_.empty()) return MostWanted(held);
  std::shared_ptr<Job> job = std::move(ordered_.front());
  ordered_.pop_front();
  return job;
}

std::shared_ptr<TuningService::Job> TuningService::AwaitJob() {
  while (true) {
    Graphs held;
    MutexLock lock(&mutex_);
    while (!stopping_ && idle_) came_.Wait(&mutex_);
    if (stopping_) return nullptr;
    if (std::shared_ptr<Job> job = NextJob(&held)) return job;
    idle_ = true;
  }
}

void TuningService::Loop() {
  while (const std::shared_ptr<Job> job = AwaitJob()) {
    Tune(*job);
    {
      MutexLock lock(&mutex_);
      job->ended = true;
    }
    ended_.NotifyAll();
  }
}

void TuningService::Tune(const Job& job) {
  TuningTable& table = job.graph->tuning();
  const TuningKey& key = job.work.key;
  if (!table.Begin(key)) return;
  // A key that still waited gets the same message as one that was being measured.
  TuningOutcome outcome = {TunedGraphGone()};
  try {
    if (parts_.is_current(*job.graph)) outcome = TuneKey(parts_, executor_, job, [this] { return stopping(); });
  } catch (const std::bad_alloc&) {
    outcome.record = NoMemoryToTune();
  }
  StatusOr<TuningRecord>& record = outcome.record;
  if (!record.ok()) return table.Abandon(key, std::string(record.status().message()));
  const double used = record->used_seconds;
  const bool failed = record->state == TuningState::kFailed;
  const TuningCandidate* choice = record->choice();
  parts_.logger->Log(failed ? LogLevel::kWarning : LogLevel::kInfo, failed ? "graph not tuned" : "graph tuned",
                     {{"graph", job.graph->parts().name},
                      {"work", Describe(key)},
                      {"kernel", choice != nullptr ? choice->setting.kernel : std::string()},
                      {"strategy", std::string(ToString(record->strategy))},
                      {"gain", absl::StrFormat("%.3f", record->gain)},
                      {"note", record->note}});
  const StatusOr<bool> changed = Change(*job.graph, {{{job.work, *std::move(record)}}, /*if_running=*/true});
  if (!changed.ok()) {
    table.Abandon(key, absl::StrCat("measured, but not used, because it could not be made durable: ",
                                    std::string(changed.status().message())));
  }
  const bool new_setting = changed.ok() && *changed;
  parts_.stats->TuningRun(failed || !changed.ok() ? "failed"
                          : new_setting           ? "changed"
                                                  : "kept",
                          used, outcome.samples, outcome.dropped);
  if (new_setting) parts_.on_change();
}

}  // namespace vicinal
