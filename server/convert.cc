// SPDX-License-Identifier: Apache-2.0
#include "server/convert.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "proto/wire/names.h"
#include "server/convert_resources.h"

namespace vicinal::server {
namespace {

Status CheckVersion(int64_t version, std::string_view field) {
  if (version >= 0) return OkStatus();
  return InvalidArgument(
      "BAD_VERSION", field,
      absl::StrCat(std::string(field), " is ", version, "; versions must not be negative; 0 means the latest"));
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
  VICINAL_RETURN_IF_ERROR(CheckVersion(target.edge_feature_set_version(), "target.edge_feature_set_version"));
  request->graph = target.graph();
  request->graph_version = target.graph_version();
  request->model = target.model();
  request->model_version = target.model_version();
  request->feature_set_version = target.feature_set_version();
  request->incarnation = target.incarnation();
  request->edge_feature_set_version = target.edge_feature_set_version();
  request->ids_digest = target.ids_digest();
  if (!target.edge_feature_set().empty()) {
    VICINAL_RETURN_IF_ERROR(CheckName(target.edge_feature_set(), "target.edge_feature_set"));
    request->edge_feature_set = target.edge_feature_set();
  }
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

}  // namespace vicinal::server
