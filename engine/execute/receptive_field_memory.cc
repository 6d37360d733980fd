// SPDX-License-Identifier: Apache-2.0
// A workspace is moved out of the object under the lock and freed after it, so that no thread waits for freeing.
#include "engine/execute/receptive_field_memory.h"

#include "engine/base/check.h"

namespace vicinal {

ReceptiveFieldWorkspace* ReceptiveFieldMemory::Take() {
  MutexLock lock(&mutex_);
  VICINAL_DCHECK(!used_);
  if (workspace_ == nullptr) workspace_ = std::make_unique<ReceptiveFieldWorkspace>(device_, purpose_);
  used_ = true;
  return workspace_.get();
}

void ReceptiveFieldMemory::Return() {
  bool fit = false;
  {
    MutexLock lock(&mutex_);
    used_ = false;
    // A request may have waited while its graph was deleted, and made the workspace as large as that graph again.
    const int64_t largest = workspace_->finder.largest_graph();
    fit = fit_wanted_ || largest > made_for_;
    fit_wanted_ = false;
    made_for_ = largest;
  }
  if (fit) Fit();
}

bool ReceptiveFieldMemory::Evict() {
  std::unique_ptr<ReceptiveFieldWorkspace> unwanted;
  MutexLock lock(&mutex_);
  if (used_ || workspace_ == nullptr) return false;
  made_for_ = 0;
  unwanted = std::move(workspace_);
  return true;
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
