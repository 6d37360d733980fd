// SPDX-License-Identifier: Apache-2.0
// Tensors from clients: a type, a shape and raw little-endian bytes that need not be aligned. The engine's counterpart
// of the API's Tensor message, so that the engine does not depend on protobuf.
#ifndef VICINAL_ENGINE_BASE_TENSOR_H_
#define VICINAL_ENGINE_BASE_TENSOR_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace vicinal {

enum class DataType { kFloat32, kFloat16, kBFloat16, kInt32, kInt64, kUint8 };

int64_t SizeOf(DataType dtype);             // bytes of one element
std::string_view ToString(DataType dtype);  // "float32", ...

// A view of a tensor. `bytes.size()` may disagree with the shape: CheckBytes reports this.
struct TensorView {
  DataType dtype = DataType::kFloat32;
  std::vector<int64_t> shape;
  std::string_view bytes;
};

// Owns a tensor.
struct HostTensor {
  DataType dtype = DataType::kFloat32;
  std::vector<int64_t> shape;
  std::string bytes;

  TensorView view() const { return {dtype, shape, bytes}; }
};

// "[2, 10]"
std::string ShapeToString(const std::vector<int64_t>& shape);

// Product of the extents. INVALID_ARGUMENT (field = `name`): one is negative, or the bytes would overflow int64.
StatusOr<int64_t> ElementCount(const TensorView& tensor, std::string_view name);

// ElementCount. INVALID_ARGUMENT (TENSOR_SIZE_MISMATCH): the number of bytes does not match type and shape.
StatusOr<int64_t> CheckBytes(const TensorView& tensor, std::string_view name);

// The elements, converted exactly: float32, float16, bfloat16 -> float. INVALID_ARGUMENT: another type, or the bytes do
// not match the shape. Does not check values (NaN is accepted).
StatusOr<std::vector<float>> ToFloats(const TensorView& tensor, std::string_view name);

// Likewise `count` elements from the one at `begin` on, to `out`. REQUIRES: such a type, and that many bytes.
void DecodeFloats(const TensorView& tensor, int64_t begin, int64_t count, float* out);

// int32, int64 -> int64_t. INVALID_ARGUMENT likewise.
StatusOr<std::vector<int64_t>> ToInts(const TensorView& tensor, std::string_view name);

// INVALID_ARGUMENT naming the first element that is NaN or infinite: "x[3, 7] is nan; ...". `cols` <= 0: a vector.
// `first_row`: of a matrix, the number of the first row of `values`.
Status CheckFinite(const float* values, int64_t count, int64_t cols, std::string_view name, int64_t first_row = 0);

float HalfToFloat(uint16_t bits);  // IEEE binary16
float BFloat16ToFloat(uint16_t bits);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_BASE_TENSOR_H_
