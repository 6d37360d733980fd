// SPDX-License-Identifier: Apache-2.0
// Runs a plan: a loop over its launches. All decisions were made when it was built (build/plan_builder.h).
#include "engine/plan/plan.h"

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/kernels/expression_form.h"
#include "engine/plan/build/plan_builder.h"
#include "engine/plan/receptive_field/subset_run.h"
#include "engine/plan/run/recorded_runs.h"
#include "engine/tune/first_runs.h"

namespace vicinal {
namespace {

// Why a kernel interprets a program that it could run as code of its own.
void AddInterpretation(const internal::Launch& launch, PlanStepInfo* info) {
  const auto* const bound = std::get_if<internal::Bound<ExpressionKernel>>(&launch.bound);
  if (bound == nullptr) return;
  const ExpressionForm* const form = FormOf(bound->kernel->kernel(), bound->args);
  if (form == nullptr || form->compiled()) return;
  if (std::string why = form->Describe(); !why.empty())
    info->refusals.push_back({absl::StrCat(info->kernel, ", compiled"), std::move(why)});
}

class PlanImpl final : public Plan {
 public:
  PlanImpl(internal::BuiltPlan built, const KernelRegistry& registry)
      : built_(std::move(built)),
        first_runs_(built_.request.first_runs),
        watch_full_(first_runs_ != nullptr),
        watch_fields_(first_runs_ != nullptr),
        subset_(&built_, registry),
        recorded_(&built_.launches) {}

  StatusOr<ConstMatrixView> Run(DeviceContext& context, const RunInputs& inputs, const StopCheck& stop,
                                StatsSink& stats, const Clock& clock) override {
    VICINAL_RETURN_IF_ERROR(CheckInputs(inputs));
    if (subset_.bound()) subset_.Unbind();
    SetInputs(inputs);
    if (context.launches_only() && !watch_full_ && built_.tiles.empty()) {
      VICINAL_RETURN_IF_ERROR(Known(recorded_.Run(context, inputs, stop, stats)));
    } else {
      VICINAL_RETURN_IF_ERROR(RunLaunches(context, stop, stats, clock, &internal::Launch::full, &watch_full_));
    }
    return built_.result;
  }

  Status RunQueued(DeviceContext& context, const RunInputs& inputs, int count) override {
    if (!context.launches_only()) return Plan::RunQueued(context, inputs, count);
    VICINAL_RETURN_IF_ERROR(CheckInputs(inputs));
    if (subset_.bound()) subset_.Unbind();
    SetInputs(inputs);
    return recorded_.RunQueued(context, inputs, count);
  }

  const ReceptiveFieldShape& field() const override { return built_.field.shape; }

  StatusOr<ConstMatrixView> RunReceptiveField(DeviceContext& context, const RunInputs& inputs,
                                              const ReplacedRows* replaced, ReceptiveFieldWorkspace* work,
                                              const StopCheck& stop, StatsSink& stats, const Clock& clock) override {
    VICINAL_RETURN_IF_ERROR(CheckInputs(inputs));
    const MonotonicTime begin = clock.Now();
    VICINAL_RETURN_IF_ERROR(subset_.Bind(context, inputs.features, replaced, work));
    SetEdges(inputs.edges);  // found by the nodes of the field's rows
    stats.PhaseSeconds("field_features", SecondsBetween(begin, clock.Now()));
    VICINAL_RETURN_IF_ERROR(RunLaunches(context, stop, stats, clock, &internal::Launch::in_fields, &watch_fields_));
    ConstMatrixView result = built_.result;
    result.rows = work->finder.rows(0);
    return result;
  }

  std::vector<PlanStepInfo> Steps() const override {
    std::vector<PlanStepInfo> steps;
    for (const auto& launch : built_.launches) {
      PlanStepInfo info = launch->info;
      AddInterpretation(*launch, &info);
      info.run_count = launch->full.count();
      info.total_seconds = launch->full.seconds();
      info.receptive_field_run_count = launch->in_fields.count();
      info.receptive_field_total_seconds = launch->in_fields.seconds();
      steps.push_back(std::move(info));
    }
    return steps;
  }

  void ContinueCounts(const std::vector<PlanStepInfo>& before) override {
    for (size_t i = 0; i < std::min(before.size(), built_.launches.size()); ++i) {
      internal::Launch& launch = *built_.launches[i];
      const PlanStepInfo& info = launch.info;
      if (before[i].operation != info.operation || before[i].description != info.description ||
          before[i].kernel != info.kernel || before[i].parameters != info.parameters) {
        continue;
      }
      launch.full.Continue(before[i].run_count, before[i].total_seconds);
      launch.in_fields.Continue(before[i].receptive_field_run_count, before[i].receptive_field_total_seconds);
    }
  }

  std::vector<std::string> Decisions() const override {
    std::vector<std::string> decisions = built_.decisions;
    const std::string refusal = recorded_.refusal();
    if (!refusal.empty()) decisions.push_back("steps are launched one by one: " + refusal);
    return decisions;
  }
  int64_t scratch_bytes() const override { return static_cast<int64_t>(built_.memory.arena.bytes()); }
  int64_t whole_scratch_bytes() const override { return built_.whole_arena_bytes; }
  int64_t tiled_scratch_bytes() const override { return built_.tiled_arena_bytes; }
  int64_t step_bytes() const override { return built_.step_bytes; }
  int64_t size_bytes() const override { return scratch_bytes() + built_.memory.constant_bytes + built_.step_bytes; }
  int64_t reduction_order() const override { return built_.reduction_order; }

 private:
  // Counts each launch in its `times`, and times it unless launches return before they have run. A launch that was
  // stopped is not counted. `watch`: whether some may run for the first time; false after a run in which all ended
  // well.
  Status RunLaunches(DeviceContext& context, const StopCheck& stop, StatsSink& stats, const Clock& clock,
                     internal::RunTimes internal::Launch::*times, bool* watch) {
    Status wanted;
    const std::function<bool()> unwanted = [&stop, &wanted] { return !(wanted = stop()).ok(); };
    const ThreadPool::StopScope loops(stop ? context.thread_pool() : nullptr, unwanted);
    size_t next_tiles = 0;
    for (size_t i = 0; i < built_.launches.size(); ++i) {
      if (stop) VICINAL_RETURN_IF_ERROR(stop());
      if (next_tiles < built_.tiles.size() && built_.tiles[next_tiles].first == static_cast<int>(i)) {
        const internal::LaunchTiles& tiles = built_.tiles[next_tiles++];
        VICINAL_RETURN_IF_ERROR(RunGroup(tiles, context, {stop, loops, wanted}, stats, clock, times, *watch));
        i = static_cast<size_t>(tiles.last);
        continue;
      }
      internal::Launch& launch = *built_.launches[i];
      const MonotonicTime begin = clock.Now();
      launch.CountRun();
      VICINAL_RETURN_IF_ERROR(*watch ? RunWatched(launch, context, loops) : Known(launch.RunUncounted(context)));
      if (loops.stopped()) return wanted;
      const Nanoseconds spent = clock.Now() - begin;
      (launch.*times).Count();
      if (context.launches_only()) continue;
      (launch.*times).AddTime(spent);
      stats.PhaseSeconds(launch.info.operation, std::chrono::duration<double>(spent).count());
    }
    VICINAL_RETURN_IF_ERROR(Known(context.Synchronize()));
    *watch = false;
    return OkStatus();
  }

  // What stops a run.
  struct Stop {
    const StopCheck& check;  // may be empty
    const ThreadPool::StopScope& loops;
    const Status& wanted;  // why, once loops.stopped()
  };

  // Runs launches block by block of rows. Each counts once; its time is that of all its blocks.
  Status RunGroup(const internal::LaunchTiles& tiles, DeviceContext& context, const Stop& stop, StatsSink& stats,
                  const Clock& clock, internal::RunTimes internal::Launch::*times, bool watch) {
    const MonotonicTime group_begin = clock.Now();
    const auto run = [&](internal::Launch& launch) -> Status {
      if (stop.check) VICINAL_RETURN_IF_ERROR(stop.check());
      const MonotonicTime begin = clock.Now();
      VICINAL_RETURN_IF_ERROR(watch ? RunWatched(launch, context, stop.loops) : Known(launch.RunUncounted(context)));
      if (stop.loops.stopped()) return stop.wanted;
      (launch.*times).nanoseconds.fetch_add((clock.Now() - begin).count(), std::memory_order_relaxed);
      return OkStatus();
    };
    VICINAL_RETURN_IF_ERROR(internal::RunTiles(tiles, built_.launches, run));
    for (int i = tiles.first; i <= tiles.last; ++i) {
      const internal::Launch& launch = *built_.launches[static_cast<size_t>(i)];
      launch.CountRun();
      (built_.launches[static_cast<size_t>(i)].get()->*times).Count();
      (built_.launches[static_cast<size_t>(i)].get()->*times).AddTime(Nanoseconds::zero());
    }
    stats.PhaseSeconds("tiles", SecondsBetween(group_begin, clock.Now()));
    return OkStatus();
  }

  // Runs the launch alone on the device if its configuration never ended well there: what happens then is its doing.
  Status RunWatched(const internal::Launch& launch, DeviceContext& context, const ThreadPool::StopScope& loops) {
    const std::string configuration = launch.Configuration();
    if (first_runs_->HasEndedWell(configuration)) return Known(launch.RunUncounted(context));
    VICINAL_RETURN_IF_ERROR(Known(context.Synchronize()));
    first_runs_->Begin(configuration);
    Status run = launch.RunUncounted(context);
    if (run.ok()) run = context.Synchronize();
    first_runs_->End(configuration,
                     loops.stopped() ? absl::CancelledError("the request was not wanted any more") : run);
    return run;
  }

  // The status of launches that are known to end well. Errors of the device cannot be blamed on one of them.
  Status Known(Status run) {
    if (run.code() != StatusCode::kInternal || first_runs_ == nullptr) return run;
    std::vector<std::string> configurations;
    for (const auto& launch : built_.launches) configurations.push_back(launch->Configuration());
    first_runs_->Doubt(configurations);
    watch_full_ = watch_fields_ = true;
    return run;
  }

  Status CheckInputs(const RunInputs& inputs) const {
    const FeatureMatrix& features = inputs.features;
    const FeatureShape& shape = built_.request.features;
    if (features.sparse() != shape.sparse || features.cols() != shape.cols ||
        features.rows() != built_.request.graph->num_nodes()) {
      return Internal(absl::StrCat("a plan for features [", built_.request.graph->num_nodes(), ", ", shape.cols,
                                   "] received [", features.rows(), ", ", features.cols(), "]"));
    }
    if (built_.edges.empty()) return OkStatus();
    const PreparedGraph& graph = *built_.request.graph;
    const int64_t width = built_.request.edge_set_cols;
    const EdgeMatrix* const edges = inputs.edges;
    if (edges == nullptr || edges->rows() != graph.num_edges() || edges->nodes() != graph.num_nodes() ||
        edges->cols() != width) {
      return Internal(
          absl::StrCat("a plan for features of edges [", graph.num_edges(), ", ", width, "] received ",
                       edges == nullptr ? "none" : absl::StrCat("[", edges->rows(), ", ", edges->cols(), "]")));
    }
    return OkStatus();
  }

  void SetInputs(const RunInputs& inputs) {
    SetFeatures(inputs.features);
    SetEdges(inputs.edges);
  }

  // REQUIRES: CheckInputs.
  void SetEdges(const EdgeMatrix* edges) {
    for (const internal::EdgeSlot& slot : built_.edges) {
      slot.view->values = edges->values();
      if (slot.means) slot.view->loop_values = edges->means();
    }
  }

  void SetFeatures(const FeatureMatrix& features) {
    if (features.sparse()) {
      const CsrView csr = features.csr();
      for (CsrView* view : built_.features.sparse) *view = csr;
      for (int64_t* nnz : built_.features.nnz) *nnz = csr.nnz;
    } else {
      for (ConstMatrixView* view : built_.features.dense) *view = features.dense();
    }
  }

  internal::BuiltPlan built_;
  FirstRuns* const first_runs_;  // null: nobody wants to know
  // Whether configurations of runs over the full graph, and over fields, may run for the first time on this device.
  bool watch_full_, watch_fields_;
  internal::SubsetRun subset_;       // references built_
  internal::RecordedRuns recorded_;  // references built_
};

}  // namespace

FeatureShape FeatureShape::Of(const FeatureMatrix& features, int64_t entries) {
  if (!features.sparse()) return {false, features.cols(), 0, false};
  // A nonzero costs about this many elements of a dense row: it is scattered into an accumulator, counted and read
  // back.
  constexpr int64_t kCrowdedOneIn = 20;
  return {true, features.cols(), entries, entries * kCrowdedOneIn >= features.rows() * features.cols()};
}

Status Plan::RunQueued(DeviceContext& context, const RunInputs& inputs, int count) {
  const StopCheck no_stop = [] { return OkStatus(); };
  for (int run = 0; run < count; ++run) {
    VICINAL_RETURN_IF_ERROR(Run(context, inputs, no_stop, StatsSink::Null(), Clock::Real()).status());
  }
  return OkStatus();
}

StatusOr<std::shared_ptr<Plan>> Plan::Build(const PlanRequest& request, const KernelRegistry& registry, Device& device,
                                            const PlanAdmission& admit, const StopCheck& stop) {
  internal::PlanBuilder builder(request, registry, device, stop);
  VICINAL_ASSIGN_OR_RETURN(internal::BuiltPlan built, builder.Build(admit));
  return std::shared_ptr<Plan>(std::make_shared<PlanImpl>(std::move(built), registry));
}

}  // namespace vicinal
