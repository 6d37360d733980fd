// SPDX-License-Identifier: Apache-2.0
// Keeps layouts of adjacencies (kernels/adjacency_layout.h) beside their graph version, so that a start does not make
// them again (docs/state.md, "Layouts"; docs/adr/0049-layouts-on-disk.md). They are derived data: a layout that is
// damaged, of another build or too large for the memory is made again when a plan needs it, and never keeps a graph
// from being loaded.
//
// A layout is stored if reading it takes less time than making it did. Both are measured: its file is written, synced,
// dropped from memory and read again; one that does not pay is deleted at once.
#ifndef VICINAL_ENGINE_DURABLE_LAYOUT_KEEPER_H_
#define VICINAL_ENGINE_DURABLE_LAYOUT_KEEPER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/log.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/base/thread_pool.h"
#include "engine/device/device.h"
#include "engine/durable/graph_codec.h"
#include "engine/durable/layout_document.h"
#include "engine/kernels/layout_codec.h"
#include "engine/kernels/registry.h"
#include "engine/memory/memory_budget.h"
#include "engine/prepared/prepared_graph.h"
#include "engine/state/state_directory.h"

namespace vicinal::durable {

// Thread-safe.
class LayoutKeeper {
 public:
  // Opening a file and its list takes about this long: layouts that are made faster are not tried.
  static constexpr double kMinMakeSeconds = 0.002;

  // All must outlive the object.
  struct Parts {
    state::StateDirectory* directory = nullptr;
    const KernelRegistry* registry = nullptr;
    Device* device = nullptr;
    std::string device_kind;  // of processor or GPU: layouts of others are left as they are, and not used
    MemoryBudget* budget = nullptr;
    Logger* logger = nullptr;
    bool read_only = false;  // of a directory that another server writes: nothing is written
    double min_make_seconds = kMinMakeSeconds;
    // Whether one that was measured is worth storing. Tests replace it.
    std::function<bool(const StoredLayout& layout)> pays = [](const StoredLayout& layout) {
      return layout.read_seconds < layout.make_seconds;
    };
  };
  explicit LayoutKeeper(Parts parts) : parts_(std::move(parts)) {}

  // Which layouts are stored for this kind of device; none, with a line in the log, if the list cannot be used.
  std::vector<StoredLayout> Listed(const PreparedGraph& graph) const;
  // Before a graph from disk serves: brings what is listed back, with the adjacencies that these layouts are of, as far
  // as the memory budget has room. `evict`: others may be evicted for them. Never fails: what cannot be used is logged,
  // and if it never can be, taken from the list.
  void Restore(const PreparedGraph& graph, std::vector<StoredLayout> listed, bool evict, ThreadPool* pool);

  // Stores those layouts of `graph`, whose version is published, that are not stored yet and pay; takes those from the
  // list that the graph has dropped. Durable when OK. One thread at a time. CANCELLED; errors of files and the device.
  Status Keep(const PreparedGraph& graph, const IsUnwanted& is_unwanted);

  // The version was removed.
  void Forget(const std::string& graph, int64_t version);

 private:
  using Version = std::pair<std::string, int64_t>;
  struct Known {
    struct Entry {
      StoredLayout stored;
      bool held = false;  // the graph had it in this process
    };
    std::vector<Entry> entries;                       // as the document on disk
    std::vector<PreparedGraph::LayoutKey> not_worth;  // reading took longer than making
  };

  const LayoutCodec* CodecOf(const std::string& kernel) const;
  // Bytes that restoring takes, on the host and on the device.
  int64_t BytesFor(const PreparedGraph& graph, const StoredLayout& layout) const;
  Status RestoreOne(const PreparedGraph& graph, const StoredLayout& layout, bool evict, ThreadPool* pool) const;
  // Writes, syncs and reads the layout's file. A layout that does not pay: its file is deleted, `pays` false.
  StatusOr<StoredLayout> Store(const PreparedGraph& graph, const PreparedGraph::KeptLayout& kept,
                               const LayoutCodec& codec, const std::vector<Known::Entry>& entries,
                               const IsUnwanted& is_unwanted, bool* pays) const;
  StatusOr<double> SecondsToRead(const state::VersionId& id, const state::ManifestFile& file) const;
  Status WriteList(const PreparedGraph& graph, const std::vector<Known::Entry>& entries) const;
  void LogDropped(const PreparedGraph& graph, const std::string& what, const Status& error) const;

  const Parts parts_;
  Mutex mutex_;  // not held while files are written or read
  std::map<Version, Known> known_ VICINAL_GUARDED_BY(mutex_);
};

}  // namespace vicinal::durable

#endif  // VICINAL_ENGINE_DURABLE_LAYOUT_KEEPER_H_
