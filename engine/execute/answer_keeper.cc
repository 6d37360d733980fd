// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/answer_keeper.h"

#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/out_of_memory.h"
#include "engine/prepare/counted_features.h"

namespace vicinal {
namespace {

// Larger answers are copied elsewhere: up to here a hop to another thread costs more than the copy.
constexpr int64_t kInlineValues = int64_t{16} * 1024;

// Keys whose queries are counted. Clients choose versions and outputs, so there is a bound; at the bound counting
// begins anew.
constexpr size_t kMaxTallies = 4096;

}  // namespace

Status PassInterrupted() {
  ErrorDetail detail;
  detail.reason = "CANCELLED";
  return MakeError(StatusCode::kCancelled, "requests wait", detail);
}

bool PassRefused(const Status& status) {
  return status.code() == StatusCode::kResourceExhausted || status.code() == StatusCode::kFailedPrecondition;
}

std::shared_ptr<const KeptAnswers> KeptAnswersOf(PlanRunner::AllRows all) {
  auto kept = std::make_shared<KeptAnswers>();
  kept->values = std::move(all.values);
  kept->rows = all.rows;
  kept->width = all.width;
  kept->numerics_revision = all.numerics_revision;
  kept->tuning_revision.store(all.tuning_revision, std::memory_order_relaxed);
  return kept;
}

struct AnswerKeeper::Pass {
  AnswerKey key;
  QueuedRequest request;
  MonotonicTime due{};

  int64_t bytes() const { return request.answer.rows * request.answer.width * static_cast<int64_t>(sizeof(float)); }
};

KeptAnswersHandle AnswerKeeper::Find(const QueuedRequest& request) {
  if (parts_.mode == KeepAnswers::kNever) return nullptr;
  const std::optional<AnswerKey> key = AnswerKey::Of(request);
  if (!key) return nullptr;
  KeptAnswersHandle kept = parts_.cache->Find(*key);
  if (kept != nullptr && kept->tuning_revision.load(std::memory_order_relaxed) != request.graph->tuning().revision()) {
    Order(*key, request, 0.0);
  }
  return kept;
}

std::optional<Status> AnswerKeeper::Answer(QueuedRequest* request) {
  KeptAnswersHandle kept = Find(*request);
  if (kept == nullptr) return std::nullopt;
  request->arrival = parts_.clock->Now();
  kept->last_hit.store(request->arrival, std::memory_order_relaxed);
  if (request->links != nullptr) {
    // Scores take long enough to wait for their turn.
    if (parts_.runner->reads_host_memory()) request->kept = std::move(kept);
    return std::nullopt;
  }
  if (executor_->draining()) return DrainingRefusal();
  if (Status limits = request->limits.Check(*parts_.clock); !limits.ok()) return limits;
  if (!parts_.run_elsewhere || request->answer.rows * request->answer.width <= kInlineValues) {
    Deliver(*request, *kept);
    return OkStatus();
  }
  parts_.run_elsewhere(
      [this, shared = std::make_shared<const QueuedRequest>(std::move(*request)), kept] { Deliver(*shared, *kept); });
  return OkStatus();
}

void AnswerKeeper::Deliver(const QueuedRequest& request, const KeptAnswers& kept) const {
  request.done(OrOutOfMemory([&]() -> StatusOr<InferenceResult> {
    const MonotonicTime begin = parts_.clock->Now();
    VICINAL_RETURN_IF_ERROR(request.limits.Check(*parts_.clock));
    InferenceResult result;
    result.rows = request.answer.rows;
    result.width = kept.width;
    const int64_t bytes = result.rows * result.width * static_cast<int64_t>(sizeof(float));
    VICINAL_ASSIGN_OR_RETURN(Reservation memory, ReserveLarge(bytes, "the answer", parts_.budget));
    if (memory) result.held = std::make_shared<const Reservation>(std::move(memory));
    result.values = kept.Gather(request.nodes);
    result.kept = true;
    result.served_by = ServedByOf(request);
    result.served_by.numerics_revision = kept.numerics_revision;
    result.multi_label = request.model->multi_label;
    result.timing.queue_seconds = SecondsBetween(request.arrival, begin);
    parts_.stats->PhaseSeconds("gather", SecondsBetween(begin, parts_.clock->Now()));
    return result;
  }));
}

void AnswerKeeper::Computed(const QueuedRequest& request, double share, double seconds) {
  if (parts_.mode == KeepAnswers::kNever) return;
  const std::optional<AnswerKey> key = AnswerKey::Of(request);
  const int64_t bytes = request.graph->num_nodes() * request.answer.width * static_cast<int64_t>(sizeof(float));
  if (!key || !parts_.cache->Fits(bytes) || parts_.cache->Find(*key) != nullptr) return;
  double spent = 0.0;
  {
    MutexLock lock(&mutex_);
    if (tallies_.size() >= kMaxTallies) {
      std::erase_if(tallies_, [](const auto& tally) { return !tally.second.ordered(); });
    }
    AnswerTally& tally = tallies_[*key];
    tally.Computed(share, seconds);
    if (!tally.Paid(parts_.mode == KeepAnswers::kAlways)) return;
    spent = tally.seconds();
  }
  Order(*key, request, spent);
}

void AnswerKeeper::Order(const AnswerKey& key, const QueuedRequest& request, double seconds) {
  const MonotonicTime now = parts_.clock->Now();
  auto pass = std::make_shared<Pass>();
  {
    MutexLock lock(&mutex_);
    AnswerTally& tally = tallies_[key];
    if (tally.ordered()) return;
    const int64_t room = parts_.cache->Room();
    if (!tally.MayOrder(now, room)) return;
    pass->due = tally.Order(now, seconds, room);
  }
  pass->key = key;
  pass->request.key = request.key;
  pass->request.graph = request.graph;
  pass->request.model = request.model;
  pass->request.features = request.features;
  pass->request.feature_set = request.feature_set;
  pass->request.feature_set_version = request.feature_set_version;
  pass->request.edges = request.edges;
  pass->request.edge_feature_set = request.edge_feature_set;
  pass->request.edge_feature_set_version = request.edge_feature_set_version;
  pass->request.incarnation = request.incarnation;
  pass->request.output = request.output;
  pass->request.nodes.all = true;
  pass->request.answer = {request.graph->num_nodes(), request.answer.width};
  Submit(std::move(pass));
}

void AnswerKeeper::Submit(std::shared_ptr<Pass> pass) {
  const MonotonicTime due = pass->due;
  const RequestKey pass_key = pass->request.key;
  executor_->SubmitBackground(
      {"keeping answers",
       [this, pass = std::move(pass)](const Status& admitted, DeviceContext& context, const Lease& lease) {
         Run(pass, admitted, context, lease);
       },
       due, pass_key});
}

void AnswerKeeper::Run(const std::shared_ptr<Pass>& pass, const Status& admitted, DeviceContext& context,
                       const Lease& lease) {
  if (!admitted.ok()) return End(*pass, false, 0.0);
  const MonotonicTime begin = parts_.clock->Now();
  const bool due = begin >= pass->due;
  const StopCheck stop = [&lease, due] {
    return lease.Ending() || (!due && lease.ShouldStop()) ? PassInterrupted() : OkStatus();
  };
  const StatusOr<const char*> outcome = OrOutOfMemory([&] { return Keep(*pass, context, stop); });
  const double seconds = SecondsBetween(begin, parts_.clock->Now());
  if (outcome.status().code() == StatusCode::kCancelled) {
    const bool again = Interrupted(pass.get(), seconds);
    if (!again) pass->request = QueuedRequest();
    parts_.stats->AnswerPass("interrupted", seconds);
    if (again) Submit(pass);
    return;
  }
  End(*pass, outcome.ok(), seconds);
  pass->request = QueuedRequest();  // before the outcome is told: who hears of it may delete the graph
  if (outcome.ok()) return parts_.stats->AnswerPass(*outcome, seconds);
  const bool refused = PassRefused(outcome.status());
  parts_.stats->AnswerPass(refused ? "refused" : "failed", seconds);
  parts_.logger->Log(refused ? LogLevel::kDebug : LogLevel::kWarning, "answers not kept",
                     {{"graph", pass->key.graph.name},
                      {"model", pass->key.model.name},
                      {"error", std::string(outcome.status().message())}});
}

StatusOr<const char*> AnswerKeeper::Keep(const Pass& pass, DeviceContext& context, const StopCheck& stop) {
  const KeptAnswersHandle before = parts_.cache->Find(pass.key);
  // A pass whose rows have no room is not run at all.
  if (before == nullptr) VICINAL_RETURN_IF_ERROR(parts_.cache->CheckRoom(pass.bytes()));
  Reservation memory;
  VICINAL_ASSIGN_OR_RETURN(
      PlanRunner::AllRows all,
      parts_.runner->RunAll(
          pass.request, context, stop,
          [&before](int64_t revision) { return before == nullptr || before->numerics_revision != revision; },
          [this, &memory](int64_t bytes) -> Status {
            VICINAL_ASSIGN_OR_RETURN(memory, parts_.cache->Reserve(bytes));
            return OkStatus();
          }));
  if (before != nullptr && before->numerics_revision == all.numerics_revision) {
    before->tuning_revision.store(all.tuning_revision, std::memory_order_relaxed);
    return "unchanged";
  }
  const std::string bytes = absl::StrCat(all.values.size() * sizeof(float));
  parts_.cache->Insert(pass.key, KeptAnswersOf(std::move(all)), std::move(memory));
  parts_.logger->Log(
      LogLevel::kDebug, "answers kept",
      {{"graph", pass.key.graph.name}, {"model", pass.key.model.name}, {"output", pass.key.output}, {"bytes", bytes}});
  return "kept";
}

void AnswerKeeper::End(const Pass& pass, bool kept, double seconds) {
  MutexLock lock(&mutex_);
  if (kept) {
    tallies_.erase(pass.key);
  } else {
    tallies_[pass.key].CameToNothing(parts_.clock->Now(), seconds, pass.bytes());
  }
}

bool AnswerKeeper::Interrupted(Pass* pass, double seconds) {
  const MonotonicTime now = parts_.clock->Now();
  MutexLock lock(&mutex_);
  AnswerTally& tally = tallies_[pass->key];
  const bool again = tally.Interrupted(now, seconds);
  pass->due = tally.Due();
  return again;
}

}  // namespace vicinal
