// SPDX-License-Identifier: Apache-2.0
// Slicing a CSR matrix by rows: its row pointers are shifted to start at 0, entries are copied as bytes.
#include "client/cpp/cli/tensors.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/cpp/errors.h"
#include "proto/wire/tensors.h"

namespace vicinal::client::cli {
namespace {

v1::DataType WireType(ElementType type) {
  switch (type) {
    case ElementType::kFloat16:
      return v1::DATA_TYPE_FLOAT16;
    case ElementType::kFloat32:
      return v1::DATA_TYPE_FLOAT32;
    case ElementType::kInt32:
      return v1::DATA_TYPE_INT32;
    case ElementType::kInt64:
      return v1::DATA_TYPE_INT64;
    default:
      return v1::DATA_TYPE_UNSPECIFIED;
  }
}

// Elements [first, first + count) of a one-dimensional array, or rows of a matrix.
v1::Tensor Slice(const Array& array, int64_t first, int64_t count, std::vector<int64_t> shape) {
  int64_t element = SizeOf(array.type);
  for (size_t d = 1; d < shape.size(); ++d) element *= shape[d];
  v1::Tensor tensor;
  tensor.set_dtype(WireType(array.type));
  for (const int64_t extent : shape) tensor.add_shape(extent);
  tensor.set_data(array.data.data() + first * element, static_cast<size_t>(count * element));
  return tensor;
}

}  // namespace

UploadTensor ToUploadTensor(const std::string& name, const Array& array) {
  return {name, WireType(array.type), array.shape, array.data};
}

v1::Tensor ToMessage(const Array& array) {
  v1::Tensor tensor;
  tensor.set_dtype(WireType(array.type));
  for (const int64_t extent : array.shape) tensor.add_shape(extent);
  tensor.set_data(array.data);
  return tensor;
}

UploadTensor FileTensor(const std::string& name, const std::string& bytes) {
  return {name, v1::DATA_TYPE_UINT8, {static_cast<int64_t>(bytes.size())}, bytes};
}

std::vector<UploadTensor> FeatureTensors(const Features& features) {
  if (!features.sparse) return {ToUploadTensor("x", features.dense)};
  return {ToUploadTensor("x_indptr", features.indptr), ToUploadTensor("x_indices", features.indices),
          ToUploadTensor("x_values", features.values)};
}

v1::FeatureInput ToFeatureInput(const Features& features) { return ToFeatureInput(features, 0, features.rows); }

v1::FeatureInput ToFeatureInput(const Features& features, int64_t first, int64_t count) {
  v1::FeatureInput input;
  if (!features.sparse) {
    *input.mutable_dense() = Slice(features.dense, first, count, {count, features.columns});
    return input;
  }
  std::vector<int64_t> indptr(static_cast<size_t>(count) + 1);
  std::memcpy(indptr.data(), features.indptr.data.data() + first * sizeof(int64_t), indptr.size() * sizeof(int64_t));
  const int64_t begin = indptr.front(), end = indptr.back();
  for (int64_t& at : indptr) at -= begin;
  v1::CsrMatrix* csr = input.mutable_csr();
  csr->set_row_count(count);
  csr->set_column_count(features.columns);
  *csr->mutable_indptr() = wire::MakeTensor(indptr.data(), {count + 1});
  *csr->mutable_indices() = Slice(features.indices, begin, end - begin, {end - begin});
  *csr->mutable_values() = Slice(features.values, begin, end - begin, {end - begin});
  return input;
}

absl::StatusOr<Array> ToArray(const v1::Tensor& tensor) {
  const absl::Status status = wire::CheckTensor(tensor);
  if (!status.ok()) {
    return CallError(absl::StatusCode::kInternal, absl::StrCat("the server's answer: ", status.message()));
  }
  Array array;
  array.shape = wire::ShapeOf(tensor);
  array.data = tensor.data();
  if (tensor.dtype() == v1::DATA_TYPE_FLOAT32) {
    array.type = ElementType::kFloat32;
  } else if (tensor.dtype() == v1::DATA_TYPE_INT32) {
    array.type = ElementType::kInt32;
  } else if (tensor.dtype() == v1::DATA_TYPE_INT64) {
    array.type = ElementType::kInt64;
  } else {
    return CallError(absl::StatusCode::kInternal, "the server's answer contains a tensor of an unexpected type");
  }
  return array;
}

}  // namespace vicinal::client::cli
