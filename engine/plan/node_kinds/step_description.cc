// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/node_kinds/step_description.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/plan/node_kinds/node_traits.h"

namespace vicinal::internal {

int64_t StepDescription::Elements(ValueId value) const {
  return Rows(program_.values[value]) * program_.values[value].width;
}

std::string StepDescription::Shape(ValueId value) const {
  return absl::StrCat(IsSparseInput(value) ? "sparse " : "", value == kInputValue ? "x " : "", "[",
                      Rows(program_.values[value]), ", ", WidthOf(value), "]");
}

std::string StepDescription::AdjacencyShape() const {
  return absl::StrCat(node_.adjacency.transposed ? "A^T[" : "A[", sizes_.nodes, ", ", sizes_.nodes, "] with ",
                      sizes_.edges, sizes_.weighted ? " weighted" : "", " edges");
}

int64_t StepDescription::AdjacencyBytes() const {
  return (sizes_.nodes + 1) * kOffsetBytes + sizes_.edges * (kIndexBytes + (sizes_.weighted ? kFloatBytes : 0));
}

int64_t StepDescription::InputBytes() const {
  return program_.sparse_input ? sizes_.input_nnz * (kIndexBytes + kFloatBytes) + (sizes_.nodes + 1) * kOffsetBytes
                               : Elements(kInputValue) * kFloatBytes;
}

void StepDescription::SetCost(int64_t bytes, int64_t operations) {
  info_.predicted_bytes = bytes + Elements(node_.output) * kFloatBytes;
  info_.predicted_operations = operations;
}

void StepDescription::AddEpilogue(const EpilogueSpec& epilogue, int64_t elements) {
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
    info_.predicted_bytes += elements * kFloatBytes;
  }
  if (epilogue.activation.kind != ActivationKind::kNone) {
    formula_ += absl::StrCat(", then ", std::string(vicinal::ToString(epilogue.activation.kind)));
    info_.predicted_operations += elements;
  }
}

PlanStepInfo StepDescription::Finish() {
  info_.layers = LayerNames(program_, node_);
  info_.locality = TraitsOf(node_.kind).locality;
  info_.description = absl::StrCat(Shape(node_.output), " = ", formula_);
  return std::move(info_);
}

void DescribeRowwise(StepDescription* step) {
  const ValueId input = step->node().inputs[0];
  *step->formula() = absl::StrCat(std::string(TraitsOf(step->node().kind).name), " of ", step->Shape(input));
  step->SetCost(step->Elements(input) * StepDescription::kFloatBytes, 5 * step->Elements(input));
}

PlanStepInfo Describe(const Program& program, const Node& node, const StepSizes& sizes) {
  StepDescription description(program, node, sizes);
  TraitsOf(node.kind).describe(&description);
  description.AddEpilogue(node.epilogue, description.Elements(node.output));
  return description.Finish();
}

}  // namespace vicinal::internal
