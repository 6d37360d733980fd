// SPDX-License-Identifier: Apache-2.0
#include "engine/store/host_copy.h"

#include <algorithm>
#include <utility>

#include "engine/base/out_of_memory.h"

namespace vicinal {

HostCopy::HostCopy(std::shared_ptr<const PreparedGraph> graph, const std::vector<FeatureSetHandle>& sets)
    : graph_(std::move(graph)) {
  MutexLock lock(&mutex_);
  for (const FeatureSetHandle& set : sets) sets_.push_back({*set, nullptr});
}

std::vector<HostCopy::Set> HostCopy::Sets() const {
  MutexLock lock(&mutex_);
  return sets_;
}

int64_t HostCopy::GraphLeaves() {
  MutexLock lock(&leave_mutex_);
  if (graph_left_) return 0;
  const int64_t bytes = graph_->device_bytes();
  graph_->LeaveDevice();
  graph_left_ = true;
  return bytes;
}

StatusOr<int64_t> HostCopy::LeaveDevice(Device& device) {
  int64_t freed = GraphLeaves();
  for (Set& set : Sets()) {
    if (set.numbers != nullptr) continue;
    StatusOr<HostFeatures> numbers = OrOutOfMemory([&] { return set.set.matrix->ToHost(device); });
    if (!numbers.ok()) return numbers.status();
    freed += set.set.matrix->device_bytes();
    Keep(set.set.version, std::make_shared<const HostFeatures>(*std::move(numbers)));
    set.set.matrix = nullptr;  // the last of it
  }
  return freed;
}

void HostCopy::Keep(int64_t version, std::shared_ptr<const HostFeatures> numbers) {
  MutexLock lock(&mutex_);
  for (Set& set : sets_) {
    if (set.set.version != version) continue;
    set.numbers = std::move(numbers);
    set.set.matrix = nullptr;
    return;
  }
}

StatusOr<std::vector<FeatureSet>> HostCopy::ReturnTo(Device& device) {
  GraphLeaves();  // never while somebody uses it again
  std::vector<FeatureSet> there;
  for (Set& set : Sets()) {
    if (set.numbers != nullptr) {
      VICINAL_ASSIGN_OR_RETURN(set.set.matrix, FeatureMatrix::Upload(*set.numbers, device));
    }
    there.push_back(std::move(set.set));
  }
  return there;
}

void HostCopy::Forget(const std::string& name) {
  std::vector<Set> forgotten;  // freed without the lock
  MutexLock lock(&mutex_);
  const auto rest =
      std::stable_partition(sets_.begin(), sets_.end(), [&](const Set& set) { return set.set.name != name; });
  forgotten.assign(std::make_move_iterator(rest), std::make_move_iterator(sets_.end()));
  sets_.erase(rest, sets_.end());
}

int64_t HostCopy::feature_bytes() const {
  int64_t bytes = 0;
  MutexLock lock(&mutex_);
  for (const Set& set : sets_)
    bytes += set.numbers != nullptr ? set.numbers->size_bytes() : set.set.matrix->size_bytes();
  return bytes;
}

}  // namespace vicinal
