// SPDX-License-Identifier: Apache-2.0
// One pass over a program: a launch for each node, and a place in one arena for each value and each kernel's scratch.
// With a CountingAllocator it counts the plan's bytes; with a DeviceAllocator it builds the plan. The arena has two
// forms, of which one is taken: with every value whole, and with tiles of rows (row_tiles.h).
#ifndef VICINAL_ENGINE_PLAN_BUILD_PLAN_LAYOUT_H_
#define VICINAL_ENGINE_PLAN_BUILD_PLAN_LAYOUT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "engine/plan/build/build_context.h"
#include "engine/plan/build/built_plan.h"
#include "engine/plan/build/plan_allocator.h"
#include "engine/plan/build/row_tiles.h"
#include "engine/plan/build/scratch_ledger.h"
#include "engine/plan/run/launch.h"

namespace vicinal::internal {

class PlanLayout {
 public:
  // Both must outlive it.
  PlanLayout(BuildContext* context, PlanAllocator* allocator) : context_(*context), allocator_(*allocator) {}

  // Chooses all kernels and allocates everything but the arena. Weights are not read afterwards. Returns the first
  // error of a kernel, the allocator or the stop check.
  Status ChooseKernels();
  // Bytes of the arena in each form; equal where tiles save nothing. REQUIRES: ChooseKernels succeeded.
  int64_t whole_bytes() const { return static_cast<int64_t>(whole_.ledger.total_bytes()); }
  int64_t tiled_bytes() const { return static_cast<int64_t>(tiled_.ledger.total_bytes()); }
  // Allocates the arena. REQUIRES: ChooseKernels succeeded; `tiled` only if tiled_bytes() < whole_bytes().
  Status TakeArena(bool tiled);
  // Host memory of the launches. REQUIRES: as TakeArena.
  int64_t step_bytes() const { return step_bytes_; }

  // Moves launches, slots and results into `plan`, and sets all views. REQUIRES: TakeArena succeeded with allocated
  // memory.
  void Finish(BuiltPlan* plan);

 private:
  friend class StepBinder;

  // A view in a launch's arguments: columns [first, first + count) of a value.
  struct ViewSlot {
    ValueId value = 0;
    int64_t first = 0;
    int64_t count = 0;
    std::variant<ConstMatrixView*, MatrixView*, ConstMatrixView16*, MatrixView16*> view;
  };
  // Where everything stands in one form of the arena. Bookings in the ledger; -1: none.
  struct Arrangement {
    ScratchLedger ledger;
    std::vector<int> values;   // of roots
    std::vector<int> scratch;  // of nodes
  };
  // Of a group of tiles, bookings in tiled_.
  struct TileBookings {
    int row_ptr = -1;
    int nodes = -1;
  };

  void BookScratch(int step, size_t bytes) { scratch_bytes_[static_cast<size_t>(step)] = bytes; }
  void FindTiles();
  void Arrange(bool tiled, Arrangement* arrangement);
  // Bytes of `rows` rows of the root `value`.
  size_t BytesOfValue(size_t value, int64_t rows) const;
  LaunchTiles TilesOf(size_t group) const;
  void NoteReductionOrder(int step, int64_t reduction_order);
  StatusOr<const int64_t*> Segments();
  // Packed weights are shared by all nodes that multiply by the same weights of the model. Key: the kernel and the
  // weights; empty: not shared.
  using PackedKey = std::vector<const void*>;

  void SetView(const ViewSlot& slot) const;
  MatrixView ViewOf(ValueId value) const;
  MatrixView16 View16Of(ValueId value) const;

  BuildContext& context_;
  PlanAllocator& allocator_;
  std::vector<std::unique_ptr<Launch>> launches_;
  std::vector<size_t> scratch_bytes_;            // of kernels, per node
  std::vector<TiledNodes> groups_;               // of tiles
  std::vector<TileBookings> tile_bookings_;      // of groups_
  Arrangement whole_, tiled_;                    // the two forms
  bool takes_tiles_ = false;                     // the form that the arena has
  std::vector<std::optional<TuningWork>> work_;  // per node, if its operation is tuned
  std::vector<ViewSlot> views_;
  FeatureSlots features_;
  std::vector<EdgeSlot> edges_;
  std::map<PackedKey, const void*> packed_;
  std::optional<const int64_t*> segments_;
  int64_t reduction_order_ = 0;
  int64_t step_bytes_ = 0;
  char* arena_ = nullptr;
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_BUILD_PLAN_LAYOUT_H_
