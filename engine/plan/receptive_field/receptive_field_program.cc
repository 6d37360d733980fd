// SPDX-License-Identifier: Apache-2.0
// Depths come from the program, adjacencies and costs from the launches' arguments.
#include "engine/plan/receptive_field/receptive_field_program.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/plan/node_kinds/node_traits.h"
#include "engine/plan/receptive_field/receptive_field_costs.h"

namespace vicinal::internal {
namespace {

// The deepest level at which a value is needed, updated as its readers are visited; -1: not needed so far.
class NeededDepths {
 public:
  explicit NeededDepths(const Program& program)
      : program_(program), own_(program.values.size(), -1), inside_(program.values.size(), -1) {}

  void Need(ValueId value, int depth) {
    own_[value] = std::max(own_[value], depth);
    for (ValueId around = value; around >= 0; around = program_.values[around].parent) {
      inside_[around] = std::max(inside_[around], depth);
    }
  }
  // The level of the value itself.
  int Of(ValueId value) const { return own_[value]; }
  // The deepest level among the values that overlap with its memory.
  int Overlapping(ValueId value) const {
    int depth = inside_[value];
    for (ValueId around = value; around >= 0; around = program_.values[around].parent) {
      depth = std::max(depth, own_[around]);
    }
    return depth;
  }

 private:
  const Program& program_;
  std::vector<int> own_, inside_;
};

// Null if there is none: expressions over rows take the arguments of those over edges.
template <class Args>
const CsrView* AdjacencyIn(const Args& args) {
  if constexpr (requires { args.problem.code; }) {
    if (!args.problem.code->over_edges) return nullptr;
  }
  if constexpr (requires { args.adjacency; }) return &args.adjacency;
  return nullptr;
}

// The kernel of `launch` if it supports whole graphs only; otherwise empty.
std::string_view WholeGraphKernel(const Launch& launch) {
  return std::visit(
      [](const auto& bound) {
        const auto& kernel = bound.kernel->kernel();
        return kernel.whole_graph_only() ? kernel.name() : std::string_view();
      },
      launch.bound);
}

class Maker {
 public:
  Maker(const Program& program, const std::vector<std::unique_ptr<Launch>>& launches, const PlanRequest& request,
        DeviceKind device)
      : program_(program), launches_(launches), request_(request), device_(device) {}

  ReceptiveFieldProgram Make(std::string refusal) {
    ReceptiveFieldShape& shape = made_.shape;
    shape.num_nodes = request_.graph->num_nodes();
    shape.refusal = refusal.empty() ? WholeGraphStep() : std::move(refusal);
    if (!shape.refusal.empty()) return std::move(made_);
    const Depths depths = DepthsOf(program_);
    made_.input_depth = depths.input;
    shape.levels.resize(depths.deepest + 1);
    entries_ = request_.features.sparse && shape.num_nodes > 0
                   ? static_cast<double>(request_.features.nnz) / static_cast<double>(shape.num_nodes)
                   : 0.0;
    for (size_t i = 0; i < launches_.size(); ++i) Add(*launches_[i], program_.nodes[i], depths.nodes[i]);
    const FixedCosts fixed = FixedCostsOf(device_, request_.features, entries_, made_.vectors.size());
    const double steps = static_cast<double>(launches_.size());
    shape.run_cost = fixed.run + steps * fixed.step;
    shape.node_cost = fixed.node;
    shape.edge_cost = fixed.edge;
    shape.full_cost = steps * fixed.full_step + FullCost();
    return std::move(made_);
  }

 private:
  std::string WholeGraphStep() const {
    for (const auto& launch : launches_) {
      if (launch->info.locality == Locality::kGraph) {
        return absl::StrCat(launch->info.layers, " reads all nodes of the graph");
      }
      const std::string_view kernel = WholeGraphKernel(*launch);
      if (!kernel.empty()) return absl::StrCat("kernel '", std::string(kernel), "' supports whole graphs only");
    }
    return OutEdgesOnDevice();
  }

  // The host has no out-edges of a graph whose adjacencies are in a device's memory.
  std::string OutEdgesOnDevice() const {
    if (device_ == DeviceKind::kCpu) return {};
    for (size_t i = 0; i < launches_.size(); ++i) {
      if (program_.nodes[i].adjacency.transposed) {
        return absl::StrCat(launches_[i]->info.layers, " reads out-edges, which only plans of the CPU follow");
      }
    }
    return {};
  }

  void Add(const Launch& launch, const Node& node, int depth) {
    FieldStep step;
    step.depth = depth;
    const UnitCost cost = UnitCostOf(launch, device_, entries_);
    ReceptiveFieldShape::Level& level = made_.shape.levels[depth];
    level.row_cost += cost.row;
    std::visit(
        [&](const auto& bound) {
          if (const CsrView* adjacency = AdjacencyIn(bound.args)) {
            step.adjacency = IndexOf(*adjacency, node.adjacency);
            AddEdges(step.adjacency, cost, &level);
          }
          if constexpr (requires { bound.args.epilogue; }) {
            step.row_scale = VectorIndex(bound.args.epilogue.row_scale, depth);
          }
          if constexpr (requires { bound.args.row_epilogue; }) {
            step.inner_row_scale = VectorIndex(bound.args.row_epilogue.row_scale, depth);
          }
          if constexpr (requires { bound.args.edge; }) {
            made_.edge_features = made_.edge_features || bound.args.edge.width > 0;
          }
          if constexpr (requires { bound.args.src_scale; }) {
            step.src_scale = VectorIndex(bound.args.src_scale, depth + 1);
          }
        },
        launch.bound);
    made_.steps.push_back(step);
  }

  static void AddEdges(int adjacency, const UnitCost& cost, ReceptiveFieldShape::Level* level) {
    for (ReceptiveFieldShape::Edges& edges : level->edges) {
      if (edges.adjacency == adjacency) {
        edges.cost += cost.edge;
        edges.longest_cost += cost.longest_edge;
        return;
      }
    }
    level->edges.push_back({adjacency, cost.edge, cost.longest_edge});
  }

  int IndexOf(const CsrView& adjacency, const AdjacencySpec& spec) {
    std::vector<CsrView>& known = made_.adjacencies;
    for (size_t i = 0; i < known.size(); ++i) {
      if (known[i].row_ptr == adjacency.row_ptr && known[i].col == adjacency.col && known[i].value == adjacency.value)
        return static_cast<int>(i);
    }
    known.push_back(adjacency);
    made_.shape.adjacencies.push_back(OnHost(adjacency, spec));
    return static_cast<int>(known.size()) - 1;
  }

  // If the adjacency is in a device's memory: the graph that it was derived from, which the host keeps anyway.
  HostEdges OnHost(const CsrView& adjacency, const AdjacencySpec& spec) const {
    if (device_ == DeviceKind::kCpu) return HostEdges(adjacency);
    CsrView sent = request_.graph->parts().csr.view();
    sent.value = nullptr;
    return HostEdges(sent, spec.loops != SelfLoops::kAsSent);
  }

  int VectorIndex(const float* values, int depth) {
    if (values == nullptr) return -1;
    for (size_t i = 0; i < made_.vectors.size(); ++i) {
      if (made_.vectors[i].values != values) continue;
      made_.vectors[i].depth = std::max(made_.vectors[i].depth, depth);
      return static_cast<int>(i);
    }
    made_.vectors.push_back({values, depth});
    return static_cast<int>(made_.vectors.size()) - 1;
  }

  double FullCost() const {
    double cost = 0.0;
    for (const ReceptiveFieldShape::Level& level : made_.shape.levels) {
      cost += level.row_cost * static_cast<double>(made_.shape.num_nodes);
      for (const ReceptiveFieldShape::Edges& edges : level.edges) {
        cost += edges.cost * static_cast<double>(made_.adjacencies[edges.adjacency].nnz);
      }
    }
    return cost;
  }

  const Program& program_;
  const std::vector<std::unique_ptr<Launch>>& launches_;
  const PlanRequest& request_;
  const DeviceKind device_;
  double entries_ = 0.0;
  ReceptiveFieldProgram made_;
};

}  // namespace

Depths DepthsOf(const Program& program) {
  NeededDepths needed(program);
  needed.Need(program.output, 0);
  Depths depths;
  depths.nodes.assign(program.nodes.size(), 0);
  const auto need = [&](ValueId value, int depth) {
    needed.Need(value, depth);
    depths.deepest = std::max(depths.deepest, depth);
  };
  // Nodes are visited backwards, so that all readers of a node's result come before it.
  for (size_t i = program.nodes.size(); i-- > 0;) {
    const Node& node = program.nodes[i];
    const int depth = needed.Overlapping(node.output);
    VICINAL_CHECK(depth >= 0);
    depths.nodes[i] = depth;
    const NodeTraits& traits = TraitsOf(node.kind);
    // Its edges lead one hop further, also where nothing is read of their sources.
    if (traits.locality == Locality::kNeighbourhood) depths.deepest = std::max(depths.deepest, depth + 1);
    for (size_t input = 0; input < node.inputs.size(); ++input) {
      need(node.inputs[input], depth + (Gathers(node, traits, input) ? 1 : 0));
    }
    for (const ValueId residual : {node.inner.residual, node.epilogue.residual}) {
      if (residual >= 0) need(residual, depth);
    }
  }
  depths.input = std::max(needed.Of(kInputValue), 0);
  return depths;
}

ReceptiveFieldProgram MakeReceptiveFieldProgram(const Program& program,
                                                const std::vector<std::unique_ptr<Launch>>& launches,
                                                const PlanRequest& request, DeviceKind device, std::string refusal) {
  return Maker(program, launches, request, device).Make(std::move(refusal));
}

}  // namespace vicinal::internal
