// SPDX-License-Identifier: Apache-2.0
// An array from a file: element type, shape, bytes. All readers return this type; it converts to the few types that the
// server accepts. Plain values, no threads, no I/O.
#ifndef VICINAL_CLIENT_CPP_FORMATS_ARRAY_H_
#define VICINAL_CLIENT_CPP_FORMATS_ARRAY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace vicinal::client {

enum class ElementType {
  kBool,
  kInt8,
  kUint8,
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kFloat16,
  kFloat32,
  kFloat64,
};

// Bytes of one element.
int64_t SizeOf(ElementType type);
// "float32", "bool", ...
std::string_view NameOf(ElementType type);
bool IsFloating(ElementType type);

// A dense array, little-endian, row-major. Invariant: data.size() == product(shape) * SizeOf(type).
struct Array {
  ElementType type = ElementType::kFloat32;
  std::vector<int64_t> shape;
  std::string data;

  int64_t element_count() const { return static_cast<int64_t>(data.size()) / SizeOf(type); }
};

// "[2, 10]"
std::string ShapeToString(const std::vector<int64_t>& shape);

// product(shape) * SizeOf(type). INVALID_ARGUMENT: an extent is negative, or the product overflows int64.
absl::StatusOr<int64_t> ByteSize(ElementType type, const std::vector<int64_t>& shape);

// Makes an array from values. T: int32_t, int64_t or float. REQUIRES product(shape) == values.size().
template <class T>
Array MakeArray(const std::vector<T>& values, std::vector<int64_t> shape);

// All elements as float: exact for float16, float32, bool, 8-bit and 16-bit integers; others are rounded.
std::vector<float> ToFloats(const Array& array);

// All elements as int64. INVALID_ARGUMENT for floating types and for uint64 values beyond int64.
absl::StatusOr<std::vector<int64_t>> ToInts(const Array& array);

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_FORMATS_ARRAY_H_
