// SPDX-License-Identifier: Apache-2.0
// The receptive field of some nodes: exactly the nodes that their results depend on. F_0 are the requested nodes,
// F_(k+1) is F_k and the in-neighbours of F_k in the adjacencies that the steps at depth k read. (The mini-batch
// forward pass of GraphSAGE, Hamilton et al. 2017, algorithm 2, without its sampling.) The search always runs on the
// host (docs/adr/0010-receptive-fields-on-a-gpu.md).
//
// Rows are numbered in the order in which they are found, so every F_k is a prefix of F_(k+1). A matrix at depth k is
// [n_k, width], and a step's own rows (targets, residuals) are the first of its sources. A plan therefore runs over a
// field with its own launches, with shorter views and other adjacencies. Edges keep their order, and so every row keeps
// its bits.
#ifndef VICINAL_ENGINE_PLAN_RECEPTIVE_FIELD_RECEPTIVE_FIELD_H_
#define VICINAL_ENGINE_PLAN_RECEPTIVE_FIELD_RECEPTIVE_FIELD_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/device/grow_only.h"
#include "engine/device/views.h"
#include "engine/reorder/order.h"

namespace vicinal {

// The edges of an adjacency in host memory: the adjacency itself, or the uploaded graph that it was derived from.
struct HostEdges {
  // NOLINTNEXTLINE(google-explicit-constructor): most adjacencies are what they hold
  HostEdges(const CsrView& csr, bool one_loop_each = false) : csr(csr), one_loop_each(one_loop_each) {}

  int64_t Degree(NodeId node) const;

  CsrView csr;  // with values only if they are those of the adjacency
  // Every row has exactly one self-loop, in place of any that `csr` has (LoopsOf).
  bool one_loop_each;
};

// The cost of computing a plan for some nodes. The depth of a step is the number of neighbourhood steps between its
// rows and the output's, on the longest path. Costs are estimates in nanoseconds: of one core if the host runs the
// plan, otherwise of elapsed time.
struct ReceptiveFieldShape {
  struct Edges {
    int adjacency = 0;          // index into `adjacencies`
    double cost = 0.0;          // of one edge, in all steps of the depth
    double longest_cost = 0.0;  // the same, of one edge of the longest row: for steps that end with it
  };
  struct Level {
    double row_cost = 0.0;     // of one row, in all steps of the depth
    std::vector<Edges> edges;  // that its steps read; none at the deepest level
  };

  std::string refusal;  // why this plan supports no receptive fields, as the end of a sentence; empty: it does
  int64_t num_nodes = 0;
  std::vector<HostEdges> adjacencies;  // each once
  std::vector<Level> levels;           // by depth; one at least
  double run_cost = 0.0;               // of any run over a field, besides rows and edges
  double node_cost = 0.0;              // of gathering one node's features
  double edge_cost = 0.0;              // of sending one edge, once per adjacency
  double full_cost = 0.0;              // of the full graph
};

// Finds receptive fields, one after the other. It keeps its memory: one number per node of the largest graph, and the
// memory of the largest field. The work is proportional to the field, not to the graph. One thread at a time.
class ReceptiveFieldFinder {
 public:
  static constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  // Estimated nanoseconds of the search: to follow an edge (a random access to its source's number), to add a node.
  // Like all costs here they choose between full graph and field, and change no bit.
  static constexpr double kEdgeNs = 3.0;
  static constexpr double kNodeNs = 12.0;

  ReceptiveFieldFinder(Device* device, const MemoryPurpose& purpose);

  // Finds the field of `ids` (the client's ids, in range, in any order, repeats allowed). Returns false if it costs
  // more than `limit`, as soon as that is certain. `num_threads` share the steps' work, but one thread searches. After
  // false or an error there is no field. REQUIRES: shape.refusal is empty; shape's adjacencies live until the last use
  // of the field.
  StatusOr<bool> Find(const ReceptiveFieldShape& shape, const std::vector<int64_t>& ids, const Permutation& permutation,
                      double limit, int num_threads);

  // --- of the field found last ---

  int64_t rows(int depth) const { return rows_[depth]; }  // n_k
  int64_t num_nodes() const { return num_nodes_; }        // of the deepest level
  // The nodes in their local order, as rows of the full graph (execution order) [num_nodes].
  const NodeId* nodes() const { return nodes_.data(); }
  bool Contains(NodeId node) const { return IsIn(node, local_of_.data()[node]); }
  // The local number of `node`, a row of the full graph. REQUIRES: it is in the field.
  int64_t RowOf(NodeId node) const { return local_of_.data()[node]; }
  // Rows F_depth of adjacency `index`, [n_k, n_(k+1)]. REQUIRES: steps at that depth read it.
  CsrView Adjacency(int index, int depth) const;
  // The same adjacency's rows for the deepest steps that read it. Its values are null where HostEdges has none.
  CsrView Adjacency(int index) const;

  // Its cost in the units of ReceptiveFieldShape, which are those of `full_cost`.
  double cost() const { return cost_; }

  // Nodes of the largest graph so far, which determine the size of the kept memory.
  int64_t largest_graph() const { return largest_graph_; }

 private:
  struct LocalCsr {
    LocalCsr(Device* device, const MemoryPurpose& purpose)
        : row_ptr(device, purpose), col(device, purpose), value(device, purpose) {}
    GrowOnly<int64_t> row_ptr;
    GrowOnly<int32_t> col;
    GrowOnly<float> value;
    int64_t rows = 0;
    int64_t longest = 0;  // edges of the longest row
    bool weighted = false;
  };

  Status Begin(const ReceptiveFieldShape& shape, int num_threads);
  Status TakeAsked(const std::vector<int64_t>& ids, const Permutation& permutation);
  // Adds the rows that `local` lacks up to F_depth.
  Status Expand(const HostEdges& full, const ReceptiveFieldShape::Edges& edges, int depth, LocalCsr* local);
  // Local numbers of the sources of `node`, one per edge, to `col`.
  void Follow(const HostEdges& full, NodeId node, int32_t* col);
  int32_t Discover(NodeId node);
  // Whether `local` is the number of `node`.
  bool IsIn(NodeId node, int32_t local) const { return local < num_nodes_ && nodes_.data()[local] == node; }
  // Prefetches the local numbers of the sources of `node`.
  void PrefetchNumbers(const CsrView& csr, NodeId node) const;
  // Lower bound of the cost of the whole field, once the rows and edges down to `depth` are counted.
  double MinCost(int depth) const { return spent_ + static_cast<double>(num_nodes_) * cost_from_[depth + 1]; }

  Device* device_;
  MemoryPurpose purpose_;
  // A node is in the field if its number here is below num_nodes_ and nodes_ names it there (Briggs and Torczon 1993):
  // nothing needs to be cleared from one request to the next.
  GrowOnly<int32_t> local_of_;
  GrowOnly<NodeId> nodes_;
  int64_t num_nodes_ = 0;
  int64_t largest_graph_ = 0;
  std::vector<int64_t> rows_;
  std::vector<LocalCsr> locals_;
  std::vector<double> cost_from_;  // cost of one row in all levels from this one on
  double spent_ = 0.0;
  double cost_ = 0.0;
  double limit_ = 0.0;
  double scan_cost_ = 0.0;  // of finding one edge
};

// Memory that runs over receptive fields reuse, for any plan; every run overwrites all of it. One thread at a time.
struct ReceptiveFieldWorkspace {
  // For plans on `device`.
  ReceptiveFieldWorkspace(Device* device, const MemoryPurpose& purpose)
      : device(device),
        purpose(purpose),
        own_host(device->kind() == DeviceKind::kCpu ? nullptr : MakeCpuDevice(1)),
        host(own_host != nullptr ? own_host.get() : device),
        finder(host, purpose),
        dense(host, purpose),
        row_ptr(host, purpose),
        col(host, purpose),
        value(host, purpose),
        nodes(host, purpose),
        on_device(device, purpose) {}

  Device* device;
  MemoryPurpose purpose;
  std::unique_ptr<Device> own_host;  // if `device` has memory of its own
  Device* host;
  ReceptiveFieldFinder finder;
  GrowOnly<float> dense;      // the nodes' features [n, F], or in compressed rows:
  GrowOnly<int64_t> row_ptr;  // [n + 1]
  GrowOnly<int32_t> col;
  GrowOnly<float> value;
  std::vector<std::pair<int64_t, int64_t>> replaced;  // ReplacedRows in the field: local number, row; sorted
  std::vector<GrowOnly<float>> vectors;               // per-node numbers that steps read
  // For a device with memory of its own, which gathers features and per-node numbers itself:
  GrowOnly<int64_t> nodes;        // ReceptiveFieldFinder::nodes, in 64 bits
  std::vector<HostPiece> pieces;  // that are sent
  GrowOnly<char> on_device;       // these, and the gathered data
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PLAN_RECEPTIVE_FIELD_RECEPTIVE_FIELD_H_
