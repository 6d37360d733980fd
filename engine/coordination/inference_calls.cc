// SPDX-License-Identifier: Apache-2.0
#include "engine/coordination/inference_calls.h"

#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/out_of_memory.h"
#include "engine/execute/describe.h"

namespace vicinal {

// A request for a graph that has to be loaded waits until that is done.
Status InferenceCalls::Submit(InferenceRequest request, InferenceCallback done) const {
  if (!parts_.tiers->MustBeLoaded(request.graph)) return SubmitResident(std::move(request), std::move(done));
  VICINAL_RETURN_IF_ERROR(request.limits.Check(*parts_.clock));
  const std::string graph = request.graph;
  const WorkLimits limits = request.limits;
  return parts_.tiers->Load(graph, limits,
                            [this, request = std::move(request), done = std::move(done)](const Status& loaded) {
                              const Status submitted = loaded.ok() ? SubmitResident(request, done) : loaded;
                              if (!submitted.ok()) done(submitted);
                            });
}

Status InferenceCalls::SubmitResident(InferenceRequest request, InferenceCallback done) const try {
  VICINAL_ASSIGN_OR_RETURN(QueuedRequest resolved,
                           parts_.resolver->Resolve(std::move(request), [this](const QueuedRequest& coming) {
                             return parts_.executor->Check(coming);
                           }));
  resolved.done = std::move(done);
  if (const std::optional<Status> answered = parts_.keeper->Answer(&resolved)) return *answered;
  return parts_.executor->Submit(std::move(resolved));
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

Status InferenceCalls::SubmitBatch(GraphBatchRequest request, InferenceCallback done) const try {
  VICINAL_ASSIGN_OR_RETURN(QueuedRequest resolved, parts_.resolver->ResolveBatch(std::move(request)));
  resolved.done = std::move(done);
  return parts_.executor->Submit(std::move(resolved));
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

StatusOr<Explanation> InferenceCalls::Explain(const InferenceRequest& request) const try {
  const int64_t away = parts_.graphs->StoredVersion(request.graph);
  const bool on_host = parts_.graphs->HostCopyOf(request.graph, away) != nullptr;
  VICINAL_RETURN_IF_ERROR(parts_.tiers->BringIn(request.graph, request.limits));
  InferenceRequest asked = request;
  if (asked.nodes.ids.empty()) asked.nodes.all = true;
  VICINAL_ASSIGN_OR_RETURN(const QueuedRequest resolved, parts_.resolver->Resolve(std::move(asked)));
  VICINAL_ASSIGN_OR_RETURN(const std::shared_ptr<Plan> plan,
                           parts_.runner->PlanFor(resolved, parts_.executor->num_threads()));
  Explanation explanation = ExplanationOf(resolved, *plan, *parts_.registry, *parts_.device);
  if (away != 0) {
    explanation.decisions.push_back(absl::StrCat("the graph was on ", on_host ? "the host" : "disk",
                                                 " only: this call has brought it to ", parts_.device->name()));
  }
  return explanation;
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

}  // namespace vicinal
