// SPDX-License-Identifier: Apache-2.0
// What is freed is moved out first: nobody waits for it at the lock.
#include "engine/execute/receptive_field_memory.h"

#include "engine/base/check.h"

namespace vicinal {

ReceptiveFieldWorkspace* ReceptiveFieldMemory::Take() {
  MutexLock lock(&mutex_);
  VICINAL_DCHECK(!used_);
  if (workspace_ == nullptr) workspace_ = std::make_unique<ReceptiveFieldWorkspace>(device_, account_);
  used_ = true;
  return workspace_.get();
}

void ReceptiveFieldMemory::Return() {
  bool fit = false;
  {
    MutexLock lock(&mutex_);
    used_ = false;
    // A request may have waited while its graph was deleted, and brought the room back to that graph's size.
    const int64_t largest = workspace_->finder.largest_graph();
    fit = fit_wanted_ || largest > made_for_;
    fit_wanted_ = false;
    made_for_ = largest;
  }
  if (fit) Fit();
}

void ReceptiveFieldMemory::GiveWay() {
  std::unique_ptr<ReceptiveFieldWorkspace> unwanted;
  MutexLock lock(&mutex_);
  if (used_) return;
  made_for_ = 0;
  unwanted = std::move(workspace_);
}

void ReceptiveFieldMemory::Fit() {
  const int64_t largest = largest_graph_();
  std::unique_ptr<ReceptiveFieldWorkspace> unwanted;
  MutexLock lock(&mutex_);
  if (used_) {
    fit_wanted_ = true;
  } else if (made_for_ > largest) {
    made_for_ = 0;
    unwanted = std::move(workspace_);
  }
}

}  // namespace vicinal
