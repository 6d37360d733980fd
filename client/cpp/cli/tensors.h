// SPDX-License-Identifier: Apache-2.0
// Converts arrays of files to upload tensors (views of the arrays) and to messages (copies), and back.
#ifndef VICINAL_CLIENT_CPP_CLI_TENSORS_H_
#define VICINAL_CLIENT_CPP_CLI_TENSORS_H_

#include <string>
#include <vector>

#include "client/cpp/client.h"
#include "client/cpp/formats/graph_file.h"

namespace vicinal::client::cli {

// A view of `array`, which must outlive it. REQUIRES an element type of the API: float16, float32, int32, int64.
UploadTensor ToUploadTensor(const std::string& name, const Array& array);
v1::Tensor ToMessage(const Array& array);

// A whole file as a tensor of bytes; a view of `bytes`, which must outlive it.
UploadTensor FileTensor(const std::string& name, const std::string& bytes);

// x, or x_indptr, x_indices and x_values; views of `features`, which must outlive them.
std::vector<UploadTensor> FeatureTensors(const Features& features);
// All rows, or those of [first, first + count).
v1::FeatureInput ToFeatureInput(const Features& features);
v1::FeatureInput ToFeatureInput(const Features& features, int64_t first, int64_t count);

// A float32, int32 or int64 tensor of an answer as an array. INTERNAL: the server's tensor is malformed or has another
// type.
absl::StatusOr<Array> ToArray(const v1::Tensor& tensor);

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_TENSORS_H_
