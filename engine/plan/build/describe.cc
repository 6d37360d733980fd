// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/build/describe.h"

#include "absl/strings/str_cat.h"

namespace vicinal::internal {
namespace {

constexpr int64_t kFloat = sizeof(float);
constexpr int64_t kIndex = sizeof(int32_t);
constexpr int64_t kOffset = sizeof(int64_t);

std::string Str(std::string_view s) { return std::string(s); }

class Describer {
 public:
  Describer(const Program& program, const Node& node, const NodeSizes& sizes)
      : program_(program), node_(node), sizes_(sizes), out_(program.values[node.output]) {}

  PlanStepInfo Describe() {
    info_.layers = LayerNames(program_, node_);
    info_.locality = LocalityOfKind();
    Kind();
    AddEpilogue(node_.epilogue, Elements(node_.output));
    info_.description = absl::StrCat(Shape(node_.output), " = ", formula_);
    return std::move(info_);
  }

 private:
  int64_t Rows(const Value& value) const { return value.per_graph ? sizes_.graphs : sizes_.nodes; }
  int64_t Elements(ValueId id) const { return Rows(program_.values[id]) * program_.values[id].width; }
  std::string Shape(ValueId id) const {
    const Value& value = program_.values[id];
    const bool sparse = id == kInputValue && program_.sparse_input;
    return absl::StrCat(sparse ? "sparse " : "", id == kInputValue ? "x " : "", "[", Rows(value), ", ", value.width,
                        "]");
  }
  std::string AdjacencyShape() const {
    return absl::StrCat("A[", sizes_.nodes, ", ", sizes_.nodes, "] with ", sizes_.edges,
                        sizes_.weighted ? " weighted" : "", " edges");
  }
  int64_t AdjacencyBytes() const {
    return (sizes_.nodes + 1) * kOffset + sizes_.edges * (kIndex + (sizes_.weighted ? kFloat : 0));
  }
  int64_t InputBytes() const {
    return program_.sparse_input ? sizes_.input_nnz * (kIndex + kFloat) + (sizes_.nodes + 1) * kOffset
                                 : Elements(kInputValue) * kFloat;
  }

  Locality LocalityOfKind() const {
    switch (node_.kind) {
      case NodeKind::kPropagate:
      case NodeKind::kPropagateLinear:
      case NodeKind::kAttention:
      case NodeKind::kEdgeMlp:
        return Locality::kNeighbourhood;
      case NodeKind::kGraphNorm:
      case NodeKind::kReadout:
        return Locality::kGraph;
      default:
        return Locality::kNode;
    }
  }

  void Count(int64_t bytes, int64_t operations) {
    info_.predicted_bytes = bytes + Elements(node_.output) * kFloat;
    info_.predicted_operations = operations;
  }

  void Kind() {
    const ValueId input = node_.inputs[0];
    const int64_t in_width = program_.values[input].width;
    switch (node_.kind) {
      case NodeKind::kLinear: {
        const bool sparse = input == kInputValue && program_.sparse_input;
        formula_ = absl::StrCat(Shape(input), " * W^T [", in_width, ", ", out_.width, "]");
        return Count((sparse ? InputBytes() : Elements(input) * kFloat) + in_width * out_.width * kFloat,
                     2 * (sparse ? sizes_.input_nnz : Elements(input)) * out_.width);
      }
      case NodeKind::kPropagate: {
        formula_ = absl::StrCat(Str(vicinal::ToString(node_.reduce)), " over ", AdjacencyShape(), " of ", Shape(input),
                                node_.self_scale != 0 ? absl::StrCat(" + ", node_.self_scale, " * itself") : "");
        const int64_t weights = node_.weight != nullptr ? in_width * out_.width : 0;
        Count(AdjacencyBytes() + (sizes_.edges * in_width + weights) * kFloat,
              sizes_.edges * in_width * (sizes_.weighted ? 2 : 1) + 2 * sizes_.nodes * weights);
        if (weights == 0) return;
        AddEpilogue(node_.inner, sizes_.nodes * in_width);
        formula_ = absl::StrCat("(", formula_, ") * W^T [", in_width, ", ", out_.width, "]");
        return;
      }
      case NodeKind::kPropagateLinear: {
        const double row_entries =
            static_cast<double>(sizes_.input_nnz) / static_cast<double>(sizes_.nodes > 0 ? sizes_.nodes : 1);
        const int64_t gathered = static_cast<int64_t>(row_entries * static_cast<double>(sizes_.edges));
        formula_ = absl::StrCat(Str(vicinal::ToString(node_.reduce)), " over ", AdjacencyShape(), " of ", Shape(input),
                                " * W^T [", in_width, ", ", out_.width, "]");
        return Count(AdjacencyBytes() + gathered * (kIndex + kFloat) + in_width * out_.width * kFloat,
                     gathered * (1 + 2 * out_.width));
      }
      case NodeKind::kAttention: {
        const int64_t heads = node_.attention.heads, width = heads * node_.attention.head_width;
        formula_ = absl::StrCat(std::string(ToString(node_.attention.kind)), " attention", " over ", AdjacencyShape(),
                                " of ", heads, heads == 1 ? " head of " : " heads of ", node_.attention.head_width,
                                node_.attention.concat ? "" : ", their mean");
        return Count(
            AdjacencyBytes() +
                sizes_.edges * (width + (node_.attention.kind == AttentionKind::kGat ? heads : 0)) * kFloat +
                Elements(node_.inputs[1]) * kFloat,
            sizes_.edges * width * (node_.attention.kind == AttentionKind::kGat ? 2 : 6) + sizes_.edges * heads * 4);
      }
      case NodeKind::kEdgeMlp:
        return EdgeMlp(in_width);
      case NodeKind::kGate:
        formula_ = absl::StrCat("gate between ", Shape(input), " and ", Shape(node_.inputs[1]));
        return Count(2 * Elements(input) * kFloat, 9 * Elements(input));
      case NodeKind::kDensify:
        formula_ = absl::StrCat("dense ", Shape(input));
        return Count(InputBytes(), 0);
      case NodeKind::kMax:
        formula_ = absl::StrCat("max(", Shape(input), ", ", Shape(node_.inputs[1]), ")");
        return Count(2 * Elements(input) * kFloat, Elements(input));
      case NodeKind::kReadout:
        formula_ = absl::StrCat(Str(vicinal::ToString(node_.reduce)), " over each graph of ", Shape(input));
        return Count(Elements(input) * kFloat, Elements(input));
      case NodeKind::kRow:
        formula_ = absl::StrCat(Shape(input), node_.scale != nullptr ? " * scale" : "",
                                node_.shift != nullptr ? " + shift" : "");
        return Count(Elements(input) * kFloat, Elements(input));
      default:
        formula_ = absl::StrCat(Str(ToString(node_.kind)), " of ", Shape(input));
        return Count(Elements(input) * kFloat, 5 * Elements(input));
    }
  }

  void EdgeMlp(int64_t in_width) {
    int64_t width = in_width, parameters = 0;
    formula_ = absl::StrCat(
        Str(vicinal::ToString(node_.reduce)), " over ", AdjacencyShape(), " of ",
        node_.edge_activation.kind == ActivationKind::kNone ? "" : Str(vicinal::ToString(node_.edge_activation.kind)),
        "(", Shape(node_.inputs[0]), " + ", Shape(node_.inputs[1]), ")");
    for (const EdgeLayer& layer : node_.edge_layers) {
      absl::StrAppend(&formula_, " * W^T [", width, ", ", layer.weight->rows, "]");
      parameters += width * layer.weight->rows;
      width = layer.weight->rows;
    }
    Count(AdjacencyBytes() + (sizes_.edges * in_width + Elements(node_.inputs[1]) + parameters) * kFloat,
          sizes_.edges * (in_width + 2 * parameters + width));
  }

  void AddEpilogue(const EpilogueSpec& epilogue, int64_t elements) {
    if (epilogue.scale != 1.0) formula_ = absl::StrCat(epilogue.scale, " * ", formula_);
    if (epilogue.bias != nullptr) {
      formula_ += " + bias";
      info_.predicted_operations += elements;
    }
    if (epilogue.residual >= 0) {
      absl::StrAppend(&formula_, " + ",
                      epilogue.residual_scale == 1.0 ? "" : absl::StrCat(epilogue.residual_scale, " * "),
                      Shape(epilogue.residual));
      info_.predicted_operations += elements;
      info_.predicted_bytes += elements * kFloat;
    }
    if (epilogue.activation.kind != ActivationKind::kNone) {
      formula_ += absl::StrCat(", then ", Str(vicinal::ToString(epilogue.activation.kind)));
      info_.predicted_operations += elements;
    }
  }

  const Program& program_;
  const Node& node_;
  const NodeSizes& sizes_;
  const Value& out_;
  std::string formula_;
  PlanStepInfo info_;
};

}  // namespace

PlanStepInfo Describe(const Program& program, const Node& node, const NodeSizes& sizes) {
  return Describer(program, node, sizes).Describe();
}

}  // namespace vicinal::internal
