// SPDX-License-Identifier: Apache-2.0
// Workspace in which receptive fields are found and run. It stays from one request to the next, so that a warm server
// allocates nothing for them, and grows with the largest graph and the largest field. It is freed when no graph is left
// that needs so much of it, and, while no request uses it, when memory is needed.
#ifndef VICINAL_ENGINE_EXECUTE_RECEPTIVE_FIELD_MEMORY_H_
#define VICINAL_ENGINE_EXECUTE_RECEPTIVE_FIELD_MEMORY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "engine/base/mutex.h"
#include "engine/plan/receptive_field/receptive_field.h"

namespace vicinal {

// Thread-safe, but one request at a time uses it. A workspace in use is never freed.
class ReceptiveFieldMemory {
 public:
  // `device` runs the plans. The workspace is reserved from `budget`, for Account::kReceptiveFields. `largest_graph`
  // returns the nodes of the largest graph that serves; it is called on any thread that changes graphs or has used the
  // workspace, without locks held. All must outlive it.
  ReceptiveFieldMemory(Device* device, MemoryBudget* budget, std::function<int64_t()> largest_graph)
      : device_(device),
        purpose_{budget, Account::kReceptiveFields, "the receptive field of the nodes"},
        largest_graph_(std::move(largest_graph)) {}

  // One request's use of the workspace.
  class Use {
   public:
    explicit Use(ReceptiveFieldMemory* memory) : memory_(*memory), workspace_(memory_.Take()) {}
    ~Use() { memory_.Return(); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ReceptiveFieldWorkspace* workspace() const { return workspace_; }

   private:
    ReceptiveFieldMemory& memory_;
    ReceptiveFieldWorkspace* const workspace_;
  };

  // Memory is needed: frees the workspace, unless a request uses it. Returns whether there was one to free.
  bool Evict();
  // Graphs were deleted or replaced: frees the workspace if it was made for a larger graph than any that is left; while
  // a request uses it, after that request.
  void Fit();

 private:
  ReceptiveFieldWorkspace* Take();
  void Return();

  Device* const device_;
  const MemoryPurpose purpose_;
  const std::function<int64_t()> largest_graph_;
  Mutex mutex_;
  // While `used_`, only the user accesses its content.
  std::unique_ptr<ReceptiveFieldWorkspace> workspace_ VICINAL_GUARDED_BY(mutex_);
  bool used_ VICINAL_GUARDED_BY(mutex_) = false;
  bool fit_wanted_ VICINAL_GUARDED_BY(mutex_) = false;  // while it was used
  int64_t made_for_ VICINAL_GUARDED_BY(mutex_) = 0;     // nodes of the largest graph it was used for
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_RECEPTIVE_FIELD_MEMORY_H_
