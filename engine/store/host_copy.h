// SPDX-License-Identifier: Apache-2.0
// A graph that has left the device: its topology, which the host has anyway, and the numbers of its feature sets.
#ifndef VICINAL_ENGINE_STORE_HOST_COPY_H_
#define VICINAL_ENGINE_STORE_HOST_COPY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/graph/validate.h"
#include "engine/prepared/prepared_graph.h"
#include "engine/store/feature_set.h"

namespace vicinal {

// Thread-safe. Copies between host and device run outside its lock: who brings a graph back while it still leaves takes
// what has not left yet. It keeps the reservations of what it holds.
class HostCopy {
 public:
  // Of a graph that nobody else uses, nor its feature sets; all still on the device.
  HostCopy(std::shared_ptr<const PreparedGraph> graph, const std::vector<FeatureSetHandle>& sets);

  const std::shared_ptr<const PreparedGraph>& graph() const { return graph_; }

  // Copies feature sets to the host, and frees what the graph and they have on `device`. Returns the bytes freed. After
  // an error (of the copy, or no memory on the host) what has not been copied stays on the device.
  StatusOr<int64_t> LeaveDevice(Device& device);
  // The feature sets, on `device`, as they were. The graph may be used again then. Errors of the device.
  StatusOr<std::vector<FeatureSet>> ReturnTo(Device& device);

  // The set was deleted.
  void Forget(const FeatureSetKey& key);

  // What it holds: on the host, and of feature sets that have not left the device yet, there.
  int64_t feature_bytes() const;

 private:
  struct Set {
    FeatureSet set;  // without features, once what follows is there
    // One of them, by the set's kind; null: still on the device.
    std::shared_ptr<const HostFeatures> numbers = nullptr;
    EdgeMatrix::HostValues edge_values = nullptr;
    int64_t edge_cols = 0;  // of edge_values

    bool has_left() const { return numbers != nullptr || edge_values != nullptr; }
  };
  // What the graph has derived on the device goes, once. Returns its bytes.
  int64_t GraphLeaves();
  std::vector<Set> Sets() const;
  // `left` takes the place of its version, unless that was deleted meanwhile.
  void Keep(Set left);

  const std::shared_ptr<const PreparedGraph> graph_;
  Mutex leave_mutex_;  // held while the graph leaves
  bool graph_left_ VICINAL_GUARDED_BY(leave_mutex_) = false;
  mutable Mutex mutex_;
  std::vector<Set> sets_ VICINAL_GUARDED_BY(mutex_);
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_STORE_HOST_COPY_H_
