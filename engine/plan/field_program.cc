// SPDX-License-Identifier: Apache-2.0
// Depths come from the program, adjacencies and costs from the launches' arguments: whatever reads an adjacency is a
// step over neighbourhoods, whoever made it.
#include "engine/plan/field_program.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"

namespace vicinal::internal {
namespace {

// Whether `node` reads rows of its input `index` for in-neighbours (and not only those of its own rows).
bool ReadsNeighbours(const Node& node, size_t index) {
  switch (node.kind) {
    case NodeKind::kPropagate:
    case NodeKind::kPropagateLinear:
      return true;
    case NodeKind::kAttention:
      return index != 1 || node.attention.kind == AttentionKind::kGat;  // the others' second input are queries
    case NodeKind::kEdgeMlp:
      return index == 0;
    default:
      return false;
  }
}

// Whether one of the values lies in the other's memory.
bool Overlap(const Program& program, ValueId a, ValueId b) {
  const auto inside = [&](ValueId inner, ValueId outer) {
    while (inner >= 0 && inner != outer) inner = program.values[inner].parent;
    return inner >= 0;
  };
  return inside(a, b) || inside(b, a);
}

// Estimated nanoseconds of one core for a target's row and for an edge.
struct UnitCost {
  double row = 0.0;
  double edge = 0.0;
};

double Vectors(int64_t width) { return static_cast<double>((width + 15) / 16); }
// Multiply-adds of a dense product, 25 a nanosecond, outputs in panels of 16.
double ProductNs(int64_t in, int64_t out) { return static_cast<double>(in) * Vectors(out) * 16 / 25; }

// `entries`: nonzeros of a row of sparse features.
UnitCost CostOf(const AggregateArgs& args, double) {
  const double vectors = Vectors(args.problem.width);
  return {5 + vectors, 0.7 + 0.5 * vectors};
}
UnitCost CostOf(const AttentionArgs& args, double) {
  const double vectors = Vectors(args.problem.heads * args.problem.head_width);
  const double scores = args.problem.kind == AttentionKind::kGat ? 0.0 : 2 * vectors;
  return {10 + 2 * vectors, 4 + vectors + scores + 0.5 * static_cast<double>(args.problem.heads)};
}
UnitCost CostOf(const MessageReduceArgs& args, double) {
  UnitCost cost = {5 + Vectors(args.problem.out_width()), 1 + 1.5 * Vectors(args.problem.width)};
  int64_t in = args.problem.width;
  for (int32_t layer = 0; layer < args.problem.num_layers; ++layer) {
    cost.edge += ProductNs(in, args.problem.out_widths[layer]);
    in = args.problem.out_widths[layer];
  }
  return cost;
}
UnitCost CostOf(const DenseUpdateArgs& args, double) {
  return {2 + ProductNs(args.problem.in_width, args.problem.out_width), 0};
}
UnitCost CostOf(const SparseUpdateArgs& args, double entries) {
  return {5 + entries * (1 + 0.5 * Vectors(args.problem.out_width)), 0};
}
UnitCost CostOf(const SparseAggregateUpdateArgs& args, double entries) {
  return {20 + entries * Vectors(args.problem.out_width), 3 * entries};
}
UnitCost CostOf(const RowwiseArgs& args, double) { return {3 + Vectors(args.problem.width), 0}; }

template <class Args>
const CsrView* AdjacencyIn(const Args& args) {
  if constexpr (requires { args.adjacency; }) return &args.adjacency;
  return nullptr;
}

// The kernel of `launch` that takes whole graphs only; empty: it takes any rows.
std::string_view WholeGraphKernel(const Launch& launch) {
  return std::visit(
      [](const auto& bound) {
        const auto& kernel = bound.kernel->kernel();
        return kernel.whole_graph_only() ? kernel.name() : std::string_view();
      },
      launch.bound);
}

bool ReadsWholeGraph(const Launch& launch) {
  const auto* rowwise = std::get_if<Bound<RowwiseKernel>>(&launch.bound);
  return rowwise != nullptr &&
         (rowwise->args.problem.kind == RowwiseKind::kGraphNorm || rowwise->args.problem.kind == RowwiseKind::kReadout);
}

class Maker {
 public:
  Maker(const Program& program, const std::vector<std::unique_ptr<Launch>>& launches, const PlanRequest& request)
      : program_(program), launches_(launches), request_(request) {}

  FieldProgram Make(std::string refusal) {
    FieldShape& shape = made_.shape;
    shape.num_nodes = request_.graph->num_nodes();
    shape.refusal = refusal.empty() ? WholeGraphStep() : std::move(refusal);
    if (!shape.refusal.empty()) return std::move(made_);
    const Depths depths = DepthsOf(program_);
    made_.input_depth = depths.input;
    shape.levels.resize(depths.deepest + 1);
    entries_ = request_.features.sparse && shape.num_nodes > 0
                   ? static_cast<double>(request_.features.nnz) / static_cast<double>(shape.num_nodes)
                   : 0.0;
    for (size_t i = 0; i < launches_.size(); ++i) Add(*launches_[i], depths.nodes[i]);
    // Copying a row: somewhere in memory, then along.
    shape.node_cost = 20 + (request_.features.sparse ? entries_ : Vectors(request_.features.cols)) +
                      5 * static_cast<double>(made_.vectors.size());
    shape.full_cost = FullCost();
    return std::move(made_);
  }

 private:
  std::string WholeGraphStep() const {
    for (const auto& launch : launches_) {
      if (ReadsWholeGraph(*launch)) return absl::StrCat(launch->info.layers, " reads all nodes of the graph");
      const std::string_view kernel = WholeGraphKernel(*launch);
      if (!kernel.empty()) return absl::StrCat("kernel '", std::string(kernel), "' works on whole graphs only");
    }
    return {};
  }

  void Add(const Launch& launch, int depth) {
    FieldStep step;
    step.depth = depth;
    std::visit(
        [&](const auto& bound) {
          const UnitCost cost = CostOf(bound.args, entries_);
          FieldShape::Level& level = made_.shape.levels[depth];
          level.row_cost += cost.row;
          if (const CsrView* adjacency = AdjacencyIn(bound.args)) {
            step.adjacency = IndexOf(*adjacency);
            AddEdges(step.adjacency, cost.edge, &level);
          }
          if constexpr (requires { bound.args.epilogue; }) {
            step.row_scale = VectorIndex(bound.args.epilogue.row_scale, depth);
          }
          if constexpr (requires { bound.args.src_scale; }) {
            step.src_scale = VectorIndex(bound.args.src_scale, depth + 1);
          }
        },
        launch.bound);
    made_.steps.push_back(step);
  }

  static void AddEdges(int adjacency, double cost, FieldShape::Level* level) {
    for (FieldShape::Edges& edges : level->edges) {
      if (edges.adjacency == adjacency) {
        edges.cost += cost;
        return;
      }
    }
    level->edges.push_back({adjacency, cost});
  }

  int IndexOf(const CsrView& adjacency) {
    std::vector<CsrView>& known = made_.shape.adjacencies;
    for (size_t i = 0; i < known.size(); ++i) {
      if (known[i].row_ptr == adjacency.row_ptr && known[i].col == adjacency.col && known[i].value == adjacency.value)
        return static_cast<int>(i);
    }
    known.push_back(adjacency);
    return static_cast<int>(known.size()) - 1;
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
    for (const FieldShape::Level& level : made_.shape.levels) {
      cost += level.row_cost * static_cast<double>(made_.shape.num_nodes);
      for (const FieldShape::Edges& edges : level.edges) {
        cost += edges.cost * static_cast<double>(made_.shape.adjacencies[edges.adjacency].nnz);
      }
    }
    return cost;
  }

  const Program& program_;
  const std::vector<std::unique_ptr<Launch>>& launches_;
  const PlanRequest& request_;
  double entries_ = 0.0;
  FieldProgram made_;
};

}  // namespace

Depths DepthsOf(const Program& program) {
  // The deepest rows of each value that its readers need; -1: none reads it.
  std::vector<int> needed(program.values.size(), -1);
  needed[program.output] = 0;
  const auto need = [&](ValueId value, int depth) { needed[value] = std::max(needed[value], depth); };
  Depths depths;
  depths.nodes.assign(program.nodes.size(), 0);
  // Readers come after what they read, so going backwards all readers of a node's result are known.
  for (size_t i = program.nodes.size(); i-- > 0;) {
    const Node& node = program.nodes[i];
    int depth = -1;
    for (size_t v = 0; v < needed.size(); ++v) {
      if (needed[v] > depth && Overlap(program, static_cast<ValueId>(v), node.output)) depth = needed[v];
    }
    VICINAL_CHECK(depth >= 0);
    depths.nodes[i] = depth;
    for (size_t input = 0; input < node.inputs.size(); ++input) {
      need(node.inputs[input], depth + (ReadsNeighbours(node, input) ? 1 : 0));
    }
    if (node.tail.addend >= 0) need(node.tail.addend, depth);
  }
  depths.input = std::max(needed[kInputValue], 0);
  for (const int depth : needed) depths.deepest = std::max(depths.deepest, depth);
  return depths;
}

FieldProgram MakeFieldProgram(const Program& program, const std::vector<std::unique_ptr<Launch>>& launches,
                              const PlanRequest& request, std::string refusal) {
  return Maker(program, launches, request).Make(std::move(refusal));
}

}  // namespace vicinal::internal
