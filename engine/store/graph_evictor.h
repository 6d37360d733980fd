// SPDX-License-Identifier: Apache-2.0
// With a state directory, the memory budget is a cache of graphs: the least recently used ones leave it, and come back
// from disk when a request asks for them.
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
    // How the version of that name in memory is described, if all of it is on disk; nothing otherwise.
    std::function<std::optional<StoredGraph>(const std::string& name)> stored;
    // Whether it will be on disk, as far as is known. Asked of versions that `stored` says nothing of.
    std::function<bool(const std::string& name)> will_be_stored;
    // Drops what is kept for a version and holds it: plans.
    std::function<void(const std::string& name, int64_t version)> release;
  };
  explicit GraphEvictor(Parts parts) : parts_(std::move(parts)) {}

  // An evictor of MemoryBudget: frees graphs, least recently used first, until about `bytes` are free. Pinned graphs,
  // those that a request uses, and those that are not on disk stay. Returns whether it freed anything.
  bool Evict(int64_t bytes);
  // The bytes of graphs that stay only until requests have ended or they are on disk.
  int64_t PendingBytes() const;

 private:
  const Parts parts_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_STORE_GRAPH_EVICTOR_H_
