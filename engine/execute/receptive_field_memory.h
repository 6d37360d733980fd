// SPDX-License-Identifier: Apache-2.0
// The room that receptive fields are found and run in. It stays from one request to the next, so that a warm server
// allocates nothing for them, and grows with the largest graph asked and the largest field found. It goes when no graph
// is left that needs so much of it, and whenever memory is wanted and no request is in it.
#ifndef VICINAL_ENGINE_EXECUTE_RECEPTIVE_FIELD_MEMORY_H_
#define VICINAL_ENGINE_EXECUTE_RECEPTIVE_FIELD_MEMORY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "engine/base/mutex.h"
#include "engine/plan/receptive_field/receptive_field.h"

namespace vicinal {

// Thread-safe, but one request at a time uses it. What a request uses is never taken from it.
class ReceptiveFieldMemory {
 public:
  // `device` runs the plans; `account` counts the room, on any thread. `largest_graph` tells how many nodes the largest
  // graph that serves has; it is asked on any thread that changes graphs or has used the room, without locks held. All
  // must outlive it.
  ReceptiveFieldMemory(Device* device, MemoryAccount* account, std::function<int64_t()> largest_graph)
      : device_(device), account_(account), largest_graph_(std::move(largest_graph)) {}

  // One request's use of the room.
  class Use {
   public:
    explicit Use(ReceptiveFieldMemory* room) : room_(*room), workspace_(room_.Take()) {}
    ~Use() { room_.Return(); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ReceptiveFieldWorkspace* workspace() const { return workspace_; }

   private:
    ReceptiveFieldMemory& room_;
    ReceptiveFieldWorkspace* const workspace_;
  };

  // Memory is wanted: frees the room, unless a request uses it.
  void GiveWay();
  // Graphs were deleted or replaced: frees the room if it was made for a larger graph than any that is left; if a
  // request uses it, when that has done so.
  void Fit();

 private:
  ReceptiveFieldWorkspace* Take();
  void Return();

  Device* const device_;
  MemoryAccount* const account_;
  const std::function<int64_t()> largest_graph_;
  Mutex mutex_;
  // Its content is the user's alone while `used_`.
  std::unique_ptr<ReceptiveFieldWorkspace> workspace_ VICINAL_GUARDED_BY(mutex_);
  bool used_ VICINAL_GUARDED_BY(mutex_) = false;
  bool fit_wanted_ VICINAL_GUARDED_BY(mutex_) = false;  // while it was used
  int64_t made_for_ VICINAL_GUARDED_BY(mutex_) = 0;     // nodes of the largest graph it was used for
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_RECEPTIVE_FIELD_MEMORY_H_
