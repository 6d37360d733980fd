// SPDX-License-Identifier: Apache-2.0
// Conversions element by element; bytes are read through memcpy, as they need not be aligned.
#include "client/cpp/formats/array.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/wire/tensors.h"

namespace vicinal::client {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are kept little-endian and read as they lie");

template <class From, class To>
void ConvertEach(const Array& array, std::vector<To>* out) {
  for (size_t i = 0; i < out->size(); ++i) {
    From value;
    std::memcpy(&value, array.data.data() + i * sizeof(From), sizeof(From));
    (*out)[i] = static_cast<To>(value);
  }
}

// The integer types, and bool as a byte (so that a byte that is neither 0 nor 1 is harmless).
template <class To>
void ConvertIntegers(const Array& array, std::vector<To>* out) {
  switch (array.type) {
    case ElementType::kBool:
      for (size_t i = 0; i < out->size(); ++i) (*out)[i] = static_cast<To>(array.data[i] != 0);
      return;
    case ElementType::kInt8:
      return ConvertEach<int8_t>(array, out);
    case ElementType::kUint8:
      return ConvertEach<uint8_t>(array, out);
    case ElementType::kInt16:
      return ConvertEach<int16_t>(array, out);
    case ElementType::kUint16:
      return ConvertEach<uint16_t>(array, out);
    case ElementType::kInt32:
      return ConvertEach<int32_t>(array, out);
    case ElementType::kUint32:
      return ConvertEach<uint32_t>(array, out);
    case ElementType::kInt64:
      return ConvertEach<int64_t>(array, out);
    case ElementType::kUint64:
      return ConvertEach<uint64_t>(array, out);
    default:
      return;
  }
}

}  // namespace

int64_t SizeOf(ElementType type) {
  switch (type) {
    case ElementType::kBool:
    case ElementType::kInt8:
    case ElementType::kUint8:
      return 1;
    case ElementType::kInt16:
    case ElementType::kUint16:
    case ElementType::kFloat16:
      return 2;
    case ElementType::kInt32:
    case ElementType::kUint32:
    case ElementType::kFloat32:
      return 4;
    default:
      return 8;
  }
}

std::string_view NameOf(ElementType type) {
  static constexpr std::string_view kNames[] = {"bool",   "int8",  "uint8",  "int16",   "uint16",  "int32",
                                                "uint32", "int64", "uint64", "float16", "float32", "float64"};
  return kNames[static_cast<int>(type)];
}

bool IsFloating(ElementType type) {
  return type == ElementType::kFloat16 || type == ElementType::kFloat32 || type == ElementType::kFloat64;
}

std::string ShapeToString(const std::vector<int64_t>& shape) { return wire::ShapeToString(shape); }

absl::StatusOr<int64_t> ByteSize(ElementType type, const std::vector<int64_t>& shape) {
  for (const int64_t extent : shape) {
    if (extent < 0) return absl::InvalidArgumentError(absl::StrCat("negative extent in shape ", ShapeToString(shape)));
  }
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t size = SizeOf(type);
  for (const int64_t extent : shape) {
    if (__builtin_mul_overflow(size, extent, &size)) {
      return absl::InvalidArgumentError(absl::StrCat("shape ", ShapeToString(shape), " is too large"));
    }
  }
  return size;
}

template <class T>
Array MakeArray(const std::vector<T>& values, std::vector<int64_t> shape) {
  Array array;
  array.type = std::is_same_v<T, float>     ? ElementType::kFloat32
               : std::is_same_v<T, int32_t> ? ElementType::kInt32
                                            : ElementType::kInt64;
  array.shape = std::move(shape);
  if (!values.empty()) array.data.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return array;
}

template Array MakeArray<float>(const std::vector<float>&, std::vector<int64_t>);
template Array MakeArray<int32_t>(const std::vector<int32_t>&, std::vector<int64_t>);
template Array MakeArray<int64_t>(const std::vector<int64_t>&, std::vector<int64_t>);

std::vector<float> ToFloats(const Array& array) {
  std::vector<float> values(static_cast<size_t>(array.element_count()));
  switch (array.type) {
    case ElementType::kFloat16:
      wire::ConvertToFloats(v1::DATA_TYPE_FLOAT16, array.data.data(), array.element_count(), values.data());
      break;
    case ElementType::kFloat32:
      ConvertEach<float>(array, &values);
      break;
    case ElementType::kFloat64:
      ConvertEach<double>(array, &values);
      break;
    default:
      ConvertIntegers(array, &values);
  }
  return values;
}

absl::StatusOr<std::vector<int64_t>> ToInts(const Array& array) {
  if (IsFloating(array.type)) {
    const std::string_view name = NameOf(array.type);
    return absl::InvalidArgumentError(
        absl::StrCat("must be integers, not ", absl::string_view(name.data(), name.size())));
  }
  std::vector<int64_t> values(static_cast<size_t>(array.element_count()));
  ConvertIntegers(array, &values);
  if (array.type != ElementType::kUint64) return values;
  const auto beyond = std::find_if(values.begin(), values.end(), [](int64_t value) { return value < 0; });
  if (beyond == values.end()) return values;
  return absl::InvalidArgumentError(
      absl::StrCat("element ", beyond - values.begin(), " is ", static_cast<uint64_t>(*beyond), ", beyond int64"));
}

}  // namespace vicinal::client
