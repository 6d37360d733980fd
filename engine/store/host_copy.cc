// SPDX-License-Identifier: Apache-2.0
#include "engine/store/host_copy.h"

#include <algorithm>
#include <utility>

#include "engine/base/out_of_memory.h"

namespace vicinal {

HostCopy::HostCopy(std::shared_ptr<const PreparedGraph> graph, const std::vector<FeatureSetHandle>& sets)
    : graph_(std::move(graph)) {
  MutexLock lock(&mutex_);
  for (const FeatureSetHandle& set : sets) sets_.push_back({*set});
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
    if (set.has_left()) continue;
    Set left = {set.set};
    if (set.set.kind == FeatureKind::kEdges) {  // the host has them anyway
      left.edge_values = set.set.edges->host();
      left.edge_cols = set.set.edges->cols();
    } else {
      StatusOr<HostFeatures> numbers = OrOutOfMemory([&] { return set.set.matrix->ToHost(device); });
      if (!numbers.ok()) return numbers.status();
      left.numbers = std::make_shared<const HostFeatures>(*std::move(numbers));
    }
    freed += set.set.device_bytes();
    left.set.matrix = nullptr;
    left.set.edges = nullptr;
    Keep(std::move(left));
    set.set.matrix = nullptr;  // the last of it
    set.set.edges = nullptr;
  }
  return freed;
}

void HostCopy::Keep(Set left) {
  MutexLock lock(&mutex_);
  for (Set& set : sets_) {
    if (set.set.version != left.set.version) continue;
    std::swap(set, left);
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
    if (set.edge_values != nullptr) {
      VICINAL_ASSIGN_OR_RETURN(set.set.edges,
                               EdgeMatrix::Make(graph_->parts().csr, set.edge_values, set.edge_cols, device));
    }
    there.push_back(std::move(set.set));
  }
  return there;
}

void HostCopy::Forget(const FeatureSetKey& key) {
  std::vector<Set> forgotten;  // freed without the lock
  MutexLock lock(&mutex_);
  const auto rest =
      std::stable_partition(sets_.begin(), sets_.end(), [&](const Set& set) { return KeyOf(set.set) != key; });
  forgotten.assign(std::make_move_iterator(rest), std::make_move_iterator(sets_.end()));
  sets_.erase(rest, sets_.end());
}

int64_t HostCopy::feature_bytes() const {
  int64_t bytes = 0;
  MutexLock lock(&mutex_);
  for (const Set& set : sets_) {
    if (!set.has_left()) {
      bytes += set.set.size_bytes();
    } else {
      bytes += set.numbers != nullptr ? set.numbers->size_bytes()
                                      : static_cast<int64_t>(set.edge_values->size() * sizeof(float));
    }
  }
  return bytes;
}

}  // namespace vicinal
