// SPDX-License-Identifier: Apache-2.0
#include "engine/prepare/inline_graph.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/prepare/counted_features.h"

namespace vicinal {
namespace {

constexpr char kBatch[] = "the batch";
constexpr char kReferenceGraph[] = "the reference's graph";

HostTensor Copy(const TensorView& view) { return {view.dtype, view.shape, std::string(view.bytes)}; }

GraphSource SourceOf(const GraphTensors& tensors) {
  GraphSource source;
  source.name = "reference";
  source.node_count = tensors.x.shape[0];
  source.edge_index = Copy(tensors.edge_index);
  if (tensors.edge_weight) source.edge_weight = Copy(*tensors.edge_weight);
  if (tensors.edge_attr) source.edge_attr = Copy(*tensors.edge_attr);
  source.x = Copy(tensors.x);
  source.order = OrderKind::kNone;
  return source;
}

}  // namespace

Status CheckFeatureWidth(int64_t columns, int64_t model_columns) {
  if (columns == model_columns) return OkStatus();
  return InvalidArgument(
      "FEATURE_WIDTH", "features",
      absl::StrCat("the features sent have ", columns, " columns, but the model reads ", model_columns));
}

Status InlineGraphMaker::CheckNodes(int64_t nodes, std::string_view field) const {
  if (max_nodes_ <= 0 || nodes <= max_nodes_) return OkStatus();
  return OverLimit("max_nodes", field, nodes, max_nodes_);
}

StatusOr<Reservation> InlineGraphMaker::ReserveKept(const PreparedGraph& graph, int64_t feature_bytes,
                                                    std::string_view what, Reservation preparing) const {
  VICINAL_ASSIGN_OR_RETURN(Reservation memory,
                           ReserveLarge(graph.size_bytes() + feature_bytes, what, &budget_, &preparing));
  graph.AddReservation(memory.Split(graph.size_bytes()));
  return memory;
}

StatusOr<InlineGraph> InlineGraphMaker::MakeBatch(const BatchTensors& batch, const FeatureTensors& features,
                                                  std::string_view features_field, int64_t model_columns) const {
  VICINAL_ASSIGN_OR_RETURN(const int64_t nodes, BatchNodeCount(batch.ptr));
  VICINAL_RETURN_IF_ERROR(CheckNodes(nodes, "ptr"));
  // The message has a row of features per node, so the number of nodes is bounded by the bytes received.
  VICINAL_ASSIGN_OR_RETURN(const auto assembled, ReserveLarge(AssembledBytesBound(features), kBatch, &budget_));
  VICINAL_ASSIGN_OR_RETURN(const HostFeatures rows, AssembleFeatures(features, nodes, features_field));
  if (model_columns >= 0) VICINAL_RETURN_IF_ERROR(CheckFeatureWidth(rows.cols, model_columns));
  VICINAL_ASSIGN_OR_RETURN(auto preparing, ReserveLarge(BatchBytesBound(batch, nodes), kBatch, &budget_));
  InlineGraph made;
  VICINAL_ASSIGN_OR_RETURN(made.graph, PrepareBatch(batch, device_));
  VICINAL_ASSIGN_OR_RETURN(
      auto kept, ReserveKept(*made.graph, FeatureMatrix::BytesOn(rows, device_), kBatch, std::move(preparing)));
  VICINAL_ASSIGN_OR_RETURN(made.features, Counted(FeatureMatrix::Upload(rows, device_), std::move(kept)));
  return made;
}

StatusOr<InlineGraph> InlineGraphMaker::MakeGraph(const GraphTensors& tensors, const Clock& clock) const {
  VICINAL_RETURN_IF_ERROR(CheckNodes(tensors.x.shape[0], "x"));
  size_t bytes = tensors.edge_index.bytes.size() + tensors.x.bytes.size();
  for (const auto& tensor : {tensors.edge_weight, tensors.edge_attr}) bytes += tensor ? tensor->bytes.size() : 0;
  VICINAL_ASSIGN_OR_RETURN(auto copied, ReserveLarge(static_cast<int64_t>(bytes), kReferenceGraph, &budget_));
  GraphSource source = SourceOf(tensors);
  // The bound includes the copies.
  VICINAL_ASSIGN_OR_RETURN(auto preparing, ReserveLarge(PreparationBytesBound(SizesOf(source), device_.kind()),
                                                        kReferenceGraph, &budget_, &copied));
  PrepareContext context;
  context.device = &device_;
  context.clock = &clock;
  context.stats = &StatsSink::Null();
  VICINAL_ASSIGN_OR_RETURN(PreparedUpload prepared, PrepareGraph(std::move(source), 0, context));
  VICINAL_ASSIGN_OR_RETURN(
      auto kept, ReserveKept(*prepared.graph, prepared.features->size_bytes(), kReferenceGraph, std::move(preparing)));
  InlineGraph made;
  made.graph = std::move(prepared.graph);
  VICINAL_ASSIGN_OR_RETURN(made.features, Counted(std::move(prepared.features), std::move(kept)));
  return made;
}

}  // namespace vicinal
