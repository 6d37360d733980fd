// SPDX-License-Identifier: Apache-2.0
// The receptive field of some nodes: all that their answers depend on, and nothing else. F_0 are the nodes asked for,
// F_(k+1) is F_k and the in-neighbours of F_k in the adjacencies that the steps at depth k read. (The mini-batch
// forward pass of GraphSAGE, Hamilton et al. 2017, algorithm 2, without its sampling.)
// The search is the host's, whatever device runs the plan (docs/adr/0010-receptive-fields-on-a-gpu.md).
//
// Rows are numbered in the order in which they are found, so every F_k is a prefix of F_(k+1): a matrix at depth k is
// [n_k, width], a step's own rows (targets, residuals, itself) are the first of its sources, and a plan runs over a
// field with the launches it has, their views made shorter and their adjacencies exchanged. Edges keep their order, and
// with it every row its bits.
#ifndef VICINAL_ENGINE_PLAN_RECEPTIVE_FIELD_RECEPTIVE_FIELD_H_
#define VICINAL_ENGINE_PLAN_RECEPTIVE_FIELD_RECEPTIVE_FIELD_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/device/grow_only.h"
#include "engine/device/views.h"
#include "engine/reorder/order.h"

namespace vicinal {

// The edges of an adjacency, in host memory: that adjacency itself, or the graph as sent that it was derived from.
struct HostEdges {
  HostEdges(const CsrView& csr, bool one_loop_each = false) : csr(csr), one_loop_each(one_loop_each) {}

  int64_t Degree(NodeId node) const;

  CsrView csr;  // values only where they are those of the adjacency
  // Every row of the adjacency has one self-loop, in the place of those that `csr` has or would have (LoopsOf).
  bool one_loop_each;
};

// What computing a plan for some nodes takes. The depth of a step is the number of steps over neighbourhoods between
// its rows and the output's, on the longest way. Costs are estimated nanoseconds: of one core where the host runs the
// plan, else of the time that passes.
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

  std::string refusal;  // why there are no receptive fields with this plan, as a sentence's end; empty: there are
  int64_t num_nodes = 0;
  std::vector<HostEdges> adjacencies;  // each once
  std::vector<Level> levels;           // by depth; one at least
  double run_cost = 0.0;               // of any run over a field, however small
  double node_cost = 0.0;              // of bringing one node's features along
  double edge_cost = 0.0;              // of bringing one edge along, once for each adjacency
  double full_cost = 0.0;              // of the full graph
};

// Finds receptive fields, one after the other, in memory that it keeps: one number per node of the largest graph, and
// what the largest field needed. Work and memory are proportional to the field, not to the graph. One thread at a time.
class ReceptiveFieldFinder {
 public:
  static constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  // Nanoseconds of the search: following an edge (its source's number is somewhere in memory), taking a node in.
  // Estimates, as all costs here; they decide which way is taken, never a bit.
  static constexpr double kEdgeNs = 3.0;
  static constexpr double kNodeNs = 12.0;

  ReceptiveFieldFinder(Device* device, const MemoryPurpose& purpose);

  // Finds the field of `ids` (client's ids in range, any order, may repeat). False when it costs more than `limit`: it
  // stops as soon as that is sure, since every level has at least the rows of the one before. `num_threads` share the
  // steps' work, but the search is done by one. On false or an error no field is there. REQUIRES: shape.refusal is
  // empty; shape's adjacencies live until the last use of the field.
  StatusOr<bool> Find(const ReceptiveFieldShape& shape, const std::vector<int64_t>& ids, const Permutation& permutation,
                      double limit, int num_threads);

  // --- of the field found last ---

  int64_t rows(int depth) const { return rows_[depth]; }  // n_k
  int64_t num_nodes() const { return num_nodes_; }        // of the deepest level
  // The nodes in their local order, as rows of the full graph (execution order) [num_nodes].
  const NodeId* nodes() const { return nodes_.data(); }
  // The local number of `node`, a row of the full graph. REQUIRES: it is in the field.
  int64_t RowOf(NodeId node) const { return local_of_.data()[node]; }
  // Rows F_depth of adjacency `index`, [n_k, n_(k+1)]. REQUIRES: steps at that depth read it.
  CsrView Adjacency(int index, int depth) const;
  // The same adjacency's rows for the deepest steps that read it. Its values are null where HostEdges has none.
  CsrView Adjacency(int index) const;

  // Nodes of the largest graph so far, found in or not: what stays is as large.
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
  // Brings the local numbers of the sources of `node` into the caches.
  void CallForNumbers(const CsrView& csr, NodeId node) const;
  // No less than what the whole field costs, seen from a level whose own rows and edges are counted.
  double LeastCost(int depth) const { return spent_ + static_cast<double>(num_nodes_) * tail_[depth + 1]; }

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
  std::vector<double> tail_;  // cost of one row in all levels from this one on
  double spent_ = 0.0;
  double limit_ = 0.0;
  double scan_cost_ = 0.0;  // of finding one edge
};

// What runs over receptive fields keep from one to the next, whatever plan they are of: all of it is written anew for
// each. One thread at a time.
struct ReceptiveFieldWorkspace {
  // Of plans for `device`.
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
  std::unique_ptr<Device> own_host;  // where `device` has memory of its own
  Device* host;
  ReceptiveFieldFinder finder;
  GrowOnly<float> dense;      // the nodes' features [n, F], or in compressed rows:
  GrowOnly<int64_t> row_ptr;  // [n + 1]
  GrowOnly<int32_t> col;
  GrowOnly<float> value;
  std::vector<GrowOnly<float>> vectors;  // numbers that steps read per node
  // For a device with memory of its own, which gathers features and numbers itself:
  GrowOnly<int64_t> nodes;        // ReceptiveFieldFinder::nodes, in 64 bits
  std::vector<HostPiece> pieces;  // that are sent
  GrowOnly<char> on_device;       // they, and what is gathered
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PLAN_RECEPTIVE_FIELD_RECEPTIVE_FIELD_H_
