// SPDX-License-Identifier: Apache-2.0
// What replies to requests for inference carry, as messages of the API.
#ifndef VICINAL_SERVER_CONVERT_REPLIES_H_
#define VICINAL_SERVER_CONVERT_REPLIES_H_

#include <cstdint>

#include "engine/api/requests.h"
#include "engine/api/resources.h"
#include "vicinal/v1/inference.pb.h"
#include "vicinal/v1/server.pb.h"

namespace vicinal::server {

v1::ServedBy ToProto(const ServedBy& served_by);
v1::ExplainResponse ToProto(const Explanation& explanation);

// A tensor [rows, cols] of the row-major values at `values`.
void SetTensor(const float* values, int64_t rows, int64_t cols, v1::Tensor* tensor);
void SetTensor(const int32_t* values, int64_t rows, int64_t cols, v1::Tensor* tensor);
void SetTensor(const int64_t* values, int64_t rows, int64_t cols, v1::Tensor* tensor);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_CONVERT_REPLIES_H_
