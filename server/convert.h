// SPDX-License-Identifier: Apache-2.0
// Converts between the API's messages and the engine's types. Views reference the message they came from, which must
// outlive them. Errors are INVALID_ARGUMENT with the field.
#ifndef VICINAL_SERVER_CONVERT_H_
#define VICINAL_SERVER_CONVERT_H_

#include <string_view>

#include "engine/api/engine.h"
#include "engine/api/links.h"
#include "engine/base/status.h"
#include "google/protobuf/timestamp.pb.h"
#include "vicinal/v1/graph.pb.h"
#include "vicinal/v1/inference.pb.h"
#include "vicinal/v1/model.pb.h"
#include "vicinal/v1/server.pb.h"

namespace vicinal::server {

StatusOr<DataType> FromProto(v1::DataType dtype, std::string_view field);
// Unspecified: kAuto. FAILED_PRECONDITION: an order that this build does not support.
StatusOr<OrderKind> FromProto(v1::Reorder reorder);
StatusOr<TensorView> View(const v1::Tensor& tensor, std::string_view field);
// Checks names against the grammar; versions must not be negative. An empty `feature_set` means "default".
Status FillTarget(const v1::Target& target, InferenceRequest* request);
StatusOr<RequestFeatures> FromProto(const v1::FeatureInput& features, std::string_view field);
StatusOr<LinkDecoder> FromProto(v1::LinkDecoder decoder);
// All options but `output`, which is not part of the message. The only place where they are parsed; whether a kernel
// exists and supports the work is checked by the engine.
StatusOr<ExecutionOptions> FromProto(const v1::ExecutionOptions& options);
// The priority asked for, or the best one that the caller may have. PERMISSION_DENIED (PRIORITY_NOT_ALLOWED).
StatusOr<Priority> PriorityOf(const v1::ExecutionOptions& options, bool interactive_allowed);
// INVALID_ARGUMENT unless `name` is in the grammar.
Status CheckName(std::string_view name, std::string_view field);
// Likewise for the id of an upload.
Status CheckUploadId(std::string_view id, std::string_view field);

google::protobuf::Timestamp ToProto(WallTime time);
v1::Reorder ToProto(OrderKind order);
v1::Graph ToProto(const GraphResource& graph);
v1::GraphPicture ToProto(const GraphPicture& picture);
v1::FeatureSet ToProto(const FeatureSetResource& set);
v1::Model ToProto(const ModelResource& model);
v1::ServedBy ToProto(const ServedBy& served_by);
v1::ExplainResponse ToProto(const Explanation& explanation);

// A tensor [rows, cols] of the row-major values at `values`.
void SetTensor(const float* values, int64_t rows, int64_t cols, v1::Tensor* tensor);
void SetTensor(const int32_t* values, int64_t rows, int64_t cols, v1::Tensor* tensor);
void SetTensor(const int64_t* values, int64_t rows, int64_t cols, v1::Tensor* tensor);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_CONVERT_H_
