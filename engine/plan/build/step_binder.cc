// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/build/step_binder.h"

#include <variant>
#include <vector>

#include "engine/base/check.h"
#include "engine/graph/edge_features.h"
#include "engine/plan/node_kinds/node_traits.h"
#include "engine/plan/node_kinds/step_description.h"

namespace vicinal::internal {

Status StepBinder::Bind() {
  VICINAL_ASSIGN_OR_RETURN(const float* const bias, Copy(node_.epilogue.bias));
  VICINAL_ASSIGN_OR_RETURN(const float* const row_scale, DegreeScale(node_.epilogue.degree_scale));
  const NodeTraits& traits = TraitsOf(node_.kind);
  VICINAL_CHECK(traits.bind != nullptr && (traits.fuses_epilogue || node_.epilogue.empty()));
  VICINAL_RETURN_IF_ERROR(traits.bind(this));
  std::visit(
      [&](auto& bound) {
        SetEpilogue(node_.epilogue, &bound.args.epilogue);
        bound.args.epilogue.bias = bias;
        bound.args.epilogue.row_scale = row_scale;
        if (program().values[node_.output].storage == Storage::kFloat32) Output(&bound.args.dst);
      },
      launch_.bound);
  Describe();
  return OkStatus();
}

void StepBinder::Describe() {
  StepSizes sizes;
  sizes.nodes = request().graph->num_nodes();
  sizes.graphs = num_graphs();
  sizes.input_nnz = request().features.nnz;
  if (TraitsOf(node_.kind).locality == Locality::kNeighbourhood) {
    const AdjacencyShape shape = ShapeOfAdjacency();
    sizes.edges = shape.edges;
    sizes.weighted = shape.weighted;
  }
  PlanStepInfo info = internal::Describe(program(), node_, sizes);
  PlanStepInfo& told = launch_.info;
  told.layers = std::move(info.layers);
  told.description = std::move(info.description);
  told.locality = info.locality;
  told.predicted_bytes = info.predicted_bytes;
  told.predicted_operations = info.predicted_operations;
}

std::optional<KernelSetting> StepBinder::FindSetting(const TuningWork& work) {
  layout_.work_[step_] = work;
  launch_.info.tuning_key = work.key;
  std::optional<KernelSetting> setting = request().graph->tuning().Find(work.key);
  if (!setting.has_value()) return setting;
  const std::string* const reason = context_.unfit.Find(work.key);
  if (reason == nullptr) return setting;
  launch_.info.refusals.push_back({setting->kernel, *reason});
  return std::nullopt;
}

void StepBinder::NoteUnfit(const TuningKey& key, std::string_view kernel, const Status& refusal) {
  context_.program.decisions.push_back(context_.unfit.Add(key, kernel, refusal));
}

PlanLayout::PackedKey StepBinder::KeyOfPacked(const void* kernel, const ProductWeight& weight) {
  PlanLayout::PackedKey key = {kernel};
  for (const WeightPiece& piece : weight.pieces) {
    if (piece.sent == nullptr || !piece.row_scale.empty()) return {};
    key.push_back(piece.sent.get());
  }
  return key;
}

StatusOr<const void*> StepBinder::PackOnce(const void* kernel, const ProductWeight& weight, size_t bytes,
                                           const PlanAllocator::WeightPacker& pack) {
  const PlanLayout::PackedKey key = KeyOfPacked(kernel, weight);
  if (key.empty()) return layout_.allocator_.Pack(weight, bytes, pack);
  const auto known = layout_.packed_.find(key);
  if (known != layout_.packed_.end()) return known->second;
  VICINAL_ASSIGN_OR_RETURN(const void* const packed, layout_.allocator_.Pack(weight, bytes, pack));
  layout_.packed_.emplace(key, packed);
  return packed;
}

StatusOr<const float*> StepBinder::Copy(const std::vector<float>& vector) {
  VICINAL_ASSIGN_OR_RETURN(const void* const kept,
                           layout_.allocator_.Copy(vector.data(), vector.size() * sizeof(float)));
  return static_cast<const float*>(kept);
}

StatusOr<const float*> StepBinder::CopyTransposed(const Weight& matrix) {
  const int64_t rows = matrix.shape[0], cols = matrix.shape[1];
  std::vector<float> transposed(matrix.values.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) transposed[c * rows + r] = matrix.values[r * cols + c];
  }
  return Copy(transposed);
}

StatusOr<const float*> StepBinder::Copy(const ParametersRef& vector) {
  if (vector == nullptr) return nullptr;
  return Copy(std::vector<float>(vector->values.begin(), vector->values.end()));
}

StatusOr<const float*> StepBinder::DegreeScale(const std::optional<SelfLoops>& loops) {
  if (!loops.has_value()) return nullptr;
  return layout_.allocator_.DegreeScale(*loops);
}

StatusOr<CsrView> StepBinder::AdjacencyAsSent() {
  if (context_.device.kind() == DeviceKind::kCpu) return request().graph->parts().csr.view();
  const AdjacencySpec as_sent;
  VICINAL_ASSIGN_OR_RETURN(CsrView sent, layout_.allocator_.Adjacency(as_sent, context_.shapes.Of(as_sent)));
  sent.value = nullptr;
  return sent;
}

Status StepBinder::EdgeFeatures(int64_t width, const LoopFeatures& added, EdgeFeaturesView* view) {
  const PreparedGraph& graph = *request().graph;
  const bool in_runs = request().edge_set_cols > 0;
  const int64_t there = in_runs ? request().edge_set_cols : graph.edge_feature_width();
  VICINAL_RETURN_IF_ERROR(CheckEdgeFeatureWidth(there, graph.num_edges(), width));
  view->width = width;
  view->one_loop_each = node_.adjacency.loops != SelfLoops::kAsSent;
  VICINAL_ASSIGN_OR_RETURN(view->sent, AdjacencyAsSent());
  if (!in_runs) {
    VICINAL_ASSIGN_OR_RETURN(view->values, layout_.allocator_.EdgeFeatures());
  }
  // The mean of no edges is 0, whatever their width.
  const bool means = view->one_loop_each && added.mean && graph.num_edges() > 0;
  if (in_runs) layout_.edges_.push_back({view, means});
  if (means) {
    view->loop_stride = width;
    if (in_runs) return OkStatus();
    VICINAL_ASSIGN_OR_RETURN(view->loop_values, layout_.allocator_.MeanEdgeFeatures());
  } else if (view->one_loop_each) {
    VICINAL_ASSIGN_OR_RETURN(view->loop_values, Copy(std::vector<float>(width, added.mean ? 0.0f : added.value)));
  }
  return OkStatus();
}

void StepBinder::Input(ValueId value, ConstMatrixView* view) {
  if (value == kInputValue) {
    layout_.features_.dense.push_back(view);
  } else {
    InputColumns(value, 0, WidthOf(value), view);
  }
}

void StepBinder::Input(ValueId value, ConstMatrixView16* view) { layout_.views_.push_back({value, 0, 0, view}); }

void StepBinder::InputColumns(ValueId value, int64_t first, int64_t count, ConstMatrixView* view) {
  layout_.views_.push_back({value, first, count, view});
}

void StepBinder::SparseInput(CsrView* view, int64_t* nnz) {
  layout_.features_.sparse.push_back(view);
  if (nnz != nullptr) layout_.features_.nnz.push_back(nnz);
}

void StepBinder::Output(MatrixView* view) { layout_.views_.push_back({node_.output, 0, WidthOf(node_.output), view}); }

void StepBinder::Output(MatrixView16* view) { layout_.views_.push_back({node_.output, 0, 0, view}); }

void StepBinder::SetEpilogue(const EpilogueSpec& spec, Epilogue* epilogue) {
  epilogue->scale = static_cast<float>(spec.scale);
  epilogue->residual_scale = static_cast<float>(spec.residual_scale);
  if (spec.residual >= 0) Input(spec.residual, &epilogue->residual);
  epilogue->activation = spec.activation;
}

}  // namespace vicinal::internal
