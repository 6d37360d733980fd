// SPDX-License-Identifier: Apache-2.0
#include "engine/base/tensor.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/error.h"

namespace vicinal {
namespace {

absl::string_view AbslView(std::string_view s) { return absl::string_view(s.data(), s.size()); }

template <class T>
T Load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

Status WrongType(const TensorView& tensor, std::string_view name, const char* wanted) {
  return InvalidArgument(
      "WRONG_TYPE", name,
      absl::StrCat(AbslView(name), " is ", AbslView(ToString(tensor.dtype)), "; it must be ", wanted));
}

}  // namespace

int64_t SizeOf(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat32:
    case DataType::kInt32:
      return 4;
    case DataType::kFloat16:
    case DataType::kBFloat16:
      return 2;
    case DataType::kInt64:
      return 8;
    case DataType::kUint8:
      return 1;
  }
  return 1;
}

std::string_view ToString(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat32:
      return "float32";
    case DataType::kFloat16:
      return "float16";
    case DataType::kBFloat16:
      return "bfloat16";
    case DataType::kInt32:
      return "int32";
    case DataType::kInt64:
      return "int64";
    case DataType::kUint8:
      return "uint8";
  }
  return "unknown";
}

std::string ShapeToString(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

StatusOr<int64_t> ElementCount(const TensorView& tensor, std::string_view name) {
  int64_t count = 1;
  for (const int64_t extent : tensor.shape) {
    if (extent < 0) {
      return InvalidArgument(
          "BAD_SHAPE", name,
          absl::StrCat(AbslView(name), " has shape ", ShapeToString(tensor.shape), ": an extent is negative"));
    }
    if (extent > 0 && count > std::numeric_limits<int64_t>::max() / 8 / extent) {
      return InvalidArgument("BAD_SHAPE", name,
                             absl::StrCat(AbslView(name), " has shape ", ShapeToString(tensor.shape), ": too large"));
    }
    count *= extent;
  }
  return count;
}

StatusOr<int64_t> CheckBytes(const TensorView& tensor, std::string_view name) {
  VICINAL_ASSIGN_OR_RETURN(const int64_t count, ElementCount(tensor, name));
  const int64_t expected = count * SizeOf(tensor.dtype);
  if (static_cast<int64_t>(tensor.bytes.size()) != expected) {
    return InvalidArgument(
        "TENSOR_SIZE_MISMATCH", name,
        absl::StrCat(AbslView(name), " has ", tensor.bytes.size(), " bytes, but ", AbslView(ToString(tensor.dtype)),
                     " ", ShapeToString(tensor.shape), " needs ", expected));
  }
  return count;
}

void DecodeFloats(const TensorView& tensor, int64_t begin, int64_t count, float* out) {
  const char* data = tensor.bytes.data() + begin * SizeOf(tensor.dtype);
  switch (tensor.dtype) {
    case DataType::kFloat16:
      for (int64_t i = 0; i < count; ++i) out[i] = HalfToFloat(Load<uint16_t>(data + 2 * i));
      return;
    case DataType::kBFloat16:
      for (int64_t i = 0; i < count; ++i) out[i] = BFloat16ToFloat(Load<uint16_t>(data + 2 * i));
      return;
    default:
      if (count > 0) std::memcpy(out, data, count * sizeof(float));
  }
}

StatusOr<std::vector<float>> ToFloats(const TensorView& tensor, std::string_view name) {
  VICINAL_ASSIGN_OR_RETURN(const int64_t count, CheckBytes(tensor, name));
  if (tensor.dtype != DataType::kFloat32 && tensor.dtype != DataType::kFloat16 && tensor.dtype != DataType::kBFloat16) {
    return WrongType(tensor, name, "float32, float16 or bfloat16");
  }
  std::vector<float> values(count);
  DecodeFloats(tensor, 0, count, values.data());
  return values;
}

StatusOr<std::vector<int64_t>> ToInts(const TensorView& tensor, std::string_view name) {
  VICINAL_ASSIGN_OR_RETURN(const int64_t count, CheckBytes(tensor, name));
  const char* data = tensor.bytes.data();
  std::vector<int64_t> values(count);
  switch (tensor.dtype) {
    case DataType::kInt64:
      if (count > 0) std::memcpy(values.data(), data, count * sizeof(int64_t));
      return values;
    case DataType::kInt32:
      for (int64_t i = 0; i < count; ++i) values[i] = Load<int32_t>(data + 4 * i);
      return values;
    default:
      return WrongType(tensor, name, "int32 or int64");
  }
}

Status CheckFinite(const float* values, int64_t count, int64_t cols, std::string_view name, int64_t first_row) {
  for (int64_t i = 0; i < count; ++i) {
    if (std::isfinite(values[i])) continue;
    const std::string at = cols > 0 ? absl::StrCat(AbslView(name), "[", first_row + i / cols, ", ", i % cols, "]")
                                    : absl::StrCat(AbslView(name), "[", i, "]");
    return InvalidArgument("NOT_FINITE", name, absl::StrCat(at, " is ", values[i], "; every value must be finite"));
  }
  return OkStatus();
}

float HalfToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1Fu;
  const uint32_t mantissa = bits & 0x3FFu;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  // Zero and subnormals: mantissa * 2^-24, exact in float32.
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(static_cast<float>(mantissa) * 0x1p-24f));
}

float BFloat16ToFloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

}  // namespace vicinal
