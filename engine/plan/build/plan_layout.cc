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

// The group of tiles of each step, and of the one after the last; -1: none.
std::vector<int> GroupOfSteps(const std::vector<TiledNodes>& groups, size_t steps) {
  std::vector<int> group_of(steps + 1, -1);
  for (size_t group = 0; group < groups.size(); ++group) {
    for (int step = groups[group].first; step <= groups[group].last; ++step) {
      group_of[static_cast<size_t>(step)] = static_cast<int>(group);
    }
  }
  return group_of;
}

}  // namespace

size_t PlanLayout::BytesOfValue(size_t value, int64_t rows) const {
  const Value& of = context_.program.values[value];
  const size_t element = of.storage == Storage::kFloat32 ? sizeof(float) : sizeof(uint16_t);
  return static_cast<size_t>(rows) * static_cast<size_t>(RowStrideFor(of.width)) * element;
}

void PlanLayout::FindTiles() {
  // A GPU's launches would need their parts of adjacencies there; batches have one plan each, of small graphs.
  if (context_.device.kind() != DeviceKind::kCpu || !context_.request.graph->parts().segments.empty()) return;
  const auto can_cut = [this](int node) {
    return std::visit(
        [](const auto& bound) {
          return bound.kernel->kernel().LayoutName(bound.args.problem, bound.args.config).empty();
        },
        launches_[static_cast<size_t>(node)]->bound);
  };
  if (TileRows(context_.request.graph->num_nodes()) >= context_.request.graph->num_nodes()) return;
  groups_ = FindTiledNodes(context_.program, can_cut);
}

void PlanLayout::Arrange(bool tiled, Arrangement* arrangement) {
  const Program& program = context_.program;
  std::vector<Lifetime> lifetimes = LifetimesOf(program);
  const int64_t block = TileRows(context_.request.graph->num_nodes());
  std::vector<int64_t> rows(program.values.size());
  for (size_t v = 0; v < rows.size(); ++v) rows[v] = context_.RowsOf(static_cast<ValueId>(v));
  std::vector<Lifetime> of_scratch(program.nodes.size());
  for (size_t step = 0; step < of_scratch.size(); ++step) {
    of_scratch[step] = {static_cast<int>(step), static_cast<int>(step)};
  }
  // All steps of a group run again and again: what one of them touches must last for all.
  if (tiled) {
    const std::vector<int> group_of = GroupOfSteps(groups_, program.nodes.size());
    for (std::vector<Lifetime>* const all : {&lifetimes, &of_scratch}) {
      for (Lifetime& lifetime : *all) {
        if (lifetime.first < 0) continue;
        if (const int group = group_of[static_cast<size_t>(lifetime.first)]; group >= 0)
          lifetime.first = groups_[static_cast<size_t>(group)].first;
        if (const int group = group_of[static_cast<size_t>(lifetime.last)]; group >= 0)
          lifetime.last = groups_[static_cast<size_t>(group)].last;
      }
    }
    for (const TiledNodes& group : groups_) {
      for (const ValueId stored : group.stored) rows[static_cast<size_t>(stored)] = block;
      TileBookings bookings;
      bookings.row_ptr = arrangement->ledger.Book(LaunchTiles::RowPtrBytes(block), group.first, group.last);
      bookings.nodes = arrangement->ledger.Book(LaunchTiles::NodesBytes(block), group.first, group.last);
      tile_bookings_.push_back(bookings);
    }
  }
  arrangement->values.assign(program.values.size(), -1);
  for (size_t v = 1; v < program.values.size(); ++v) {
    if (lifetimes[v].first < 0) continue;
    arrangement->values[v] = arrangement->ledger.Book(BytesOfValue(v, rows[v]), lifetimes[v].first, lifetimes[v].last);
  }
  arrangement->scratch.assign(program.nodes.size(), -1);
  for (size_t step = 0; step < program.nodes.size(); ++step) {
    if (scratch_bytes_[step] == 0) continue;
    arrangement->scratch[step] =
        arrangement->ledger.Book(scratch_bytes_[step], of_scratch[step].first, of_scratch[step].last);
  }
  arrangement->ledger.Assign();
}

Status PlanLayout::ChooseKernels() {
  const std::vector<Node>& nodes = context_.program.nodes;
  scratch_bytes_.assign(nodes.size(), 0);
  work_.assign(nodes.size(), std::nullopt);
  for (size_t step = 0; step < nodes.size(); ++step) {
    VICINAL_RETURN_IF_ERROR(context_.CheckStop());
    launches_.push_back(std::make_unique<Launch>());
    VICINAL_RETURN_IF_ERROR(StepBinder(this, static_cast<int>(step)).Bind());
  }
  FindTiles();
  Arrange(/*tiled=*/false, &whole_);
  if (groups_.empty()) {
    tiled_ = whole_;
  } else {
    Arrange(/*tiled=*/true, &tiled_);
  }
  step_bytes_ = StepBytes(launches_, context_.program.decisions);
  return OkStatus();
}

Status PlanLayout::TakeArena(bool tiled) {
  takes_tiles_ = tiled;
  VICINAL_ASSIGN_OR_RETURN(arena_, allocator_.Arena((tiled ? tiled_ : whole_).ledger.total_bytes()));
  return OkStatus();
}

LaunchTiles PlanLayout::TilesOf(size_t group) const {
  const TiledNodes& nodes = groups_[group];
  LaunchTiles tiles;
  tiles.first = nodes.first;
  tiles.last = nodes.last;
  tiles.rows = TileRows(context_.request.graph->num_nodes());
  for (const ValueId stored : nodes.stored) {
    const auto value = static_cast<size_t>(stored);
    const char* const begin = arena_ + tiled_.ledger.offset(tiled_.values[value]);
    tiles.stored.push_back({begin, begin + BytesOfValue(value, tiles.rows)});
  }
  const TileBookings& bookings = tile_bookings_[group];
  tiles.row_ptr = reinterpret_cast<int64_t*>(arena_ + tiled_.ledger.offset(bookings.row_ptr));
  tiles.nodes = reinterpret_cast<int32_t*>(arena_ + tiled_.ledger.offset(bookings.nodes));
  return tiles;
}

void PlanLayout::Finish(BuiltPlan* plan) {
  for (const ViewSlot& slot : views_) SetView(slot);
  const Arrangement& taken = takes_tiles_ ? tiled_ : whole_;
  TuningTable& tuning = context_.request.graph->tuning();
  for (size_t step = 0; step < launches_.size(); ++step) {
    if (taken.scratch[step] >= 0) launches_[step]->scratch = arena_ + taken.ledger.offset(taken.scratch[step]);
    if (work_[step].has_value()) launches_[step]->uses = tuning.Note(*work_[step]);
  }
  plan->result = ViewOf(context_.program.output);
  plan->launches = std::move(launches_);
  plan->features = std::move(features_);
  plan->edges = std::move(edges_);
  for (size_t group = 0; takes_tiles_ && group < groups_.size(); ++group) plan->tiles.push_back(TilesOf(group));
  plan->whole_arena_bytes = whole_bytes();
  plan->tiled_arena_bytes = std::min(whole_bytes(), tiled_bytes());
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
  const Arrangement& taken = takes_tiles_ ? tiled_ : whole_;
  float* data = reinterpret_cast<float*>(arena_ + taken.ledger.offset(taken.values[place.root]));
  const int64_t width = context_.program.values[value].width;
  const int64_t stride = RowStrideFor(context_.program.values[place.root].width);
  return {data + place.offset, context_.RowsOf(value), width, stride};
}

MatrixView16 PlanLayout::View16Of(ValueId value) const {
  const Arrangement& taken = takes_tiles_ ? tiled_ : whole_;
  auto* data = reinterpret_cast<uint16_t*>(arena_ + taken.ledger.offset(taken.values[value]));
  const int64_t width = context_.program.values[value].width;
  return {data, context_.RowsOf(value), width, RowStrideFor(width)};
}

}  // namespace vicinal::internal
