// SPDX-License-Identifier: Apache-2.0
// Memory is a cache of graphs: the least recently used ones leave a device that is short of it, and stay on the host;
// with a state directory they leave the memory budget altogether, and come back from disk. Either way a request that
// asks for one brings it back.
#ifndef VICINAL_ENGINE_STORE_GRAPH_EVICTOR_H_
#define VICINAL_ENGINE_STORE_GRAPH_EVICTOR_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "engine/base/log.h"
#include "engine/base/stats.h"
#include "engine/store/graph_store.h"

namespace vicinal {

// Thread-safe.
class GraphEvictor {
 public:
  // All must outlive the object.
  struct Parts {
    GraphStore* graphs = nullptr;
    Logger* logger = nullptr;
    StatsSink* stats = nullptr;
    // How the version of that name in memory is described, if it may leave: with a state directory, once all of it is
    // on disk. Nothing otherwise.
    std::function<std::optional<StoredGraph>(const std::string& name)> stored;
    // Whether it will be on disk, as far as is known. Asked of versions that `stored` says nothing of.
    std::function<bool(const std::string& name)> will_be_stored;
    // Drops what is kept for a version and holds it: plans.
    std::function<void(const std::string& name, int64_t version)> release;
    Device* device = nullptr;  // used by EvictFromDevice
  };
  explicit GraphEvictor(Parts parts) : parts_(std::move(parts)) {}

  // An evictor of MemoryBudget: frees graphs, least recently used first, until about `bytes` are free. Pinned graphs,
  // those that a request uses, and those that are not on disk stay. Returns whether it freed anything.
  // REQUIRES: what `stored` describes is on disk.
  bool Evict(int64_t bytes);
  // An evictor of the device's memory: graphs leave it, the least recently used first, until about `bytes` are free;
  // their feature sets are copied to the host. The same stay. Returns the bytes freed.
  int64_t EvictFromDevice(int64_t bytes);
  // What EvictFromDevice could free at most.
  int64_t DeviceBytes() const;
  // The bytes of graphs that stay only until requests have ended or they are on disk.
  int64_t PendingBytes() const;

 private:
  // The version leaves memory. Returns its bytes; 0: it stays.
  int64_t EvictOne(const GraphUse& use);
  void Log(const char* what, const GraphUse& use, int64_t bytes) const;

  const Parts parts_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_STORE_GRAPH_EVICTOR_H_
