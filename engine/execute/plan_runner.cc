// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/plan_runner.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "engine/device/limited_device.h"
#include "engine/execute/answer_cache.h"
#include "engine/execute/links/run_links.h"
#include "engine/execute/merged_graphs.h"
#include "engine/execute/plan_memory.h"
#include "engine/prepare/counted_features.h"
#include "engine/tune/first_runs.h"

namespace vicinal {
namespace {

PlanRequest PlanRequestOf(const QueuedRequest& request) {
  const ExecutionOptions& options = request.key.options;
  PlanRequest plan;
  plan.model = request.model;
  plan.graph = request.graph;
  plan.features = request.replaced != nullptr ? FeatureShape::Of(*request.features, request.replaced->entries)
                                              : FeatureShape::Of(*request.features);
  if (request.edges != nullptr) plan.edge_set_cols = request.edges->cols();
  plan.output = request.output;
  plan.forced = options.kernels;
  plan.precision = options.precision;
  plan.products = options.product_precision;
  return plan;
}

// In messages.
constexpr char kAnswer[] = "the answer";
constexpr char kBesidePlan[] = "the answer beside its plan";

int64_t RevisionOf(const QueuedRequest& request, const Plan& plan) {
  const int64_t revision = ServedByOf(request).numerics_revision;
  return revision == 0 ? 0 : NumericsRevision(revision, plan.reduction_order());
}

int ThreadsOf(DeviceContext& context) {
  const ThreadPool* const pool = context.thread_pool();
  return pool != nullptr ? pool->num_threads() : 1;
}

}  // namespace

int PlanRunner::PlanThreads(DeviceContext& context) const {
  return std::max(ThreadsOf(context), parts_.num_threads ? parts_.num_threads() : 1);
}

StopCheck PlanRunner::StopOf(const QueuedRequest& request) const {
  return [this, &request] { return request.limits.Check(*parts_.clock); };
}

StatusOr<std::shared_ptr<Plan>> PlanRunner::PlanFor(const QueuedRequest& queued, int num_threads) {
  return PlanFor(queued, num_threads, StopOf(queued));
}

void PlanRunner::Complete(PlanRequest* request) const {
  // CPU kernels ignore product_precision: one plan serves all values.
  if (parts_.device->kind() == DeviceKind::kCpu) request->products = ProductPrecision::kFloat32;
  request->tuning_revision = request->graph->tuning().revision();
  request->first_runs = parts_.first_runs;
  request->quarantine_revision = parts_.first_runs != nullptr ? parts_.first_runs->revision() : 0;
}

StatusOr<std::shared_ptr<Plan>> PlanRunner::Build(const PlanRequest& request, bool evict, int64_t answer_bytes,
                                                  const StopCheck& stop) const {
  std::optional<LimitedDevice::WithoutEviction> keep;
  if (!evict) keep.emplace();
  PlanMemory memory(parts_.budget, request.graph.get(), evict, answer_bytes);
  const auto admit = [&memory](int64_t bytes) { return memory.Admit(bytes); };
  VICINAL_ASSIGN_OR_RETURN(std::shared_ptr<Plan> plan,
                           Plan::Build(request, *parts_.registry, *parts_.device, admit, stop));
  return memory.Keep(std::move(plan));
}

void PlanRunner::NoteUse(const PlanRequest& request, bool first_use) const {
  if (first_use && parts_.on_plan) parts_.on_plan(request.graph);
}

StatusOr<std::shared_ptr<Plan>> PlanRunner::PlanFor(const QueuedRequest& queued, int num_threads,
                                                    const StopCheck& stop) {
  return PlanWithRoom(queued, AnswerBytes({&queued}), num_threads, stop);
}

int64_t PlanRunner::AnswerBytes(const std::vector<const QueuedRequest*>& requests) const {
  int64_t sum = 0;
  for (const QueuedRequest* request : requests) {
    if (request->links != nullptr) continue;  // scores are reserved as they are made
    int64_t of_row = request->answer.width;
    // A device that ranks rows sends less.
    if (request->classes && parts_.device->kind() != DeviceKind::kCpu) {
      const WantedClasses& classes = *request->classes;
      of_row = std::min(of_row, 2 * classes.top_k + of_row * (int{classes.probabilities} + int{classes.logits}));
    }
    const int64_t bytes = request->answer.rows * of_row * static_cast<int64_t>(sizeof(float));
    if (IsLarge(bytes)) sum += bytes;
  }
  return sum;
}

StatusOr<std::shared_ptr<Plan>> PlanRunner::PlanWithRoom(const QueuedRequest& queued, int64_t answer_bytes,
                                                         int num_threads, const StopCheck& stop) {
  PlanRequest request = PlanRequestOf(queued);
  Complete(&request);
  const bool keep = queued.key.private_id == 0;
  bool first_use = false;
  if (keep) {
    if (std::shared_ptr<Plan> plan = parts_.plans->Find(PlanKey::Of(request), &first_use)) {
      NoteUse(request, first_use);
      return plan;
    }
  }
  request.num_threads = num_threads;
  VICINAL_ASSIGN_OR_RETURN(std::shared_ptr<Plan> plan, Build(request, /*evict=*/true, answer_bytes, stop));
  if (!keep) return plan;
  NoteUse(request, /*first_use=*/true);
  return parts_.plans->Insert(request, queued.key.model.name, std::move(plan));
}

StatusOr<std::shared_ptr<Plan>> PlanRunner::PlanToRun(const QueuedRequest& queued, int64_t answer_bytes,
                                                      int num_threads, const StopCheck& stop) {
  if (queued.key.private_id != 0) return PlanWithRoom(queued, answer_bytes, num_threads, stop);
  PlanRequest request = PlanRequestOf(queued);
  Complete(&request);
  bool first_use = false;
  std::shared_ptr<Plan> plan = parts_.plans->FindOrEarlier(PlanKey::Of(request), &first_use);
  if (plan == nullptr) return PlanWithRoom(queued, answer_bytes, num_threads, stop);
  NoteUse(request, first_use);
  return plan;
}

StatusOr<std::shared_ptr<Plan>> PlanRunner::PlanBesideAnswer(const QueuedRequest& queued, int64_t answer_bytes,
                                                             int num_threads, const StopCheck& stop) {
  VICINAL_ASSIGN_OR_RETURN(std::shared_ptr<Plan> plan, PlanToRun(queued, answer_bytes, num_threads, stop));
  if (answer_bytes == 0) return plan;
  const ReserveOptions beside = {.own_bytes = plan->size_bytes()};
  Status room = parts_.budget->Check(answer_bytes, kBesidePlan, beside);
  if (room.ok()) return plan;
  const int64_t saved = plan->scratch_bytes() - plan->tiled_scratch_bytes();
  if (saved <= 0 || queued.key.private_id != 0) return room;
  if (answer_bytes > saved) {
    VICINAL_RETURN_IF_ERROR(parts_.budget->Check(answer_bytes - saved, kBesidePlan, beside));
  }
  parts_.plans->Drop(*plan);
  plan.reset();
  return PlanWithRoom(queued, answer_bytes, num_threads, stop);
}

StatusOr<std::shared_ptr<Plan>> PlanRunner::MakeAhead(PlanRequest request, const std::string& model_name) {
  Complete(&request);
  if (std::shared_ptr<Plan> known = parts_.plans->Peek(PlanKey::Of(request))) return known;
  request.num_threads = parts_.num_threads ? parts_.num_threads() : 1;
  VICINAL_ASSIGN_OR_RETURN(std::shared_ptr<Plan> plan, Build(request, /*evict=*/false, /*answer_bytes=*/0, nullptr));
  parts_.plans->InsertAhead(request, model_name, plan);
  return plan;
}

StatusOr<std::shared_ptr<Plan>> PlanRunner::MakeAhead(const QueuedRequest& request) {
  return MakeAhead(PlanRequestOf(request), request.key.model.name);
}

StatusOr<InferenceResult> PlanRunner::Run(const QueuedRequest& request, DeviceContext& context) {
  if (request.kept != nullptr) return RunKept(request, context);
  VICINAL_ASSIGN_OR_RETURN(Answers answers, RunShared({&request}, context));
  return std::move(answers.front());
}

std::vector<StatusOr<InferenceResult>> PlanRunner::RunTogether(const std::vector<const QueuedRequest*>& requests,
                                                               DeviceContext& context) {
  const bool batches = requests.front()->key.private_id != 0;
  if (requests.size() > 1) {
    StatusOr<Answers> shared = batches ? RunMerged(requests, context) : RunShared(requests, context);
    if (shared.ok()) return *std::move(shared);
  }
  // What failed for all of them, such as memory for the union of their fields, may be possible for each.
  return RequestRunner::RunTogether(requests, context);
}

StopCheck PlanRunner::StopOf(const std::vector<const QueuedRequest*>& requests) const {
  return [this, &requests] {
    Status last;
    for (const QueuedRequest* request : requests) {
      last = request->limits.Check(*parts_.clock);
      if (last.ok()) break;
    }
    return last;
  };
}

StatusOr<PlanRunner::Answers> PlanRunner::RunShared(const std::vector<const QueuedRequest*>& requests,
                                                    DeviceContext& context) {
  std::vector<int64_t> ids;
  bool all = false;
  std::vector<const std::vector<int64_t>*> parts;
  for (const QueuedRequest* request : requests) {
    all = all || request->nodes.all;
    ids.insert(ids.end(), request->nodes.ids.begin(), request->nodes.ids.end());
    parts.push_back(request->nodes.all ? nullptr : &request->nodes.ids);
  }
  return RunFor(requests, *requests.front(), all ? nullptr : &ids, parts, context);
}

StatusOr<PlanRunner::Answers> PlanRunner::RunMerged(const std::vector<const QueuedRequest*>& requests,
                                                    DeviceContext& context) {
  VICINAL_ASSIGN_OR_RETURN(const MergedGraphs merged, MergeGraphs(requests, parts_.budget, parts_.device));
  const QueuedRequest& first = *requests.front();
  QueuedRequest whole;
  whole.key = first.key;
  whole.model = first.model;
  whole.output = first.output;
  whole.graph = merged.graph;
  whole.features = merged.features;
  std::vector<std::vector<int64_t>> rows(requests.size());
  std::vector<const std::vector<int64_t>*> parts;
  for (size_t i = 0; i < requests.size(); ++i) {
    rows[i].resize(static_cast<size_t>(merged.first_graph[i + 1] - merged.first_graph[i]));
    std::iota(rows[i].begin(), rows[i].end(), merged.first_graph[i]);
    parts.push_back(&rows[i]);
  }
  return RunFor(requests, whole, nullptr, parts, context);
}

StatusOr<PlanRunner::Answers> PlanRunner::RunFor(const std::vector<const QueuedRequest*>& requests,
                                                 const QueuedRequest& whole, const std::vector<int64_t>* ids,
                                                 const std::vector<const std::vector<int64_t>*>& parts,
                                                 DeviceContext& context) {
  const StopCheck stop = StopOf(requests);
  RunTiming times;
  times.taken_up = parts_.clock->Now();
  VICINAL_ASSIGN_OR_RETURN(const std::shared_ptr<Plan> plan,
                           PlanBesideAnswer(whole, AnswerBytes(requests), PlanThreads(context), stop));
  const MutexLock lock(&plan->in_use());
  times.planned = parts_.clock->Now();
  const ReceptiveFieldMemory::Use room(parts_.receptive_field_memory);
  const RunParts run = {&context,     whole.features.get(), room.workspace(), &stop,         parts_.stats,
                        parts_.clock, whole.replaced.get(), parts_.device,    parts_.budget, whole.edges.get()};
  VICINAL_ASSIGN_OR_RETURN(const ComputedRows computed, RunForNodes(*plan, WantedOf(whole, ids), run));
  times.executed = parts_.clock->Now();
  const auto count = static_cast<int64_t>(requests.size());
  const double seconds = SecondsBetween(times.planned, times.executed);
  parts_.stats->RunRequests(count);
  parts_.stats->PhaseSeconds("plan", SecondsBetween(times.taken_up, times.planned));
  parts_.stats->PhaseSeconds("execute", seconds);
  Answers answers;
  for (size_t i = 0; i < requests.size(); ++i) {
    answers.push_back(AnswerOf(*requests[i], parts[i], *plan, computed, run, times, count));
    if (parts_.on_run) {
      parts_.on_run(*requests[i], computed.share / static_cast<double>(count), seconds / static_cast<double>(count));
    }
  }
  return answers;
}

StatusOr<InferenceResult> PlanRunner::AnswerOf(const QueuedRequest& request, const std::vector<int64_t>* ids,
                                               const Plan& plan, const ComputedRows& computed, RunParts run,
                                               const RunTiming& times, int64_t run_requests) const {
  const StopCheck stop = StopOf(request);
  run.stop = &stop;
  VICINAL_RETURN_IF_ERROR(stop());
  const MonotonicTime begin = parts_.clock->Now();
  InferenceResult result;
  result.rows = ids == nullptr ? computed.rows.rows : static_cast<int64_t>(ids->size());
  result.width = computed.rows.cols;
  result.receptive_field = computed.receptive_field;
  result.computed_nodes = computed.computed_nodes;
  result.run_requests = run_requests;
  const WantedRows wanted = WantedOf(request, ids);
  VICINAL_RETURN_IF_ERROR(request.links != nullptr ? TakeLinks(request, computed, wanted, run, &result)
                                                   : TakeRows(request, computed, wanted, run, &result));
  const double scored = request.links != nullptr ? SecondsBetween(begin, parts_.clock->Now()) : 0.0;
  result.served_by = ServedByOf(request);
  result.served_by.numerics_revision = RevisionOf(request, plan);
  result.multi_label = request.model->multi_label;
  result.regression = request.model->regression;
  result.timing = {SecondsBetween(request.arrival, times.taken_up), SecondsBetween(times.taken_up, times.planned),
                   SecondsBetween(times.planned, times.executed) + scored};
  if (request.links != nullptr) parts_.stats->PhaseSeconds("links", scored);
  parts_.stats->PhaseSeconds("queue", result.timing.queue_seconds);
  parts_.stats->PhaseSeconds("gather", SecondsBetween(begin, parts_.clock->Now()));
  return result;
}

Status PlanRunner::TakeRows(const QueuedRequest& request, const ComputedRows& computed, const WantedRows& wanted,
                            const RunParts& run, InferenceResult* result) const {
  const std::optional<WantedClasses>& classes = request.classes;
  ClassRanker* const ranker = classes ? RankerFor(computed, wanted, *classes, *run.context) : nullptr;
  // Both are numbers of four bytes.
  int64_t of_row = result->width;
  if (ranker != nullptr)
    of_row = 2 * classes->top_k + result->width * (int{classes->probabilities} + int{classes->logits});
  VICINAL_ASSIGN_OR_RETURN(Reservation memory, ReserveLarge(result->rows * of_row * static_cast<int64_t>(sizeof(float)),
                                                            kAnswer, parts_.budget));
  if (memory) result->held = std::make_shared<const Reservation>(std::move(memory));
  if (ranker != nullptr) {
    return RankWanted(*ranker, computed, wanted, *classes, request.model->multi_label, run, &result->ranked.emplace(),
                      &result->values);
  }
  VICINAL_ASSIGN_OR_RETURN(result->values, GatherWanted(computed, wanted, run));
  return OkStatus();
}

Status PlanRunner::TakeLinks(const QueuedRequest& request, const ComputedRows& computed, const WantedRows& wanted,
                             const RunParts& run, InferenceResult* result) const {
  const LinkRows rows = {computed.rows, PlacesOf(computed, wanted, run)};
  return ScoreLinks(request, rows, {run.context, parts_.registry, parts_.budget, run.stop}, result);
}

StatusOr<InferenceResult> PlanRunner::RunKept(const QueuedRequest& request, DeviceContext& context) const {
  const StopCheck stop = StopOf(request);
  VICINAL_RETURN_IF_ERROR(stop());
  const MonotonicTime begin = parts_.clock->Now();
  const KeptAnswers& kept = *request.kept;
  LinkRows rows = {{kept.values.data(), kept.rows, kept.width, kept.width}, request.nodes.ids, true};
  if (request.nodes.all) {
    rows.places.resize(static_cast<size_t>(kept.rows));
    std::iota(rows.places.begin(), rows.places.end(), int64_t{0});
  }
  InferenceResult result;
  VICINAL_RETURN_IF_ERROR(ScoreLinks(request, rows, {&context, parts_.registry, parts_.budget, &stop}, &result));
  result.kept = true;
  result.served_by = ServedByOf(request);
  result.served_by.numerics_revision = kept.numerics_revision;
  result.multi_label = request.model->multi_label;
  result.timing.queue_seconds = SecondsBetween(request.arrival, begin);
  result.timing.execute_seconds = SecondsBetween(begin, parts_.clock->Now());
  parts_.stats->PhaseSeconds("queue", result.timing.queue_seconds);
  parts_.stats->PhaseSeconds("links", result.timing.execute_seconds);
  return result;
}

WantedRows PlanRunner::WantedOf(const QueuedRequest& request, const std::vector<int64_t>* ids) {
  // The rows of a graph-level model are graphs, which are not renumbered.
  static const Permutation& as_is = *new Permutation();
  return {ids, request.model->graph_level ? &as_is : &request.graph->parts().permutation,
          request.key.options.receptive_field};
}

StatusOr<PlanRunner::AllRows> PlanRunner::RunAll(const QueuedRequest& request, DeviceContext& context,
                                                 const StopCheck& stop,
                                                 const std::function<bool(int64_t numerics_revision)>& is_wanted,
                                                 const std::function<Status(int64_t bytes)>& admit) {
  const int64_t tuning_revision = request.graph->tuning().revision();
  VICINAL_ASSIGN_OR_RETURN(const std::shared_ptr<Plan> plan, PlanFor(request, PlanThreads(context), stop));
  VICINAL_ASSIGN_OR_RETURN(AllRows all, RunAll(request, *plan, context, stop, is_wanted, admit));
  all.tuning_revision = tuning_revision;
  return all;
}

StatusOr<PlanRunner::AllRows> PlanRunner::RunAll(const QueuedRequest& request, Plan& plan, DeviceContext& context,
                                                 const StopCheck& stop,
                                                 const std::function<bool(int64_t numerics_revision)>& is_wanted,
                                                 const std::function<Status(int64_t bytes)>& admit) {
  AllRows all;
  const MutexLock lock(&plan.in_use());
  all.numerics_revision = RevisionOf(request, plan);
  if (!is_wanted(all.numerics_revision)) return all;
  RunParts run = {&context, request.features.get(), nullptr, &stop, parts_.stats, parts_.clock};
  run.edges = request.edges.get();
  VICINAL_ASSIGN_OR_RETURN(const ComputedRows computed, RunForNodes(plan, WantedOf(request, nullptr), run));
  all.rows = computed.rows.rows;
  all.width = computed.rows.cols;
  VICINAL_RETURN_IF_ERROR(admit(all.rows * all.width * static_cast<int64_t>(sizeof(float))));
  VICINAL_ASSIGN_OR_RETURN(all.values, GatherWanted(computed, WantedOf(request, nullptr), run));
  return all;
}

}  // namespace vicinal
