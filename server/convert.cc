// SPDX-License-Identifier: Apache-2.0
#include "server/convert.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "proto/wire/names.h"
#include "server/convert_profile.h"
#include "server/convert_tuning.h"

namespace vicinal::server {
namespace {

Status CheckVersion(int64_t version, std::string_view field) {
  if (version >= 0) return OkStatus();
  return InvalidArgument(
      "BAD_VERSION", field,
      absl::StrCat(std::string(field), " is ", version, "; versions must not be negative; 0 means the latest"));
}

template <class T>
void SetTensorOf(v1::DataType dtype, const T* values, int64_t rows, int64_t cols, v1::Tensor* tensor) {
  tensor->set_dtype(dtype);
  tensor->clear_shape();
  tensor->add_shape(rows);
  tensor->add_shape(cols);
  tensor->set_data(reinterpret_cast<const char*>(values), static_cast<size_t>(rows * cols) * sizeof(T));
}

v1::Graph::State StateOf(GraphState state) {
  switch (state) {
    case GraphState::kPreparing:
      return v1::Graph::STATE_PREPARING;
    case GraphState::kReady:
      return v1::Graph::STATE_READY;
    case GraphState::kFailed:
      return v1::Graph::STATE_FAILED;
    case GraphState::kLoading:
      return v1::Graph::STATE_LOADING;
  }
  return v1::Graph::STATE_UNSPECIFIED;
}

v1::Durability DurabilityOf(Durability durability) {
  switch (durability) {
    case Durability::kMemory:
      return v1::DURABILITY_MEMORY;
    case Durability::kWriting:
      return v1::DURABILITY_WRITING;
    case Durability::kDurable:
      return v1::DURABILITY_DURABLE;
  }
  return v1::DURABILITY_UNSPECIFIED;
}

// Of a graph, a feature set or a model.
template <class Resource, class Message>
void SetDurability(const Resource& resource, Message* message) {
  message->set_durability(DurabilityOf(resource.durability));
  if (!resource.durability_error.ok()) {
    message->set_durability_error(std::string(resource.durability_error.message()));
  }
}

v1::Graph::Tier TierOf(Tier tier) {
  switch (tier) {
    case Tier::kDisk:
      return v1::Graph::TIER_DISK;
    case Tier::kHost:
      return v1::Graph::TIER_HOST;
    case Tier::kDevice:
      return v1::Graph::TIER_DEVICE;
  }
  return v1::Graph::TIER_UNSPECIFIED;
}

void SetServing(const ServingGraph& serving, v1::Graph* graph) {
  SetDurability(serving, graph);
  graph->set_version(serving.version);
  graph->set_ids_digest(serving.ids_digest);
  graph->set_source_digest(serving.source_digest);
  graph->set_pinned(serving.pinned);
  graph->set_resident(serving.in_memory());
  graph->set_tier(TierOf(serving.tier));
  graph->set_weighted(serving.weighted);
  graph->set_edge_feature_width(serving.edge_feature_width);
  graph->set_reorder(ToProto(serving.requested_order));
  graph->set_order(std::string(ToString(serving.order)));
  graph->set_numerics_revision(serving.numerics_revision);
  graph->set_size_bytes(serving.size_bytes);
  for (const StageTime& stage : serving.stages) {
    v1::StageTime* time = graph->add_stages();
    time->set_stage(stage.stage);
    time->set_seconds(stage.seconds);
  }
  *graph->mutable_profile() = ToProto(serving.profile);
  *graph->mutable_create_time() = ToProto(serving.create_time);
}

StatusOr<ReceptiveField> ReceptiveFieldOf(v1::ReceptiveField field) {
  switch (field) {
    case v1::RECEPTIVE_FIELD_UNSPECIFIED:
    case v1::RECEPTIVE_FIELD_AUTO:
      return ReceptiveField::kAuto;
    case v1::RECEPTIVE_FIELD_NEVER:
      return ReceptiveField::kNever;
    case v1::RECEPTIVE_FIELD_ALWAYS:
      return ReceptiveField::kAlways;
    default:
      return InvalidArgument("BAD_EXECUTION", "execution.receptive_field",
                             "execution.receptive_field is unknown; it must be AUTO, NEVER or ALWAYS");
  }
}

StatusOr<Storage> PrecisionOf(v1::Precision precision) {
  switch (precision) {
    case v1::PRECISION_UNSPECIFIED:
    case v1::PRECISION_FLOAT32:
      return Storage::kFloat32;
    case v1::PRECISION_BFLOAT16:
      return Storage::kBfloat16;
    case v1::PRECISION_FLOAT16:
      return Storage::kFloat16;
    default:
      return InvalidArgument("BAD_EXECUTION", "execution.precision",
                             "execution.precision is unknown; it must be FLOAT32, BFLOAT16 or FLOAT16");
  }
}

StatusOr<ProductPrecision> ProductPrecisionOf(v1::ProductPrecision precision) {
  switch (precision) {
    case v1::PRODUCT_PRECISION_UNSPECIFIED:
    case v1::PRODUCT_PRECISION_FLOAT32:
      return ProductPrecision::kFloat32;
    case v1::PRODUCT_PRECISION_TF32:
      return ProductPrecision::kTf32;
    case v1::PRODUCT_PRECISION_BFLOAT16:
      return ProductPrecision::kBfloat16;
    case v1::PRODUCT_PRECISION_FLOAT16:
      return ProductPrecision::kFloat16;
    default:
      return InvalidArgument("BAD_EXECUTION", "execution.product_precision",
                             "execution.product_precision is unknown; it must be FLOAT32, TF32, BFLOAT16 or FLOAT16");
  }
}

}  // namespace

StatusOr<DataType> FromProto(v1::DataType dtype, std::string_view field) {
  switch (dtype) {
    case v1::DATA_TYPE_FLOAT32:
      return DataType::kFloat32;
    case v1::DATA_TYPE_FLOAT16:
      return DataType::kFloat16;
    case v1::DATA_TYPE_BFLOAT16:
      return DataType::kBFloat16;
    case v1::DATA_TYPE_INT32:
      return DataType::kInt32;
    case v1::DATA_TYPE_INT64:
      return DataType::kInt64;
    case v1::DATA_TYPE_UINT8:
      return DataType::kUint8;
    default:
      return InvalidArgument("BAD_TENSOR", field,
                             absl::StrCat(std::string(field), " is missing or unknown; see DataType"));
  }
}

StatusOr<OrderKind> FromProto(v1::Reorder reorder) {
  if (reorder == v1::REORDER_UNSPECIFIED) return OrderKind::kAuto;
  for (const OrderKind kind : KnownOrders()) {
    if (ToProto(kind) != reorder) continue;
    const std::vector<OrderKind> available = Engine::AvailableOrders();
    if (std::find(available.begin(), available.end(), kind) != available.end()) return kind;
    return FailedPrecondition(
        "METIS_MISSING", absl::StrCat("this server was built without METIS, so it cannot make the "
                                      "order '",
                                      std::string(ToString(kind)), "'; use another one: GetCapabilities lists them"));
  }
  return InvalidArgument("UNKNOWN_ORDER", "spec.reorder",
                         "spec.reorder is unknown; GetCapabilities lists the known orders");
}

StatusOr<TensorView> View(const v1::Tensor& tensor, std::string_view field) {
  TensorView view;
  VICINAL_ASSIGN_OR_RETURN(view.dtype, FromProto(tensor.dtype(), absl::StrCat(std::string(field), ".dtype")));
  view.shape.assign(tensor.shape().begin(), tensor.shape().end());
  view.bytes = tensor.data();
  return view;
}

Status CheckName(std::string_view name, std::string_view field) {
  if (wire::IsValidName(name)) return OkStatus();
  const std::string what =
      name.empty() ? "is required" : absl::StrCat("is ", Quoted(name), ", which is not a valid name");
  return InvalidArgument("BAD_NAME", field,
                         absl::StrCat(std::string(field), " ", what, "; names match ", wire::kNameGrammar));
}

Status FillTarget(const v1::Target& target, InferenceRequest* request) {
  VICINAL_RETURN_IF_ERROR(CheckName(target.graph(), "target.graph"));
  VICINAL_RETURN_IF_ERROR(CheckName(target.model(), "target.model"));
  VICINAL_RETURN_IF_ERROR(CheckVersion(target.graph_version(), "target.graph_version"));
  VICINAL_RETURN_IF_ERROR(CheckVersion(target.model_version(), "target.model_version"));
  VICINAL_RETURN_IF_ERROR(CheckVersion(target.feature_set_version(), "target.feature_set_version"));
  request->graph = target.graph();
  request->graph_version = target.graph_version();
  request->model = target.model();
  request->model_version = target.model_version();
  request->feature_set_version = target.feature_set_version();
  request->incarnation = target.incarnation();
  request->ids_digest = target.ids_digest();
  if (target.feature_set().empty()) return OkStatus();
  VICINAL_RETURN_IF_ERROR(CheckName(target.feature_set(), "target.feature_set"));
  request->feature_set = target.feature_set();
  return OkStatus();
}

Status CheckUploadId(std::string_view id, std::string_view field) {
  if (wire::IsValidUploadId(id)) return OkStatus();
  const std::string what = id.empty() ? "is required" : "is not a valid id";
  return InvalidArgument("BAD_NAME", field,
                         absl::StrCat(std::string(field), " ", what, "; upload ids match ", wire::kUploadIdGrammar));
}

StatusOr<RequestFeatures> FromProto(const v1::FeatureInput& features, std::string_view field) {
  const std::string prefix(field);
  RequestFeatures out;
  if (features.has_dense()) {
    VICINAL_ASSIGN_OR_RETURN(out.tensors.dense, View(features.dense(), prefix + ".dense"));
  } else if (features.has_csr()) {
    const v1::CsrMatrix& csr = features.csr();
    VICINAL_ASSIGN_OR_RETURN(out.tensors.indptr, View(csr.indptr(), prefix + ".csr.indptr"));
    VICINAL_ASSIGN_OR_RETURN(out.tensors.indices, View(csr.indices(), prefix + ".csr.indices"));
    VICINAL_ASSIGN_OR_RETURN(out.tensors.values, View(csr.values(), prefix + ".csr.values"));
    out.tensors.feature_count = csr.column_count();
    const std::vector<int64_t>& indptr = out.tensors.indptr->shape;
    // The client chose the extent: it may be 0.
    if (csr.row_count() < 0 || indptr.size() != 1 || indptr[0] < 1 || indptr[0] - 1 != csr.row_count()) {
      return InvalidArgument("BAD_FEATURES", prefix + ".csr.row_count",
                             absl::StrCat(prefix, ".csr.row_count is ", csr.row_count(), ", but indptr has the shape ",
                                          ShapeToString(indptr), "; it must be [row_count + 1]"));
    }
  } else {
    return InvalidArgument("BAD_FEATURES", field, absl::StrCat(prefix, " is empty; it must have `dense` or `csr`"));
  }
  out.rows.assign(features.rows().begin(), features.rows().end());
  return out;
}

StatusOr<ExecutionOptions> FromProto(const v1::ExecutionOptions& options) {
  ExecutionOptions out;
  out.kernels = ForcedKernels(options.kernels().begin(), options.kernels().end());
  VICINAL_ASSIGN_OR_RETURN(out.receptive_field, ReceptiveFieldOf(options.receptive_field()));
  VICINAL_ASSIGN_OR_RETURN(out.precision, PrecisionOf(options.precision()));
  VICINAL_ASSIGN_OR_RETURN(out.product_precision, ProductPrecisionOf(options.product_precision()));
  return out;
}

StatusOr<Priority> PriorityOf(const v1::ExecutionOptions& options, bool interactive_allowed) {
  switch (options.priority()) {
    case v1::PRIORITY_UNSPECIFIED:
      return interactive_allowed ? Priority::kInteractive : Priority::kBatch;
    case v1::PRIORITY_BATCH:
      return Priority::kBatch;
    case v1::PRIORITY_INTERACTIVE:
      if (interactive_allowed) return Priority::kInteractive;
      break;
    default:
      return InvalidArgument("BAD_EXECUTION", "execution.priority",
                             absl::StrCat("execution.priority is ", static_cast<int>(options.priority()),
                                          ", which this server does not know"));
  }
  ErrorDetail detail;
  detail.reason = "PRIORITY_NOT_ALLOWED";
  detail.field = "execution.priority";
  return MakeError(StatusCode::kPermissionDenied,
                   "the caller has the role batch, which has no right to interactive requests; leave priority out",
                   detail);
}

google::protobuf::Timestamp ToProto(WallTime time) {
  const int64_t ns = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  google::protobuf::Timestamp timestamp;
  // Rounded down, so that the nanoseconds are never negative.
  const int64_t seconds = ns / 1'000'000'000 - (ns % 1'000'000'000 < 0 ? 1 : 0);
  timestamp.set_seconds(seconds);
  timestamp.set_nanos(static_cast<int32_t>(ns - seconds * 1'000'000'000));
  return timestamp;
}

v1::Reorder ToProto(OrderKind order) {
  switch (order) {
    case OrderKind::kAuto:
      return v1::REORDER_AUTO;
    case OrderKind::kNone:
      return v1::REORDER_NONE;
    case OrderKind::kDegree:
      return v1::REORDER_DEGREE;
    case OrderKind::kRcm:
      return v1::REORDER_RCM;
    case OrderKind::kCommunity:
      return v1::REORDER_COMMUNITY;
    case OrderKind::kMetis:
      return v1::REORDER_METIS;
  }
  return v1::REORDER_UNSPECIFIED;
}

v1::GraphPicture ToProto(const GraphPicture& picture) {
  v1::GraphPicture out;
  out.set_name(picture.graph);
  out.set_version(picture.version);
  out.set_node_count(picture.node_count);
  out.set_edge_count(picture.edge_count);
  out.set_order(std::string(ToString(picture.order)));
  out.mutable_degree_counts()->Add(picture.degree_counts.begin(), picture.degree_counts.end());
  out.set_tiles(picture.side);
  out.set_row_stride(picture.row_stride);
  out.mutable_before()->Add(picture.before.begin(), picture.before.end());
  out.mutable_after()->Add(picture.after.begin(), picture.after.end());
  return out;
}

v1::Graph ToProto(const GraphResource& graph) {
  v1::Graph out;
  out.set_name(graph.name);
  out.set_state(StateOf(graph.state));
  out.set_progress(graph.state == GraphState::kReady ? 1.0 : graph.progress);
  if (!graph.error.ok()) {
    out.set_error_code(static_cast<int32_t>(graph.error.code()));
    out.set_error_message(std::string(graph.error.message()));
  }
  out.set_node_count(graph.node_count);
  out.set_edge_count(graph.edge_count);
  out.set_incarnation(graph.incarnation);
  out.set_preparing_version(graph.preparing_version);
  if (graph.serving) SetServing(*graph.serving, &out);
  for (const FeatureSetResource& set : graph.feature_sets) *out.add_feature_sets() = ToProto(set);
  return out;
}

v1::FeatureSet ToProto(const FeatureSetResource& set) {
  v1::FeatureSet out;
  out.set_graph(set.graph);
  out.set_name(set.name);
  out.set_version(set.version);
  out.set_node_count(set.node_count);
  out.set_feature_count(set.feature_count);
  out.set_sparse(set.sparse);
  out.set_entry_count(set.entry_count);
  out.set_size_bytes(set.size_bytes);
  out.set_source_digest(set.source_digest);
  SetDurability(set, &out);
  *out.mutable_create_time() = ToProto(set.create_time);
  return out;
}

v1::Model ToProto(const ModelResource& model) {
  v1::Model out;
  out.set_name(model.name);
  out.set_version(model.version);
  out.set_feature_count(model.feature_count);
  out.set_class_count(model.class_count);
  out.set_graph_level(model.graph_level);
  out.set_multi_label(model.multi_label);
  out.set_uses_edge_weight(model.uses_edge_weight);
  out.set_edge_feature_width(model.edge_feature_width);
  if (!model.decoder.empty()) {
    out.mutable_decoder()->set_type(model.decoder);
    out.mutable_decoder()->set_output(model.decoder_output);
    out.mutable_decoder()->set_relation_count(model.decoder_relations);
  }
  for (const LayerInfo& layer : model.layers) {
    v1::Layer* entry = out.add_layers();
    entry->set_name(layer.name);
    entry->set_type(layer.type);
    entry->set_arguments_json(layer.arguments_json);
    entry->set_tensor_prefix(layer.tensor_prefix);
    for (const std::string& input : layer.inputs) entry->add_inputs(input);
    entry->set_locality(std::string(ToString(layer.locality)));
    entry->set_width(layer.width);
  }
  for (const std::string& output : model.outputs) out.add_outputs(output);
  out.set_parameter_count(model.parameter_count);
  out.set_size_bytes(model.size_bytes);
  out.set_reference_checked(model.reference_checked);
  out.set_reference_error(model.reference_error);
  out.set_incarnation(model.incarnation);
  out.set_source_digest(model.source_digest);
  SetDurability(model, &out);
  *out.mutable_create_time() = ToProto(model.create_time);
  return out;
}

v1::ServedBy ToProto(const ServedBy& served_by) {
  v1::ServedBy out;
  out.set_graph(served_by.graph);
  out.set_graph_version(served_by.graph_version);
  out.set_model(served_by.model);
  out.set_model_version(served_by.model_version);
  out.set_feature_set(served_by.feature_set);
  out.set_feature_set_version(served_by.feature_set_version);
  out.set_numerics_revision(served_by.numerics_revision);
  out.set_incarnation(served_by.incarnation);
  return out;
}

v1::ExplainResponse ToProto(const Explanation& explanation) {
  v1::ExplainResponse out;
  *out.mutable_served_by() = ToProto(explanation.served_by);
  for (size_t i = 0; i < explanation.steps.size(); ++i) {
    const PlanStepInfo& step = explanation.steps[i];
    v1::PlanStep* entry = out.add_steps();
    entry->set_operation(step.operation);
    entry->set_layers(step.layers);
    entry->set_description(step.description);
    entry->set_locality(std::string(ToString(step.locality)));
    entry->set_kernel(step.kernel);
    for (const KernelRefusal& refusal : step.refusals) {
      v1::Refusal* refused = entry->add_refusals();
      refused->set_kernel(refusal.kernel);
      refused->set_reason(refusal.reason);
    }
    entry->set_predicted_bytes(step.predicted_bytes);
    entry->set_predicted_operations(step.predicted_operations);
    entry->set_run_count(step.run_count);
    entry->set_mean_seconds(step.run_count > 0 ? step.total_seconds / static_cast<double>(step.run_count) : 0.0);
    entry->set_receptive_field_run_count(step.receptive_field_run_count);
    entry->set_receptive_field_mean_seconds(step.receptive_field_run_count > 0
                                                ? step.receptive_field_total_seconds /
                                                      static_cast<double>(step.receptive_field_run_count)
                                                : 0.0);
    if (i < explanation.tuning.size() && explanation.tuning[i])
      *entry->mutable_tuning() = ToProto(*explanation.tuning[i]);
  }
  for (const std::string& decision : explanation.decisions) out.add_decisions(decision);
  out.set_scratch_bytes(explanation.scratch_bytes);
  out.set_whole_scratch_bytes(explanation.whole_scratch_bytes);
  out.set_tiled_scratch_bytes(explanation.tiled_scratch_bytes);
  if (explanation.links) {
    v1::LinkScoring* const links = out.mutable_links();
    links->set_decoder(explanation.links->decoder);
    links->set_output(explanation.links->output);
    links->set_width(explanation.links->width);
    links->set_operations_per_pair(explanation.links->operations_per_pair);
    links->set_kernel(explanation.links->kernel);
  }
  out.set_order(explanation.order);
  out.set_device(explanation.device);
  return out;
}

StatusOr<LinkDecoder> FromProto(v1::LinkDecoder decoder) {
  switch (decoder) {
    case v1::LINK_DECODER_UNSPECIFIED:
      return LinkDecoder::kDefault;
    case v1::LINK_DECODER_MODEL:
      return LinkDecoder::kModel;
    case v1::LINK_DECODER_DOT:
      return LinkDecoder::kDot;
    case v1::LINK_DECODER_COSINE:
      return LinkDecoder::kCosine;
    default:
      return InvalidArgument("BAD_DECODER", "decoder",
                             absl::StrCat("decoder is ", static_cast<int>(decoder),
                                          ", which this server does not know; use MODEL, DOT or COSINE"));
  }
}

void SetTensor(const float* values, int64_t rows, int64_t cols, v1::Tensor* tensor) {
  SetTensorOf(v1::DATA_TYPE_FLOAT32, values, rows, cols, tensor);
}

void SetTensor(const int32_t* values, int64_t rows, int64_t cols, v1::Tensor* tensor) {
  SetTensorOf(v1::DATA_TYPE_INT32, values, rows, cols, tensor);
}

void SetTensor(const int64_t* values, int64_t rows, int64_t cols, v1::Tensor* tensor) {
  SetTensorOf(v1::DATA_TYPE_INT64, values, rows, cols, tensor);
}

}  // namespace vicinal::server
