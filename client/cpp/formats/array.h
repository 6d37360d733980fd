// SPDX-License-Identifier: Apache-2.0
// An array as it comes out of a file: element type, shape, bytes. The common currency of the readers; conversions to
// the few types that travel to the server are here. Plain values, no threads, no I/O.
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

// A dense array. Invariant kept by everything that makes one: data.size() == product(shape) * SizeOf(type),
// little-endian, row-major.
struct Array {
  ElementType type = ElementType::kFloat32;
  std::vector<int64_t> shape;
  std::string data;

  int64_t element_count() const { return static_cast<int64_t>(data.size()) / SizeOf(type); }
};

// "[2, 10]"
std::string ShapeToString(const std::vector<int64_t>& shape);

// product(shape) * SizeOf(type), or INVALID_ARGUMENT when an extent is negative or it overflows int64.
absl::StatusOr<int64_t> ByteSize(ElementType type, const std::vector<int64_t>& shape);

// Makes an array from values; shape's product must be values.size(). T: bool is not among them; int32_t, int64_t,
// float.
template <class T>
Array MakeArray(const std::vector<T>& values, std::vector<int64_t> shape);

// All elements as float: exact from float16, float32, bool, 8 and 16 bit integers; the others are rounded.
std::vector<float> ToFloats(const Array& array);

// All elements as int64. INVALID_ARGUMENT for floating types and for uint64 values beyond int64.
absl::StatusOr<std::vector<int64_t>> ToInts(const Array& array);

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_FORMATS_ARRAY_H_
