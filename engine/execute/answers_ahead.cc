// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/answers_ahead.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/mutex.h"
#include "engine/base/out_of_memory.h"
#include "engine/execute/answer_keeper.h"
#include "engine/execute/resolve.h"

namespace vicinal {
namespace {

Status Late() {
  return DeadlineExceeded("ANSWERS_LATE", absl::StrCat("their passes take longer than ", AnswersAhead::kLongest.count(),
                                                       " s, for which a publication waits at most"));
}

AnswerKey NamesOf(const AnswerKey& key) {
  AnswerKey names = key;
  names.incarnation.clear();
  names.graph.version = 0;
  names.model.version = 0;
  names.feature_set_version = 0;
  names.edge_feature_set_version = 0;
  return names;
}

bool Contains(const std::vector<AnswerUse>& uses, const AnswerKey& names) {
  return std::any_of(uses.begin(), uses.end(), [&](const AnswerUse& use) { return NamesOf(use.key) == names; });
}

// Null: it is not among the sets.
std::shared_ptr<const FeatureMatrix> FindSet(const std::vector<AnswersAhead::NamedFeatures>& sets,
                                             const std::string& feature_set) {
  for (const AnswersAhead::NamedFeatures& set : sets) {
    if (set.feature_set == feature_set) return set.features;
  }
  return nullptr;
}

// The same of edges.
FeatureSetHandle FindEdges(const std::vector<FeatureSetHandle>& edge_sets, const std::string& name) {
  for (const FeatureSetHandle& set : edge_sets) {
    if (set->name == name) return set;
  }
  return nullptr;
}

}  // namespace

// How a pass ended. It is told by itself, after the executor's thread has let go of the pass: what is not published
// after all is held by nobody then, and its answers are dropped.
struct AnswersAhead::Outcome {
  Mutex mutex;
  CondVar ended;
  std::optional<Status> status VICINAL_GUARDED_BY(mutex);

  void Tell(Status with) {
    MutexLock lock(&mutex);
    status = std::move(with);
    ended.NotifyAll();
  }
};

// One pass over all nodes. The thread that waits for it may leave: then the executor's drops it.
struct AnswersAhead::Pass {
  QueuedRequest request;
  std::shared_ptr<Plan> plan;
  std::vector<AnswerKey> spared;
  MonotonicTime last_hit{};  // of what they replace
  MonotonicTime due{};
  std::atomic<bool> given_up{false};

  // Written by the executor's thread, read once the outcome is there.
  PlanRunner::AllRows rows;
  Reservation memory;

  const std::shared_ptr<Outcome> outcome = std::make_shared<Outcome>();
};

template <class IsReplaced>
std::vector<AnswerUse> AnswersAhead::Replaced(const IsReplaced& is_replaced) const {
  std::vector<AnswerUse> replaced;
  for (AnswerUse& use : parts_.cache->InUse(parts_.clock->Now() - kInUse)) {
    if (replaced.size() < kMost && is_replaced(use.key)) replaced.push_back(std::move(use));
  }
  return replaced;
}

std::shared_ptr<AnswersAhead::Pass> AnswersAhead::PassFor(const AnswerUse& use,
                                                          std::shared_ptr<const PreparedGraph> graph,
                                                          std::shared_ptr<const FeatureMatrix> features,
                                                          std::shared_ptr<const Model> model,
                                                          const FeatureSetHandle& edges) {
  const AnswerKey& replaced = use.key;
  const FeatureSet* const read = model->edge_feature_width > 0 ? edges.get() : nullptr;
  const NamedOutput* const output = model->FindOutput(replaced.output);
  if (output == nullptr || model->graph_level || model->feature_count != features->cols() ||
      !CheckEdges(*model, replaced.model.name, *graph, read).ok()) {
    return nullptr;
  }
  auto pass = std::make_shared<Pass>();
  pass->last_hit = use.last_hit;
  QueuedRequest& request = pass->request;
  request.key.graph.name = replaced.graph.name;
  request.key.model.name = replaced.model.name;
  request.key.options.output = replaced.output;
  request.key.options.precision = replaced.precision;
  request.key.options.product_precision = replaced.product_precision;
  request.graph = std::move(graph);
  request.features = std::move(features);
  request.model = std::move(model);
  request.feature_set = replaced.feature_set;
  if (read != nullptr) {
    request.edges = read->edges;
    request.edge_feature_set = read->name;
  }
  request.output = output->value;
  request.nodes.all = true;
  request.answer = {request.graph->num_nodes(), output->width};
  return pass;
}

void AnswersAhead::Remember(const std::vector<AnswerUse>& replaced) {
  MutexLock lock(&mutex_);
  for (auto use = replaced.rbegin(); use != replaced.rend(); ++use) {
    AnswerKey names = NamesOf(use->key);
    std::erase_if(remembered_, [&](const AnswerUse& known) { return known.key == names; });
    remembered_.push_front({std::move(names), use->last_hit});
  }
  if (remembered_.size() > kMostRemembered) remembered_.resize(kMostRemembered);
}

template <class IsWanted>
std::vector<AnswerUse> AnswersAhead::Remembered(const IsWanted& is_wanted) {
  const MonotonicTime since = parts_.clock->Now() - kInUse;
  std::vector<AnswerUse> known;
  {
    MutexLock lock(&mutex_);
    std::erase_if(remembered_, [since](const AnswerUse& use) { return use.last_hit < since; });
    known.assign(remembered_.begin(), remembered_.end());
  }
  std::erase_if(known, [&is_wanted](const AnswerUse& use) { return !is_wanted(use.key); });
  return known;
}

std::vector<AnswerUse> AnswersAhead::AddRemembered(std::vector<AnswerUse> remembered, std::vector<AnswerUse> replaced,
                                                   std::vector<AnswerUse>* wanted) const {
  std::vector<AnswerUse> spared = std::move(replaced);
  for (AnswerUse& use : remembered) {
    if (wanted->size() == kMost || Contains(*wanted, use.key)) continue;
    // The answers that these replaced are gone: nothing tells which others were used less.
    spared = parts_.cache->InUse(parts_.clock->Now() - kInUse);
    wanted->push_back(std::move(use));
  }
  return spared;
}

void AnswersAhead::BeforeGraph(const std::shared_ptr<const PreparedGraph>& graph,
                               const std::vector<NamedFeatures>& sets, const std::vector<FeatureSetHandle>& edge_sets,
                               const StopCheck& stop) {
  const std::string& name = graph->parts().name;
  const auto has_features = [&](const AnswerKey& key) { return FindSet(sets, key.feature_set) != nullptr; };
  const auto is_complete = [&](const AnswerKey& key) {
    return key.graph.name == name && has_features(key) && EdgesOf(graph, key.edge_feature_set, edge_sets);
  };
  const std::vector<AnswerUse> replaced = Replaced(is_complete);
  std::vector<AnswerUse> wanted = replaced;
  const std::vector<AnswerUse> spared = AddRemembered(Remembered(is_complete), replaced, &wanted);
  if (!parts_.graphs->IsServing(*graph)) {
    const auto comes_later = [&](const AnswerKey& key) {
      return !has_features(key) || !(key.edge_feature_set.empty() || FindEdges(edge_sets, key.edge_feature_set));
    };
    Remember(Replaced([&](const AnswerKey& key) { return key.graph.name == name && comes_later(key); }));
  }
  std::vector<std::shared_ptr<Pass>> passes;
  for (const AnswerUse& use : wanted) {
    const AnswerKey& key = use.key;
    const StatusOr<ModelHandle> model = parts_.models->Find(key.model.name, 0);
    if (!model.ok()) continue;
    const std::optional<FeatureSetHandle> edges = EdgesOf(graph, key.edge_feature_set, edge_sets);
    if (!edges) continue;
    passes.push_back(PassFor(use, graph, FindSet(sets, key.feature_set), (*model)->model, *edges));
  }
  Make(passes, spared, stop);
}

std::optional<FeatureSetHandle> AnswersAhead::EdgesOf(const std::shared_ptr<const PreparedGraph>& graph,
                                                      const std::string& name,
                                                      const std::vector<FeatureSetHandle>& coming) const {
  const StatusOr<GraphHandle> there = parts_.graphs->Peek(graph->parts().name, 0, "", 0, {name, 0});
  if (there.ok() && there->graph == graph) return there->edges.ok() ? std::optional(*there->edges) : std::nullopt;
  const bool is_usual = name.empty() || name == kDefaultFeatureSet;
  if (FeatureSetHandle set = FindEdges(coming, is_usual ? kDefaultFeatureSet : name)) return set;
  return is_usual ? std::optional<FeatureSetHandle>(nullptr) : std::nullopt;
}

void AnswersAhead::BeforeEdges(const std::shared_ptr<const PreparedGraph>& graph, const FeatureSetHandle& set,
                               const StopCheck& stop) {
  // The first `default` takes the place of the graph's own features.
  const auto is_read = [&](const AnswerKey& key) {
    return key.graph.name == graph->parts().name &&
           (key.edge_feature_set == set->name || (key.edge_feature_set.empty() && set->name == kDefaultFeatureSet));
  };
  const std::vector<AnswerUse> replaced = Replaced(is_read);
  std::vector<AnswerUse> wanted = replaced, remembered = Remembered(is_read);
  for (std::vector<AnswerUse>* const uses : {&wanted, &remembered}) {
    for (AnswerUse& use : *uses) use.key.edge_feature_set = set->name;
  }
  const std::vector<AnswerUse> spared = AddRemembered(std::move(remembered), replaced, &wanted);
  std::vector<std::shared_ptr<Pass>> passes;
  for (const AnswerUse& use : wanted) {
    const AnswerKey& key = use.key;
    const StatusOr<ModelHandle> model = parts_.models->Find(key.model.name, key.model.version);
    const StatusOr<GraphHandle> handle =
        parts_.graphs->Peek(key.graph.name, key.graph.version, key.feature_set, key.feature_set_version);
    if (!model.ok() || !handle.ok() || handle->graph != graph || (*model)->model->edge_feature_width == 0) continue;
    passes.push_back(PassFor(use, graph, handle->features->matrix, (*model)->model, set));
  }
  Make(passes, spared, stop);
}

void AnswersAhead::BeforeModel(const std::string& name, const std::shared_ptr<const Model>& model,
                               const StopCheck& stop) {
  const std::vector<AnswerUse> replaced = Replaced([&](const AnswerKey& key) { return key.model.name == name; });
  std::vector<std::shared_ptr<Pass>> passes;
  for (const AnswerUse& use : replaced) {
    const AnswerKey& key = use.key;
    const StatusOr<GraphHandle> handle =
        parts_.graphs->Peek(key.graph.name, key.graph.version, key.feature_set, key.feature_set_version,
                            {key.edge_feature_set, key.edge_feature_set_version});
    if (!handle.ok() || !handle->edges.ok()) continue;
    passes.push_back(PassFor(use, handle->graph, handle->features->matrix, model, *handle->edges));
  }
  Make(passes, replaced, stop);
}

void AnswersAhead::Make(const std::vector<std::shared_ptr<Pass>>& passes, const std::vector<AnswerUse>& spared,
                        const StopCheck& stop) {
  const MonotonicTime begin = parts_.clock->Now();
  for (const std::shared_ptr<Pass>& pass : passes) {
    if (pass == nullptr) continue;
    for (const AnswerUse& use : spared) pass->spared.push_back(use.key);
    const MonotonicTime started = parts_.clock->Now();
    const Status kept = OrOutOfMemory([&] { return Keep(pass, begin + kLongest, stop); });
    Report(*pass, kept, SecondsBetween(started, parts_.clock->Now()));
  }
}

Status AnswersAhead::Keep(const std::shared_ptr<Pass>& pass, MonotonicTime until, const StopCheck& stop) {
  if (parts_.clock->Now() >= until) return Late();
  if (stop) VICINAL_RETURN_IF_ERROR(stop());
  const QueuedRequest& request = pass->request;
  const int64_t tuning_revision = request.graph->tuning().revision();
  VICINAL_ASSIGN_OR_RETURN(pass->plan, parts_.runner->MakeAhead(request));
  pass->due = parts_.clock->Now() + kPatience;
  Submit(pass);
  VICINAL_RETURN_IF_ERROR(Await(*pass, until, stop));
  pass->rows.tuning_revision = tuning_revision;
  AnswerKey names;
  names.graph.name = request.key.graph.name;
  names.model.name = request.key.model.name;
  names.feature_set = request.feature_set;
  names.edge_feature_set = request.edge_feature_set;
  names.output = request.key.options.output;
  names.precision = request.key.options.precision;
  names.product_precision = request.key.options.product_precision;
  const std::shared_ptr<const KeptAnswers> answers = KeptAnswersOf(std::move(pass->rows));
  answers->last_hit.store(pass->last_hit, std::memory_order_relaxed);
  AnswerVersions versions = {request.graph, request.features, request.model};
  if (request.edges != nullptr) versions.edges = request.edges;
  parts_.cache->InsertAhead(std::move(names), std::move(versions), answers, std::move(pass->memory));
  return OkStatus();
}

void AnswersAhead::Submit(std::shared_ptr<Pass> pass) {
  const MonotonicTime due = pass->due;
  const RequestKey key = pass->request.key;
  executor_->SubmitBackground(
      {"answers for a new version",
       [this, pass = std::move(pass)](const Status& admitted, DeviceContext& context, const Lease& lease) mutable {
         Run(std::move(pass), admitted, context, lease);
       },
       due, key});
}

void AnswersAhead::Run(std::shared_ptr<Pass> pass, const Status& admitted, DeviceContext& context, const Lease& lease) {
  const auto end = [&pass](const Status& with) {
    const std::shared_ptr<Outcome> outcome = pass->outcome;
    pass.reset();
    outcome->Tell(with);
  };
  if (!admitted.ok()) return end(admitted);
  if (pass->given_up) return;
  const MonotonicTime begin = parts_.clock->Now();
  const bool due = begin >= pass->due;
  const StopCheck stop = [&] {
    return pass->given_up || lease.Ending() || (!due && lease.ShouldStop()) ? PassInterrupted() : OkStatus();
  };
  const Status ran = OrOutOfMemory([&]() -> Status {
    VICINAL_ASSIGN_OR_RETURN(pass->rows, parts_.runner->RunAll(
                                             pass->request, *pass->plan, context, stop, [](int64_t) { return true; },
                                             [this, &pass](int64_t bytes) -> Status {
                                               VICINAL_ASSIGN_OR_RETURN(pass->memory,
                                                                        parts_.cache->Reserve(bytes, pass->spared));
                                               return OkStatus();
                                             }));
    return OkStatus();
  });
  if (ran.code() != StatusCode::kCancelled) return end(ran);
  parts_.stats->AnswerPass("interrupted", SecondsBetween(begin, parts_.clock->Now()));
  if (!pass->given_up) Submit(std::move(pass));
}

Status AnswersAhead::Await(Pass& pass, MonotonicTime until, const StopCheck& stop) const {
  // That nobody wants the version any more is noticed after this time.
  constexpr std::chrono::milliseconds kLook{20};
  Outcome& outcome = *pass.outcome;
  MutexLock lock(&outcome.mutex);
  while (!outcome.status) {
    Status wanted = stop ? stop() : OkStatus();
    if (wanted.ok() && parts_.clock->Now() >= until) wanted = Late();
    if (!wanted.ok()) {
      pass.given_up = true;
      return wanted;
    }
    outcome.ended.WaitUntil(&outcome.mutex, std::chrono::steady_clock::now() + kLook);
  }
  return *outcome.status;
}

void AnswersAhead::Report(const Pass& pass, const Status& kept, double seconds) const {
  const bool late = kept.code() == StatusCode::kDeadlineExceeded || kept.code() == StatusCode::kCancelled ||
                    kept.code() == StatusCode::kUnavailable;  // the server drains
  const bool refused = PassRefused(kept);
  parts_.stats->AnswerPass(kept.ok() ? "ahead" : late ? "late" : refused ? "refused" : "failed", seconds);
  LogFields fields = {{"graph", pass.request.key.graph.name},
                      {"model", pass.request.key.model.name},
                      {"output", pass.request.key.options.output},
                      {"seconds", absl::StrCat(seconds)}};
  if (kept.ok()) return parts_.logger->Log(LogLevel::kInfo, "answers made before a new version serves", fields);
  fields.emplace_back("error", std::string(kept.message()));
  parts_.logger->Log(late || refused ? LogLevel::kInfo : LogLevel::kWarning,
                     "answers not made before a new version serves", fields);
}

}  // namespace vicinal
