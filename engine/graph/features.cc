// SPDX-License-Identifier: Apache-2.0
// Feature matrices out of their tensors, dense or CSR, and their rows in another order. Invariant: HostFeatures that
// are returned hold finite values and, when sparse, a CSR with unique ascending columns, without values where all
// are 1. O(entries).
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/graph/check_tensor.h"
#include "engine/graph/validate.h"

namespace vicinal {
namespace {

constexpr std::initializer_list<DataType> kFloatTypes = {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16};

// What the client calls the tensors: those of an upload by name, those of a request by their path in it.
struct Names {
  explicit Names(std::string_view request) {
    if (request.empty()) return;
    const std::string path(request);
    dense = path + ".dense";
    indptr = path + ".csr.indptr";
    indices = path + ".csr.indices";
    values = path + ".csr.values";
    feature_count = path + ".csr.column_count";
  }
  std::string dense = "x", indptr = "x_indptr", indices = "x_indices", values = "x_values";
  std::string feature_count = "feature_count";
};

Status CheckRows(int64_t rows, int64_t expected_rows, const std::string& name) {
  if (rows > std::numeric_limits<NodeId>::max()) {
    return InvalidArgument("BAD_SHAPE", name,
                           absl::StrCat(name, " has ", rows, " rows; at most ", std::numeric_limits<NodeId>::max()));
  }
  if (expected_rows < 0 || rows == expected_rows) return OkStatus();
  return InvalidArgument("ROW_COUNT_MISMATCH", name,
                         absl::StrCat(name, " has ", rows, " rows, but ", expected_rows, " are needed: one per node"));
}

Status CheckWidth(int64_t width, const std::string& name) {
  if (width >= 1 && width <= std::numeric_limits<NodeId>::max()) return OkStatus();
  return InvalidArgument("BAD_FEATURE_COUNT", name,
                         absl::StrCat(name, " says ", width, " features; there must be between 1 and ",
                                      std::numeric_limits<NodeId>::max()));
}

StatusOr<DenseShape> CheckShape(const TensorView& x, int64_t expected_rows, const Names& names) {
  VICINAL_RETURN_IF_ERROR(internal::CheckTensor(x, names.dense, kFloatTypes, 2));
  VICINAL_RETURN_IF_ERROR(CheckRows(x.shape[0], expected_rows, names.dense));
  VICINAL_RETURN_IF_ERROR(CheckWidth(x.shape[1], names.dense));
  return DenseShape{x.shape[0], x.shape[1]};
}

StatusOr<HostFeatures> AssembleDense(const TensorView& x, int64_t expected_rows, const Names& names) {
  VICINAL_ASSIGN_OR_RETURN(const DenseShape shape, CheckShape(x, expected_rows, names));
  HostFeatures features;
  features.rows = shape.rows;
  features.cols = shape.cols;
  VICINAL_ASSIGN_OR_RETURN(features.dense, ToFloats(x, names.dense));
  VICINAL_RETURN_IF_ERROR(
      CheckFinite(features.dense.data(), features.rows * features.cols, features.cols, names.dense));
  return features;
}

Status CheckIndptr(const std::vector<int64_t>& indptr, int64_t nnz, const Names& names) {
  if (indptr[0] != 0) {
    return InvalidArgument("BAD_INDPTR", names.indptr,
                           absl::StrCat(names.indptr, "[0] is ", indptr[0], "; it must be 0"));
  }
  for (size_t row = 1; row < indptr.size(); ++row) {
    if (indptr[row] >= indptr[row - 1]) continue;
    return InvalidArgument("BAD_INDPTR", names.indptr,
                           absl::StrCat(names.indptr, "[", row, "] is ", indptr[row], ", below the ", indptr[row - 1],
                                        " before it; it must not fall"));
  }
  if (indptr.back() != nnz) {
    return InvalidArgument("BAD_INDPTR", names.indptr,
                           absl::StrCat(names.indptr, " ends with ", indptr.back(), ", but ", names.indices, " has ",
                                        nnz, " entries; they must be equal"));
  }
  return OkStatus();
}

// REQUIRES: CheckIndptr passed.
Status CheckColumns(const Csr& csr, const Names& names) {
  for (int64_t row = 0; row < csr.num_rows; ++row) {
    for (int64_t at = csr.row_ptr[row]; at < csr.row_ptr[row + 1]; ++at) {
      const NodeId col = csr.col[at];
      if (col < 0 || col >= csr.num_cols) {
        return InvalidArgument(
            "COLUMN_OUT_OF_RANGE", names.indices,
            absl::StrCat(names.indices, "[", at, "] is ", col, "; columns must be within 0..", csr.num_cols - 1));
      }
      if (at > csr.row_ptr[row] && col <= csr.col[at - 1]) {
        return InvalidArgument(
            "COLUMNS_NOT_ASCENDING", names.indices,
            absl::StrCat(names.indices, "[", at, "] is ", col, ", after ", csr.col[at - 1], " in the same row ", row,
                         "; columns must ascend within a row, none twice"));
      }
    }
  }
  return OkStatus();
}

Status CheckSparseShapes(const FeatureTensors& tensors, int64_t expected_rows, const Names& names) {
  VICINAL_RETURN_IF_ERROR(internal::CheckTensor(*tensors.indptr, names.indptr, {DataType::kInt64}, 1));
  VICINAL_RETURN_IF_ERROR(internal::CheckTensor(*tensors.indices, names.indices, {DataType::kInt32}, 1));
  VICINAL_RETURN_IF_ERROR(internal::CheckTensor(*tensors.values, names.values, kFloatTypes, 1));
  if (tensors.indptr->shape[0] < 1) {
    return InvalidArgument("BAD_INDPTR", names.indptr,
                           absl::StrCat(names.indptr, " is empty; it must have one more element than there are rows"));
  }
  VICINAL_RETURN_IF_ERROR(CheckRows(tensors.indptr->shape[0] - 1, expected_rows, names.indptr));
  VICINAL_RETURN_IF_ERROR(CheckWidth(tensors.feature_count, names.feature_count));
  if (tensors.indices->shape[0] == tensors.values->shape[0]) return OkStatus();
  return InvalidArgument("COUNT_MISMATCH", names.values,
                         absl::StrCat(names.values, " has ", tensors.values->shape[0], " entries, but ", names.indices,
                                      " has ", tensors.indices->shape[0], "; they must be equal"));
}

// Bags of words are often all ones; without values a product with them reads half as much.
void DropOnes(Csr* csr) {
  const auto is_one = [](float value) { return value == 1.0f; };
  if (std::all_of(csr->value.begin(), csr->value.end(), is_one)) csr->value = {};
}

StatusOr<HostFeatures> AssembleSparse(const FeatureTensors& tensors, int64_t expected_rows, const Names& names) {
  VICINAL_RETURN_IF_ERROR(CheckSparseShapes(tensors, expected_rows, names));
  const int64_t nnz = tensors.indices->shape[0];
  HostFeatures features;
  features.sparse = true;
  features.rows = tensors.indptr->shape[0] - 1;
  features.cols = tensors.feature_count;
  features.csr.num_rows = features.rows;
  features.csr.num_cols = features.cols;
  VICINAL_ASSIGN_OR_RETURN(features.csr.row_ptr, ToInts(*tensors.indptr, names.indptr));
  VICINAL_RETURN_IF_ERROR(CheckIndptr(features.csr.row_ptr, nnz, names));
  features.csr.col.resize(nnz);
  if (nnz > 0) std::memcpy(features.csr.col.data(), tensors.indices->bytes.data(), nnz * sizeof(NodeId));
  VICINAL_RETURN_IF_ERROR(CheckColumns(features.csr, names));
  VICINAL_ASSIGN_OR_RETURN(features.csr.value, ToFloats(*tensors.values, names.values));
  VICINAL_RETURN_IF_ERROR(CheckFinite(features.csr.value.data(), nnz, 0, names.values));
  DropOnes(&features.csr);
  return features;
}

Status CheckOnce(const FeatureTensors& tensors, const Names& names) {
  if (!tensors.dense || !(tensors.indptr || tensors.indices || tensors.values)) return OkStatus();
  return InvalidArgument(
      "FEATURES_TWICE", names.dense,
      absl::StrCat("features come both as ", names.dense, " and as CSR (", names.indptr, "); send one of them"));
}

}  // namespace

StatusOr<DenseShape> CheckDenseFeatures(const FeatureTensors& tensors, int64_t expected_rows,
                                        std::string_view request) {
  const Names names(request);
  const TensorView& x = *tensors.dense;
  VICINAL_RETURN_IF_ERROR(CheckOnce(tensors, names));
  VICINAL_ASSIGN_OR_RETURN(const DenseShape shape, CheckShape(x, expected_rows, names));
  std::vector<float> row(static_cast<size_t>(shape.cols));
  for (int64_t r = 0; r < shape.rows; ++r) {
    DecodeFloats(x, r * shape.cols, shape.cols, row.data());
    VICINAL_RETURN_IF_ERROR(CheckFinite(row.data(), shape.cols, shape.cols, names.dense, r));
  }
  return shape;
}

void WriteRows(const TensorView& x, const std::vector<NodeId>& new_of_old, float* rows) {
  const int64_t count = x.shape[0], cols = x.shape[1];
  for (int64_t r = 0; r < count; ++r) {
    DecodeFloats(x, r * cols, cols, rows + (new_of_old.empty() ? r : new_of_old[r]) * cols);
  }
}

namespace {

// Elements that TakeRows copies, or carries, at once.
constexpr int64_t kBlock = kTakeRowsBytes / 4 / static_cast<int64_t>(sizeof(float));

// Gives the whole pages of [begin, end) back to the system. Returns where the rest begins.
const char* ReleasePages(const char* begin, const char* end) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const char* const from = begin + (page - reinterpret_cast<uintptr_t>(begin) % page) % page;
  const char* const to = end - reinterpret_cast<uintptr_t>(end) % page;
  if (from >= to) return begin;
  madvise(const_cast<char*>(from), static_cast<size_t>(to - from), MADV_DONTNEED);
  return to;
}

// Row r goes to new_of_old[r], in columns [begin, end): each row is carried to its place, and the one that was there
// carried on.
void PermuteInPlace(const std::vector<NodeId>& new_of_old, int64_t cols, int64_t begin, int64_t end, float* rows) {
  std::vector<bool> placed(new_of_old.size());
  std::vector<float> carried(static_cast<size_t>(end - begin));
  for (size_t start = 0; start < new_of_old.size(); ++start) {
    if (placed[start] || new_of_old[start] == static_cast<NodeId>(start)) continue;
    std::copy_n(rows + static_cast<int64_t>(start) * cols + begin, end - begin, carried.begin());
    size_t row = start;
    do {
      row = static_cast<size_t>(new_of_old[row]);
      std::swap_ranges(carried.begin(), carried.end(), rows + static_cast<int64_t>(row) * cols + begin);
      placed[row] = true;
    } while (row != start);
  }
}

}  // namespace

void TakeRows(const TensorView& x, const std::vector<NodeId>& new_of_old, float* rows) {
  const int64_t cols = x.shape[1], count = x.shape[0] * cols;
  const char* kept = x.bytes.data();
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(count, begin + kBlock);
    DecodeFloats(x, begin, end - begin, rows + begin);
    kept = ReleasePages(kept, x.bytes.data() + end * SizeOf(x.dtype));
  }
  if (new_of_old.empty()) return;
  for (int64_t begin = 0; begin < cols; begin += kBlock) {
    PermuteInPlace(new_of_old, cols, begin, std::min(cols, begin + kBlock), rows);
  }
}

StatusOr<HostFeatures> AssembleFeatures(const FeatureTensors& tensors, int64_t expected_rows,
                                        std::string_view request) {
  const Names names(request);
  const int sparse_parts = tensors.indptr.has_value() + tensors.indices.has_value() + tensors.values.has_value();
  VICINAL_RETURN_IF_ERROR(CheckOnce(tensors, names));
  if (tensors.dense) return AssembleDense(*tensors.dense, expected_rows, names);
  if (sparse_parts == 3) return AssembleSparse(tensors, expected_rows, names);
  return InvalidArgument(
      "FEATURES_MISSING", names.dense,
      absl::StrCat("features must come as ", names.dense, ", or as all of ", names.indptr, ", ", names.indices, " and ",
                   names.values, sparse_parts > 0 ? "; some of these are missing" : ""));
}

HostFeatures PermuteRows(const HostFeatures& features, const std::vector<NodeId>& new_of_old) {
  HostFeatures out;
  out.sparse = features.sparse;
  out.rows = features.rows;
  out.cols = features.cols;
  if (!features.sparse) {
    out.dense.resize(features.dense.size());
    for (int64_t row = 0; row < features.rows; ++row) {
      std::copy_n(features.dense.begin() + row * features.cols, features.cols,
                  out.dense.begin() + new_of_old[row] * features.cols);
    }
    return out;
  }
  const Csr& csr = features.csr;
  out.csr.num_rows = csr.num_rows;
  out.csr.num_cols = csr.num_cols;
  out.csr.row_ptr.assign(csr.num_rows + 1, 0);
  for (int64_t row = 0; row < csr.num_rows; ++row)
    out.csr.row_ptr[new_of_old[row] + 1] = csr.row_ptr[row + 1] - csr.row_ptr[row];
  for (int64_t row = 0; row < csr.num_rows; ++row) out.csr.row_ptr[row + 1] += out.csr.row_ptr[row];
  out.csr.col.resize(csr.col.size());
  out.csr.value.resize(csr.value.size());
  for (int64_t row = 0; row < csr.num_rows; ++row) {
    const int64_t begin = csr.row_ptr[row], count = csr.row_ptr[row + 1] - begin, to = out.csr.row_ptr[new_of_old[row]];
    std::copy_n(csr.col.begin() + begin, count, out.csr.col.begin() + to);
    if (!csr.value.empty()) std::copy_n(csr.value.begin() + begin, count, out.csr.value.begin() + to);
  }
  return out;
}

}  // namespace vicinal
