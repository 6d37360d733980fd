// SPDX-License-Identifier: Apache-2.0
// A graph that is ready for inference: CSR by target in execution order, permutation, profile, and the adjacencies that
// layers derive from it on first use. Logically immutable; shared by handle, so that a replaced version lives until its
// last request ends.
#ifndef VICINAL_ENGINE_PREPARED_PREPARED_GRAPH_H_
#define VICINAL_ENGINE_PREPARED_PREPARED_GRAPH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/api/resources.h"
#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/base/vocabulary.h"
#include "engine/device/device.h"
#include "engine/graph/adjacency.h"
#include "engine/graph/csr.h"
#include "engine/kernels/adjacency_layout.h"
#include "engine/kernels/kernel.h"
#include "engine/memory/memory_budget.h"
#include "engine/prepared/device_arrays.h"
#include "engine/prepared/feature_matrix.h"
#include "engine/profile/graph_profile.h"
#include "engine/reorder/order.h"
#include "engine/tune/table.h"

namespace vicinal {

// The revision of a graph in that node order. Raise kReductionOrderRevision whenever a release adds the terms of a row
// in another order; a node order is an order of a row's terms, too.
constexpr int64_t NumericsRevision(OrderKind order) {
  constexpr int64_t kReductionOrderRevision = 1;
  return 100 * kReductionOrderRevision + static_cast<int64_t>(order);
}

// The revision of a plan on a graph of that revision: the graph's own for plans with standard orders, whose
// Plan::reduction_order is 0; otherwise an id of both, below 2^53 (reduction_order.h).
inline int64_t NumericsRevision(int64_t revision, int64_t reduction_order) {
  return reduction_order == 0 ? revision : MixReductionOrders(revision, 0, reduction_order);
}

// Thread-safe.
class PreparedGraph {
 public:
  struct Parts {
    std::string name;
    int64_t version = 0;
    std::string ids_digest;     // of the client's own ids; opaque
    std::string source_digest;  // of what the upload was made from; opaque
    bool pinned = false;        // stays in memory, whatever else needs that
    int64_t numerics_revision = NumericsRevision(OrderKind::kNone);
    // The one with which it was stored, by a build that added in another order; 0: the same, or it was never stored.
    int64_t former_revision = 0;
    OrderKind requested_order = OrderKind::kAuto;
    OrderKind order = OrderKind::kNone;
    std::string order_reason;        // why this order, for users
    Csr csr;                         // by target, execution order
    int64_t edge_feature_width = 0;  // A; 0: edges have no features
    std::vector<float> edge_attr;    // [E, A], in the order of csr
    // The edge of the upload that each entry of csr is [E], with which edge feature sets are put in its order; empty:
    // it was not kept.
    std::vector<EdgeId> edge_order;
    Permutation permutation;
    GraphProfile profile;
    std::vector<StageTime> stages;
    WallTime create_time{};
    std::vector<int64_t> segments;  // batch of small graphs: node offsets [G + 1]; empty for one graph
    // Communities, or METIS's parts, as blocks of consecutive nodes in execution order: their borders [B + 1]. Empty if
    // the order does not keep any together.
    std::vector<int64_t> blocks;
  };
  // `device` must outlive it.
  PreparedGraph(Parts parts, Device* device);

  const Parts& parts() const { return parts_; }
  int64_t num_nodes() const { return parts_.csr.num_rows; }
  int64_t num_edges() const { return parts_.csr.nnz(); }
  bool weighted() const { return !parts_.csr.value.empty(); }
  int64_t edge_feature_width() const { return parts_.edge_feature_width; }
  // Whether it can have edge feature sets.
  bool has_edge_order() const { return !parts_.edge_order.empty() || num_edges() == 0; }

  // The adjacency of that spec on the device; derived once, then kept until LeaveDevice. Equivalent specs share one.
  // Errors of BuildAdjacency, which name nodes by the client's ids, and of the device.
  StatusOr<std::shared_ptr<const DeviceCsr>> Adjacency(const AdjacencySpec& spec) const;

  // The shape of Adjacency(spec), without deriving it.
  AdjacencyShape ShapeOf(const AdjacencySpec& spec) const;
  // Whether Adjacency, DegreeScale and Layout would return an existing result.
  bool Holds(const AdjacencySpec& spec) const;
  bool Holds(SelfLoops degree_scale) const;
  bool Holds(const AdjacencySpec& spec, std::string_view kernel, std::string_view layout) const;

  // Inverse root degrees [N] (graph/adjacency.h, DegreeScale); computed once, then kept.
  StatusOr<std::shared_ptr<const DeviceVector>> DegreeScale(SelfLoops loops) const;

  // The features of all edges in memory of the device [E, edge_feature_width()], in the order of parts().csr. On a
  // device with memory of its own a copy, sent once, then kept until LeaveDevice; on the CPU the graph's own.
  StatusOr<const float*> EdgeFeatures() const;
  bool HoldsEdgeFeatures() const;  // whether EdgeFeatures would send nothing

  // The mean features of each node's in-edges (graph/edge_features.h) [N, edge_feature_width()]; computed once, then
  // kept.
  StatusOr<std::shared_ptr<const DeviceVector>> MeanEdgeFeatures() const;
  bool HoldsMeanEdgeFeatures() const;

  // The layout of `kernel` for the adjacency of that spec (Kernel::MakeLayout): made by `make`, once per layout name,
  // then kept; of the layouts that no plan uses, only the latest kMaxLayouts are kept. Errors of Adjacency and `make`.
  static constexpr size_t kMaxLayouts = 16;
  StatusOr<AdjacencyLayoutRef> Layout(const AdjacencySpec& spec, std::string_view kernel, std::string_view name,
                                      const LayoutMaker& make) const;
  // What a layout is of: an adjacency, a kernel, and the kernel's name for it.
  struct LayoutKey {
    AdjacencySpec spec;  // canonical
    std::string kernel;
    std::string name;

    friend bool operator==(const LayoutKey&, const LayoutKey&) = default;
  };
  struct KeptLayout {
    LayoutKey key;
    AdjacencyLayoutRef layout;
    double make_seconds = 0.0;  // that `make` took, with the copies between host and device
  };
  // The layouts that are kept now.
  std::vector<KeptLayout> Layouts() const;
  // From now on `made` is called after each layout that is made, on the thread that made it; it must not wait for a
  // layout. Replaces an earlier function.
  void NotifyOfLayouts(std::function<void()> made) const;

  // Frees what was derived, with its part of the reservation, and remembers all of it but layouts. REQUIRES: no plan
  // and no request uses the graph.
  void LeaveDevice() const;
  // Bytes that ReturnToDevice will take.
  int64_t returning_bytes() const;
  // Derives again what the last LeaveDevice has freed. What it takes is not reserved here (SettleReservation). Errors
  // of the device.
  Status ReturnToDevice() const;

  // Current bytes: CSR, permutation, features of edges and their order, and everything derived.
  int64_t size_bytes() const;
  // The part of size_bytes() that a device with memory of its own has there: what was derived.
  int64_t device_bytes() const;

  // Adds `memory` to the reservation that this graph owns. Graphs without a reservation are not counted.
  void AddReservation(Reservation memory) const;
  // Adjusts this reservation to size_bytes(): takes the bytes of new derived data from `source`, which was reserved
  // beforehand and may have more, and releases those of dropped data. No effect on a graph without a reservation.
  void SettleReservation(Reservation* source) const;
  // Transfers this reservation to another account.
  void TransferReservation(Account account) const;

  // Kernel settings that were measured on this graph or forced; not part of the graph's logical value.
  TuningTable& tuning() const { return tuning_; }

 private:
  LayoutKey KeyOf(const AdjacencySpec& spec, std::string_view kernel, std::string_view name) const {
    return {CanonicalSpec(spec, weighted()), std::string(kernel), std::string(name)};
  }
  // What was derived when the graph left the device.
  struct Left {
    std::vector<AdjacencySpec> adjacencies;
    std::vector<SelfLoops> degree_scales;
    bool edge_features = false, mean_edge_features = false;
    int64_t bytes = 0;
  };
  std::shared_ptr<const DeviceCsr> FindAdjacency(const AdjacencySpec& canonical) const;
  AdjacencyLayoutRef FindLayout(const LayoutKey& key) const;
  void KeepLayout(KeptLayout made) const;
  std::shared_ptr<const DeviceVector> FindDegreeScale(SelfLoops canonical) const;
  int64_t own_bytes() const;  // of parts_

  Parts parts_;
  Device* device_;
  mutable TuningTable tuning_;
  mutable Mutex derive_mutex_;  // held while deriving; acquired before mutex_
  mutable Mutex mutex_;
  mutable std::vector<std::pair<AdjacencySpec, std::shared_ptr<const DeviceCsr>>> adjacencies_
      VICINAL_GUARDED_BY(mutex_);
  mutable std::vector<KeptLayout> layouts_ VICINAL_GUARDED_BY(mutex_);
  mutable std::function<void()> layout_made_ VICINAL_GUARDED_BY(mutex_);
  mutable std::vector<std::pair<SelfLoops, std::shared_ptr<const DeviceVector>>> degree_scales_
      VICINAL_GUARDED_BY(mutex_);
  mutable std::shared_ptr<const DeviceVector> edge_features_ VICINAL_GUARDED_BY(mutex_);  // null on the CPU
  mutable std::shared_ptr<const DeviceVector> mean_edge_features_ VICINAL_GUARDED_BY(mutex_);
  mutable Left left_ VICINAL_GUARDED_BY(mutex_);
  mutable Mutex memory_mutex_;  // acquired before mutex_
  mutable Reservation memory_ VICINAL_GUARDED_BY(memory_mutex_);
};

// The layout of `kernel` for `problem` and the adjacency of that spec, kept by Layout; null if it needs none. Errors of
// Layout: FAILED_PRECONDITION if the kernel does not support the adjacency.
template <class K>
StatusOr<AdjacencyLayoutRef> LayoutFor(const PreparedGraph& graph, const AdjacencySpec& spec, const K& kernel,
                                       const typename K::Problem& problem, const KernelConfig& config) {
  const std::string name = kernel.LayoutName(problem, config);
  if (name.empty()) return AdjacencyLayoutRef();
  const LayoutMaker make = [&](LayoutSource& source) { return kernel.MakeLayout(problem, config, source); };
  return graph.Layout(spec, kernel.name(), name, make);
}

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PREPARED_PREPARED_GRAPH_H_
