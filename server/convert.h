// SPDX-License-Identifier: Apache-2.0
// Converts what requests carry to the engine's types. Views reference the message they came from, which must outlive
// them. Errors are INVALID_ARGUMENT with the field. What replies carry: convert_resources.h, convert_replies.h,
// convert_profile.h, convert_tuning.h.
#ifndef VICINAL_SERVER_CONVERT_H_
#define VICINAL_SERVER_CONVERT_H_

#include <string_view>

#include "engine/api/engine.h"
#include "engine/api/links.h"
#include "engine/base/status.h"
#include "vicinal/v1/graph.pb.h"
#include "vicinal/v1/inference.pb.h"

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

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_CONVERT_H_
