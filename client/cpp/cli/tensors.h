// SPDX-License-Identifier: Apache-2.0
// From the arrays of files to what travels: upload tensors (which look into the arrays) and messages (which copy them).
#ifndef VICINAL_CLIENT_CPP_CLI_TENSORS_H_
#define VICINAL_CLIENT_CPP_CLI_TENSORS_H_

#include <string>
#include <vector>

#include "client/cpp/client.h"
#include "client/cpp/formats/graph_file.h"

namespace vicinal::client::cli {

// REQUIRES an element type that the wire knows: float16, float32, int32, int64. Looks into `array`, which must outlive
// it.
UploadTensor ToUploadTensor(const std::string& name, const Array& array);
v1::Tensor ToMessage(const Array& array);

// x, or x_indptr, x_indices and x_values; looks into `features`.
std::vector<UploadTensor> FeatureTensors(const Features& features);
// All rows, or those of [first, first + count).
v1::FeatureInput ToFeatureInput(const Features& features);
v1::FeatureInput ToFeatureInput(const Features& features, int64_t first, int64_t count);

// A float32 or int32 tensor of an answer as an array; INVALID_ARGUMENT when the server sent something that does not
// fit.
absl::StatusOr<Array> ToArray(const v1::Tensor& tensor);

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_TENSORS_H_
