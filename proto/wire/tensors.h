// SPDX-License-Identifier: Apache-2.0
// Tensors as bytes: sizes of types, making a Tensor message from an array, and looking into one. Nothing here trusts a
// message: a size that does not fit is a Status that says so.
#ifndef VICINAL_PROTO_WIRE_TENSORS_H_
#define VICINAL_PROTO_WIRE_TENSORS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "vicinal/v1/tensor.pb.h"

namespace vicinal::wire {

// Bytes of one element; 0 for a type that is not known.
int64_t SizeOf(v1::DataType dtype);
// "float32", "int64", ...; "unknown" for others.
std::string_view NameOf(v1::DataType dtype);

// product(shape) * SizeOf(dtype), or INVALID_ARGUMENT when the type is unknown, an extent is negative or it overflows
// int64.
absl::StatusOr<int64_t> ByteSize(v1::DataType dtype, const std::vector<int64_t>& shape);

// The tensor's shape as a vector, and as text: "[2, 10]".
std::vector<int64_t> ShapeOf(const v1::Tensor& tensor);
std::string ShapeToString(const std::vector<int64_t>& shape);

// Checks that `data` has exactly the bytes that dtype and shape say.
absl::Status CheckTensor(const v1::Tensor& tensor);

// Copies `count` elements into a new message. T is float, int32_t or int64_t.
template <class T>
v1::Tensor MakeTensor(const T* values, std::vector<int64_t> shape);

// The elements as a vector, converted: float32, float16, bfloat16 -> float (exactly); int32, int64 -> int64_t. Other
// types and damaged tensors are INVALID_ARGUMENT.
absl::StatusOr<std::vector<float>> ToFloats(const v1::Tensor& tensor);
absl::StatusOr<std::vector<int64_t>> ToInts(const v1::Tensor& tensor);

// The same from raw bytes: `count` elements of `dtype` at `data` (need not be aligned), converted into `out`. False
// when the type is of the other kind.
bool ConvertToFloats(v1::DataType dtype, const char* data, int64_t count, float* out);
bool ConvertToInts(v1::DataType dtype, const char* data, int64_t count, int64_t* out);

}  // namespace vicinal::wire

#endif  // VICINAL_PROTO_WIRE_TENSORS_H_
