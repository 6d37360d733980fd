// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/request_runner.h"

#include <utility>

#include "engine/base/error.h"
#include "engine/base/out_of_memory.h"
#include "engine/execute/awaited.h"
#include "engine/execute/plan_memory.h"

namespace vicinal {
namespace {

// Answers smaller than this are not worth counting against the budget.
constexpr int64_t kSmallAnswerBytes = 1 << 20;

}  // namespace

RequestRunner::RequestRunner(const Parts& parts)
    : parts_(parts), executor_(*parts.device, {parts.max_queue, parts.clock, parts.stats}) {}

Status RequestRunner::Submit(InferenceJob job, InferenceCallback done) {
  struct Pending {
    InferenceJob job;
    InferenceCallback done;
    MonotonicTime submitted;
  };
  auto pending = std::make_shared<Pending>(Pending{std::move(job), std::move(done), parts_.clock->Now()});
  return executor_.Submit(pending->job.limits, [this, pending](const Status& admitted, DeviceContext& context) {
    if (!admitted.ok()) return pending->done(admitted);
    pending->done(OrOutOfMemory([&] { return Run(pending->job, pending->submitted, context); }));
  });
}

StatusOr<InferenceResult> RequestRunner::RunAndWait(InferenceJob job) {
  Awaited<StatusOr<InferenceResult>> outcome;
  VICINAL_RETURN_IF_ERROR(
      Submit(std::move(job), [&outcome](StatusOr<InferenceResult> result) { outcome.Set(std::move(result)); }));
  return outcome.Take();
}

StopCheck RequestRunner::StopOf(const InferenceJob& job) const {
  return [this, &job] { return job.limits.Check(*parts_.clock); };
}

StatusOr<std::shared_ptr<Plan>> RequestRunner::PlanFor(const InferenceJob& job) {
  PlanRequest request = job.plan;
  request.tuning_revision = request.graph->tuning().revision();
  // A CPU multiplies exactly whatever may be rounded: one plan serves all.
  if (parts_.device->kind() == DeviceKind::kCpu) request.products = ProductPrecision::kFloat32;
  if (job.keep_plan) {
    if (std::shared_ptr<Plan> plan = parts_.plans->Find(PlanKey::Of(request))) return plan;
  }
  request.num_threads = executor_.num_threads();
  PlanMemory memory(parts_.budget, request.graph.get());
  const auto admit = [&memory](int64_t bytes) { return memory.Admit(bytes); };
  VICINAL_ASSIGN_OR_RETURN(std::shared_ptr<Plan> plan,
                           Plan::Build(request, *parts_.registry, *parts_.device, admit, StopOf(job)));
  plan = memory.Keep(std::move(plan));
  if (!job.keep_plan) return plan;
  if (parts_.on_plan) parts_.on_plan(request.graph);
  return parts_.plans->Insert(request, job.model_name, std::move(plan));
}

StatusOr<InferenceResult> RequestRunner::Run(const InferenceJob& job, MonotonicTime submitted, DeviceContext& context) {
  const MonotonicTime taken_up = parts_.clock->Now();
  VICINAL_ASSIGN_OR_RETURN(const std::shared_ptr<Plan> plan, PlanFor(job));
  const MonotonicTime planned = parts_.clock->Now();
  const StopCheck stop = StopOf(job);
  const ReceptiveFieldMemory::Use room(parts_.receptive_field_memory);
  const RunParts run = {&context, job.features.get(), room.workspace(), &stop, parts_.stats, parts_.clock};
  // A readout's rows are graphs, which were never renumbered.
  static const Permutation& as_is = *new Permutation();
  const WantedRows wanted = {job.all_rows ? nullptr : &job.ids,
                             job.plan.model->graph_level ? &as_is : &job.plan.graph->parts().permutation,
                             job.receptive_field};
  VICINAL_ASSIGN_OR_RETURN(const ComputedRows computed, RunForNodes(*plan, wanted, run));
  const MonotonicTime executed = parts_.clock->Now();

  InferenceResult result;
  result.rows = job.all_rows ? computed.rows.rows : static_cast<int64_t>(job.ids.size());
  result.width = computed.rows.cols;
  result.receptive_field = computed.receptive_field;
  result.computed_nodes = computed.computed_nodes;
  const int64_t bytes = result.rows * result.width * static_cast<int64_t>(sizeof(float));
  if (bytes > kSmallAnswerBytes) {
    VICINAL_ASSIGN_OR_RETURN(Reservation memory, parts_.budget->Reserve(Account::kRequests, bytes, "the answer"));
    result.held = std::make_shared<const Reservation>(std::move(memory));
  }
  VICINAL_ASSIGN_OR_RETURN(result.values, GatherWanted(computed, wanted, run));
  result.served_by = job.served_by;
  int64_t& revision = result.served_by.numerics_revision;
  if (revision != 0) revision = NumericsRevision(revision, plan->reduction_order());
  result.multi_label = job.plan.model->multi_label;
  result.timing = {SecondsBetween(submitted, taken_up), SecondsBetween(taken_up, planned),
                   SecondsBetween(planned, executed)};
  parts_.stats->PhaseSeconds("queue", result.timing.queue_seconds);
  parts_.stats->PhaseSeconds("plan", result.timing.plan_seconds);
  parts_.stats->PhaseSeconds("execute", result.timing.execute_seconds);
  parts_.stats->PhaseSeconds("gather", SecondsBetween(executed, parts_.clock->Now()));
  return result;
}

}  // namespace vicinal
