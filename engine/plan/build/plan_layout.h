// SPDX-License-Identifier: Apache-2.0
// One pass over a program: a launch for each node, and a place in one arena for each value and each kernel's scratch.
// With a CountingAllocator it counts the plan's bytes; with a DeviceAllocator it builds the plan.
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
  // Allocates the arena. REQUIRES: ChooseKernels succeeded.
  Status TakeArena();
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
  struct Booking {
    int booking = -1;    // in the ledger; -1: none
    int64_t stride = 0;  // of a value's rows, in elements
  };

  void BookValues();
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
  ScratchLedger ledger_;
  std::vector<Booking> values_;                  // of roots
  std::vector<int> scratch_;                     // bookings, per node; -1: none
  std::vector<std::optional<TuningWork>> work_;  // per node, if its operation is tuned
  std::vector<ViewSlot> views_;
  FeatureSlots features_;
  std::map<PackedKey, const void*> packed_;
  std::optional<const int64_t*> segments_;
  int64_t reduction_order_ = 0;
  int64_t step_bytes_ = 0;
  char* arena_ = nullptr;
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_BUILD_PLAN_LAYOUT_H_
