// SPDX-License-Identifier: Apache-2.0
// Tensors as bytes. Values are copied with memcpy (a message's bytes are not aligned), conversions are exact, and no
// size is computed without a check against overflow.
#include "proto/wire/tensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace vicinal::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors travel little-endian and are copied as they lie");

float FromBfloat16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// Every float16 is a float32: normal numbers shift, subnormal ones are mantissa * 2^-24, NaNs keep their payload.
float FromFloat16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1F;
  const uint32_t mantissa = bits & 0x3FF;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide_exponent = exponent == 0x1F ? 0xFF : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (wide_exponent << 23) | (mantissa << 13));
}

template <class From, class To, class Function>
void ConvertEach(const char* data, int64_t count, To* out, Function function) {
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, data + i * static_cast<int64_t>(sizeof(From)), sizeof(From));
    out[i] = function(value);
  }
}

template <class T>
constexpr v1::DataType TypeOf() {
  if constexpr (std::is_same_v<T, float>) {
    return v1::DATA_TYPE_FLOAT32;
  } else if constexpr (std::is_same_v<T, int32_t>) {
    return v1::DATA_TYPE_INT32;
  } else {
    static_assert(std::is_same_v<T, int64_t>);
    return v1::DATA_TYPE_INT64;
  }
}

absl::Status WrongKind(const v1::Tensor& tensor, const char* wanted) {
  const std::string_view name = NameOf(tensor.dtype());
  return absl::InvalidArgumentError(
      absl::StrCat("a tensor of ", wanted, " is needed, not of ", absl::string_view(name.data(), name.size())));
}

}  // namespace

int64_t SizeOf(v1::DataType dtype) {
  switch (dtype) {
    case v1::DATA_TYPE_FLOAT32:
    case v1::DATA_TYPE_INT32:
      return 4;
    case v1::DATA_TYPE_FLOAT16:
    case v1::DATA_TYPE_BFLOAT16:
      return 2;
    case v1::DATA_TYPE_INT64:
      return 8;
    case v1::DATA_TYPE_UINT8:
      return 1;
    default:
      return 0;
  }
}

std::string_view NameOf(v1::DataType dtype) {
  switch (dtype) {
    case v1::DATA_TYPE_FLOAT32:
      return "float32";
    case v1::DATA_TYPE_FLOAT16:
      return "float16";
    case v1::DATA_TYPE_BFLOAT16:
      return "bfloat16";
    case v1::DATA_TYPE_INT32:
      return "int32";
    case v1::DATA_TYPE_INT64:
      return "int64";
    case v1::DATA_TYPE_UINT8:
      return "uint8";
    default:
      return "unknown";
  }
}

absl::StatusOr<int64_t> ByteSize(v1::DataType dtype, const std::vector<int64_t>& shape) {
  const int64_t element = SizeOf(dtype);
  if (element == 0) return absl::InvalidArgumentError("the tensor's type is not known");
  for (const int64_t extent : shape) {
    if (extent < 0) return absl::InvalidArgumentError(absl::StrCat("negative extent in shape ", ShapeToString(shape)));
  }
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t size = element;
  for (const int64_t extent : shape) {
    if (__builtin_mul_overflow(size, extent, &size)) {
      return absl::InvalidArgumentError(absl::StrCat("shape ", ShapeToString(shape), " is too large"));
    }
  }
  return size;
}

std::vector<int64_t> ShapeOf(const v1::Tensor& tensor) { return {tensor.shape().begin(), tensor.shape().end()}; }

std::string ShapeToString(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) absl::StrAppend(&text, i == 0 ? "" : ", ", shape[i]);
  return text + "]";
}

absl::Status CheckTensor(const v1::Tensor& tensor) {
  const std::vector<int64_t> shape = ShapeOf(tensor);
  const absl::StatusOr<int64_t> size = ByteSize(tensor.dtype(), shape);
  if (!size.ok()) return size.status();
  if (static_cast<uint64_t>(*size) != tensor.data().size()) {
    const std::string_view name = NameOf(tensor.dtype());
    return absl::InvalidArgumentError(absl::StrCat("a tensor of ", absl::string_view(name.data(), name.size()), " ",
                                                   ShapeToString(shape), " has ", *size, " bytes, but ",
                                                   tensor.data().size(), " came"));
  }
  return absl::OkStatus();
}

template <class T>
v1::Tensor MakeTensor(const T* values, const std::vector<int64_t>& shape) {
  v1::Tensor tensor;
  tensor.set_dtype(TypeOf<T>());
  int64_t count = 1;
  for (const int64_t extent : shape) {
    tensor.add_shape(extent);
    count *= extent;
  }
  tensor.set_data(reinterpret_cast<const char*>(values), static_cast<size_t>(count) * sizeof(T));
  return tensor;
}

template v1::Tensor MakeTensor<float>(const float*, const std::vector<int64_t>&);
template v1::Tensor MakeTensor<int32_t>(const int32_t*, const std::vector<int64_t>&);
template v1::Tensor MakeTensor<int64_t>(const int64_t*, const std::vector<int64_t>&);

bool ConvertToFloats(v1::DataType dtype, const char* data, int64_t count, float* out) {
  switch (dtype) {
    case v1::DATA_TYPE_FLOAT32:
      if (count > 0) std::memcpy(out, data, static_cast<size_t>(count) * sizeof(float));
      return true;
    case v1::DATA_TYPE_FLOAT16:
      ConvertEach<uint16_t>(data, count, out, FromFloat16);
      return true;
    case v1::DATA_TYPE_BFLOAT16:
      ConvertEach<uint16_t>(data, count, out, FromBfloat16);
      return true;
    default:
      return false;
  }
}

bool ConvertToInts(v1::DataType dtype, const char* data, int64_t count, int64_t* out) {
  switch (dtype) {
    case v1::DATA_TYPE_INT32:
      ConvertEach<int32_t>(data, count, out, [](int32_t value) { return static_cast<int64_t>(value); });
      return true;
    case v1::DATA_TYPE_INT64:
      if (count > 0) std::memcpy(out, data, static_cast<size_t>(count) * sizeof(int64_t));
      return true;
    default:
      return false;
  }
}

absl::StatusOr<std::vector<float>> ToFloats(const v1::Tensor& tensor) {
  absl::Status status = CheckTensor(tensor);
  if (!status.ok()) return status;
  const auto count = static_cast<int64_t>(tensor.data().size()) / SizeOf(tensor.dtype());
  std::vector<float> values(static_cast<size_t>(count));
  if (!ConvertToFloats(tensor.dtype(), tensor.data().data(), count, values.data())) {
    return WrongKind(tensor, "float32, float16 or bfloat16");
  }
  return values;
}

absl::StatusOr<std::vector<int64_t>> ToInts(const v1::Tensor& tensor) {
  absl::Status status = CheckTensor(tensor);
  if (!status.ok()) return status;
  const auto count = static_cast<int64_t>(tensor.data().size()) / SizeOf(tensor.dtype());
  std::vector<int64_t> values(static_cast<size_t>(count));
  if (!ConvertToInts(tensor.dtype(), tensor.data().data(), count, values.data())) {
    return WrongKind(tensor, "int32 or int64");
  }
  return values;
}

}  // namespace vicinal::wire
