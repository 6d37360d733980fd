// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/build/plan_layout.h"

#include <algorithm>
#include <type_traits>

#include "engine/device/row_stride.h"
#include "engine/plan/build/plan_bytes.h"
#include "engine/plan/build/step_binder.h"

namespace vicinal::internal {
namespace {

// The first and last step that reads or writes a value; -1: none.
struct Lifetime {
  int first = -1;
  int last = -1;
};

// The lifetimes of root values. The output lives until after the last step.
std::vector<Lifetime> LifetimesOf(const Program& program) {
  std::vector<Lifetime> lifetimes(program.values.size());
  const auto touch = [&](ValueId value, int step) {
    Lifetime& lifetime = lifetimes[PlaceOf(program, value).root];
    if (lifetime.first < 0) lifetime.first = step;
    lifetime.last = std::max(lifetime.last, step);
  };
  const int steps = static_cast<int>(program.nodes.size());
  for (int step = 0; step < steps; ++step) {
    ForEachRead(program.nodes[step], [&](ValueId value) { touch(value, step); });
    touch(program.nodes[step].output, step);
  }
  touch(program.output, steps);
  return lifetimes;
}

}  // namespace

void PlanLayout::BookValues() {
  const Program& program = context_.program;
  const std::vector<Lifetime> lifetimes = LifetimesOf(program);
  values_.assign(program.values.size(), {});
  for (size_t v = 1; v < program.values.size(); ++v) {
    if (lifetimes[v].first < 0) continue;
    const int64_t stride = RowStrideFor(program.values[v].width);
    const size_t element = program.values[v].storage == Storage::kFloat32 ? sizeof(float) : sizeof(uint16_t);
    const int64_t rows = context_.RowsOf(static_cast<ValueId>(v));
    const size_t bytes = static_cast<size_t>(rows) * static_cast<size_t>(stride) * element;
    values_[v] = {ledger_.Book(bytes, lifetimes[v].first, lifetimes[v].last), stride};
  }
}

Status PlanLayout::ChooseKernels() {
  BookValues();
  const std::vector<Node>& nodes = context_.program.nodes;
  scratch_.assign(nodes.size(), -1);
  work_.assign(nodes.size(), std::nullopt);
  for (size_t step = 0; step < nodes.size(); ++step) {
    VICINAL_RETURN_IF_ERROR(context_.CheckStop());
    launches_.push_back(std::make_unique<Launch>());
    VICINAL_RETURN_IF_ERROR(StepBinder(this, static_cast<int>(step)).Bind());
  }
  ledger_.Assign();
  step_bytes_ = StepBytes(launches_, context_.program.decisions);
  return OkStatus();
}

Status PlanLayout::TakeArena() {
  VICINAL_ASSIGN_OR_RETURN(arena_, allocator_.Arena(ledger_.total_bytes()));
  return OkStatus();
}

void PlanLayout::Finish(BuiltPlan* plan) {
  for (const ViewSlot& slot : views_) SetView(slot);
  TuningTable& tuning = context_.request.graph->tuning();
  for (size_t step = 0; step < launches_.size(); ++step) {
    if (scratch_[step] >= 0) launches_[step]->scratch = arena_ + ledger_.offset(scratch_[step]);
    if (work_[step].has_value()) launches_[step]->uses = tuning.Note(*work_[step]);
  }
  plan->result = ViewOf(context_.program.output);
  plan->launches = std::move(launches_);
  plan->features = std::move(features_);
  plan->step_bytes = step_bytes_;
  plan->reduction_order = reduction_order_;
}

// The step is part of the id: a change in one step differs from the same change in another.
void PlanLayout::NoteReductionOrder(int step, int64_t reduction_order) {
  if (reduction_order == 0) return;
  reduction_order_ = MixReductionOrders(reduction_order_, step, reduction_order);
}

StatusOr<const int64_t*> PlanLayout::Segments() {
  if (segments_.has_value()) return *segments_;
  std::vector<int64_t> offsets = context_.request.graph->parts().segments;
  if (offsets.empty()) offsets = {0, context_.request.graph->num_nodes()};
  VICINAL_ASSIGN_OR_RETURN(const void* kept, allocator_.Copy(offsets.data(), offsets.size() * sizeof(int64_t)));
  segments_ = static_cast<const int64_t*>(kept);
  return *segments_;
}

void PlanLayout::SetView(const ViewSlot& slot) const {
  std::visit(
      [&](auto* view) {
        using View = std::decay_t<decltype(*view)>;
        if constexpr (std::is_same_v<View, ConstMatrixView> || std::is_same_v<View, MatrixView>) {
          *view = ViewOf(slot.value).columns(slot.first, slot.count);
        } else {
          *view = View16Of(slot.value);
        }
      },
      slot.view);
}

MatrixView PlanLayout::ViewOf(ValueId value) const {
  const Place place = PlaceOf(context_.program, value);
  float* data = reinterpret_cast<float*>(arena_ + ledger_.offset(values_[place.root].booking));
  const int64_t width = context_.program.values[value].width;
  return {data + place.offset, context_.RowsOf(value), width, values_[place.root].stride};
}

MatrixView16 PlanLayout::View16Of(ValueId value) const {
  auto* data = reinterpret_cast<uint16_t*>(arena_ + ledger_.offset(values_[value].booking));
  return {data, context_.RowsOf(value), context_.program.values[value].width, values_[value].stride};
}

}  // namespace vicinal::internal
