// SPDX-License-Identifier: Apache-2.0
// Feature matrices out of tensors, dense and CSR; each fault is named; permuted rows against a plain lookup.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "engine/graph/validate.h"
#include "tests/engine/graph/graph_testing.h"

namespace vicinal {
namespace {

using testing::Bytes;
using testing::ExpectRefused;
using testing::FloatTensor;
using testing::Int32Tensor;
using testing::Int64Tensor;

StatusOr<HostFeatures> DenseRows(const HostTensor& x, int64_t rows, std::string_view field = "") {
  FeatureTensors tensors;
  tensors.dense = x.view();
  return AssembleFeatures(tensors, rows, field);
}

// [3, 4]: row 0 has columns 1 and 3, row 1 none, row 2 column 0.
struct SparseTensors {
  HostTensor indptr = Int64Tensor({4}, {0, 2, 2, 3});
  HostTensor indices = Int32Tensor({3}, {1, 3, 0});
  HostTensor values = FloatTensor({3}, {0.5f, -1.0f, 2.0f});
  int64_t feature_count = 4;

  StatusOr<HostFeatures> Assemble(int64_t rows = 3, std::string_view field = "") const {
    FeatureTensors tensors;
    tensors.indptr = indptr.view();
    tensors.indices = indices.view();
    tensors.values = values.view();
    tensors.feature_count = feature_count;
    return AssembleFeatures(tensors, rows, field);
  }
};

TEST(AssembleFeatures, ConvertsEachFloatTypeExactly) {
  const std::vector<float> expected = {1.0f, -0.5f, 0.0f, 65504.0f};
  const HostTensor half = {DataType::kFloat16, {2, 2}, Bytes<uint16_t>({0x3C00, 0xB800, 0x0000, 0x7BFF})};
  const auto from_half = DenseRows(half, 2);
  ASSERT_TRUE(from_half.ok()) << from_half.status();
  EXPECT_EQ(from_half->dense, expected);
  const HostTensor bfloat = {DataType::kBFloat16, {1, 3}, Bytes<uint16_t>({0x3F80, 0xBF00, 0x4049})};
  const auto from_bfloat = DenseRows(bfloat, 1);
  ASSERT_TRUE(from_bfloat.ok());
  EXPECT_EQ(from_bfloat->dense, (std::vector<float>{1.0f, -0.5f, 3.140625f}));
  const auto from_float = DenseRows(FloatTensor({2, 2}, expected), -1);
  ASSERT_TRUE(from_float.ok());
  EXPECT_EQ(from_float->dense, expected);
  EXPECT_EQ(from_float->rows, 2);
  EXPECT_EQ(from_float->cols, 2);
  EXPECT_FALSE(from_float->sparse);
}

TEST(AssembleFeatures, NamesTheFaultOfDense) {
  ExpectRefused(DenseRows(FloatTensor({2, 1}, {1, 1}), 3), "x", "x has 2 rows, but 3 are needed");
  ExpectRefused(DenseRows(FloatTensor({2, 0}, {}), 2), "x", "x says 0 features");
  ExpectRefused(DenseRows(FloatTensor({2}, {1, 1}), 2), "x", "it must have 2 dimensions");
  ExpectRefused(DenseRows(FloatTensor({2, 2}, {1, 1, 1}), 2), "x", "has 12 bytes, but float32 [2, 2] needs 16");
  ExpectRefused(DenseRows(Int32Tensor({1, 1}, {1}), 1), "x", "x is int32; it must be float32, float16 or bfloat16");
  ExpectRefused(DenseRows(FloatTensor({2, 2}, {1, 1, NAN, 1}), 2), "x", "x[1, 0] is nan");
  const HostTensor infinite_half = {DataType::kFloat16, {1, 2}, Bytes<uint16_t>({0x3C00, 0x7C00})};
  ExpectRefused(DenseRows(infinite_half, 1, "features"), "features.dense", "features.dense[0, 1] is inf");
}

// Without a copy of all: the same verdicts, and the same rows in another order.
TEST(CheckDenseFeatures, SaysWhatAssemblingSays) {
  const HostTensor bad[] = {FloatTensor({2, 1}, {1, 1}),          FloatTensor({3, 0}, {}),
                            FloatTensor({3}, {1, 1, 1}),          FloatTensor({3, 2}, {1, 1, 1}),
                            Int32Tensor({3, 1}, {1, 1, 1}),       FloatTensor({3, 2}, {1, 1, 1, 1, 1, NAN}),
                            FloatTensor({3, 1}, {1, INFINITY, 1})};
  for (const HostTensor& x : bad) {
    FeatureTensors tensors;
    tensors.dense = x.view();
    const Status checked = CheckDenseFeatures(tensors, 3, "features").status();
    EXPECT_EQ(checked, DenseRows(x, 3, "features").status());
    EXPECT_EQ(checked.code(), StatusCode::kInvalidArgument);
  }
  const HostTensor x = FloatTensor({3, 2}, {1, 2, 3, 4, 5, 6});
  FeatureTensors tensors;
  tensors.dense = x.view();
  const auto shape = CheckDenseFeatures(tensors, 3, "");
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->rows, 3);
  EXPECT_EQ(shape->cols, 2);
  const HostTensor indices = Int32Tensor({1}, {0});
  tensors.indices = indices.view();
  ExpectRefused(CheckDenseFeatures(tensors, 3, ""), "x", "send one of them");
}

TEST(WriteRows, ConvertsAndPermutes) {
  const HostTensor half = {
      DataType::kFloat16, {3, 2}, Bytes<uint16_t>({0x3C00, 0xB800, 0x0000, 0x7BFF, 0x4000, 0x4200})};
  std::vector<float> rows(6, NAN);
  WriteRows(half.view(), {}, rows.data());
  EXPECT_EQ(rows, (std::vector<float>{1.0f, -0.5f, 0.0f, 65504.0f, 2.0f, 3.0f}));
  WriteRows(half.view(), {2, 0, 1}, rows.data());
  EXPECT_EQ(rows, (std::vector<float>{0.0f, 65504.0f, 2.0f, 3.0f, 1.0f, -0.5f}));
}

std::vector<NodeId> SomeOrder(int64_t count, unsigned seed) {
  std::vector<NodeId> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  return order;
}

TEST(TakeRows, WritesWhatWriteRowsDoes) {
  const std::pair<int64_t, int64_t> shapes[] = {{1, 1}, {5, 0}, {3, 400'000}, {2, 262'145}, {1000, 7}, {40'000, 33}};
  for (const auto& [rows, cols] : shapes) {
    for (const DataType type : {DataType::kFloat32, DataType::kFloat16}) {
      HostTensor x = {type, {rows, cols}, std::string(static_cast<size_t>(rows * cols * SizeOf(type)), '\0')};
      std::mt19937 random(static_cast<unsigned>(rows + cols));
      // Small exponents: any such bytes are finite numbers.
      for (char& byte : x.bytes) byte = static_cast<char>(random() & 0x3f);
      for (const std::vector<NodeId>& order : {std::vector<NodeId>(), SomeOrder(rows, 1), SomeOrder(rows, 2)}) {
        std::vector<float> expected(static_cast<size_t>(rows * cols), NAN), taken = expected;
        WriteRows(x.view(), order, expected.data());
        HostTensor given = x;
        TakeRows(given.view(), order, taken.data());
        EXPECT_EQ(taken, expected) << rows << " x " << cols;
      }
    }
  }
}

TEST(TakeRows, GivesTheMemoryBackAsItReads) {
  constexpr int64_t kRows = 4096, kCols = 1024, kBytes = kRows * kCols * 4;
  HostTensor x = {DataType::kFloat32, {kRows, kCols}, std::string(kBytes, '\1')};
  std::vector<float> rows(kRows * kCols);
  TakeRows(x.view(), {}, rows.data());
  EXPECT_EQ(std::count(x.bytes.begin(), x.bytes.end(), '\1') * 1000 / kBytes, 0) << "but for the ends";
}

TEST(AssembleFeatures, TakesCsr) {
  const auto features = SparseTensors().Assemble();
  ASSERT_TRUE(features.ok()) << features.status();
  EXPECT_TRUE(features->sparse);
  EXPECT_EQ(features->rows, 3);
  EXPECT_EQ(features->cols, 4);
  EXPECT_EQ(features->csr.row_ptr, (std::vector<EdgeId>{0, 2, 2, 3}));
  EXPECT_EQ(features->csr.col, (std::vector<NodeId>{1, 3, 0}));
  EXPECT_EQ(features->csr.value, (std::vector<float>{0.5f, -1.0f, 2.0f}));
  SparseTensors empty;
  empty.indptr = Int64Tensor({4}, {0, 0, 0, 0});
  empty.indices = Int32Tensor({0}, {});
  empty.values = FloatTensor({0}, {});
  EXPECT_TRUE(empty.Assemble().ok());
}

TEST(AssembleFeatures, NeedsNoValuesWhereAllAreOne) {
  SparseTensors ones;
  ones.values = FloatTensor({3}, {1, 1, 1});
  const auto features = ones.Assemble();
  ASSERT_TRUE(features.ok()) << features.status();
  EXPECT_EQ(features->csr.col, (std::vector<NodeId>{1, 3, 0}));
  EXPECT_TRUE(features->csr.value.empty());
  const HostFeatures moved = PermuteRows(*features, {2, 1, 0});
  EXPECT_EQ(moved.csr.row_ptr, (std::vector<EdgeId>{0, 1, 1, 3}));
  EXPECT_EQ(moved.csr.col, (std::vector<NodeId>{0, 1, 3}));
  EXPECT_TRUE(moved.csr.value.empty());
}

TEST(AssembleFeatures, NamesTheFaultOfIndptr) {
  const auto with = [](HostTensor indptr, int64_t rows = 3) {
    SparseTensors tensors;
    tensors.indptr = std::move(indptr);
    return tensors.Assemble(rows);
  };
  ExpectRefused(with(Int64Tensor({4}, {1, 2, 2, 3})), "x_indptr", "x_indptr[0] is 1; it must be 0");
  ExpectRefused(with(Int64Tensor({4}, {0, 2, 1, 3})), "x_indptr", "x_indptr[2] is 1, below the 2 before it");
  ExpectRefused(with(Int64Tensor({4}, {0, 2, 2, 2})), "x_indptr", "x_indptr ends with 2, but x_indices has 3 entries");
  ExpectRefused(with(Int64Tensor({4}, {0, int64_t{1} << 60, 2, 3})), "x_indptr", "x_indptr[2] is 2");
  ExpectRefused(with(Int64Tensor({3}, {0, 2, 3})), "x_indptr", "x_indptr has 2 rows, but 3 are needed");
  ExpectRefused(with(Int64Tensor({0}, {}), -1), "x_indptr", "x_indptr is empty");
  ExpectRefused(with(Int32Tensor({4}, {0, 2, 2, 3})), "x_indptr", "x_indptr is int32; it must be int64");
}

TEST(AssembleFeatures, NamesTheFaultOfColumnsAndValues) {
  SparseTensors out;
  out.indices = Int32Tensor({3}, {1, 4, 0});
  ExpectRefused(out.Assemble(), "x_indices", "x_indices[1] is 4; columns must be within 0..3");
  out.indices = Int32Tensor({3}, {-1, 3, 0});
  ExpectRefused(out.Assemble(), "x_indices", "x_indices[0] is -1");
  out.indices = Int32Tensor({3}, {3, 1, 0});
  ExpectRefused(out.Assemble(), "x_indices", "x_indices[1] is 1, after 3 in the same row 0");
  out.indices = Int32Tensor({3}, {3, 3, 0});
  ExpectRefused(out.Assemble(), "x_indices", "none twice");

  SparseTensors values;
  values.values = FloatTensor({2}, {1, 1});
  ExpectRefused(values.Assemble(), "x_values", "x_values has 2 entries, but x_indices has 3");
  values.values = FloatTensor({3}, {1, 1, INFINITY});
  ExpectRefused(values.Assemble(3, ""), "x_values", "x_values[2] is inf");

  SparseTensors width;
  for (const int64_t count : {int64_t{0}, int64_t{-5}, int64_t{1} << 31}) {
    width.feature_count = count;
    ExpectRefused(width.Assemble(), "feature_count", "feature_count says " + std::to_string(count));
  }
}

TEST(AssembleFeatures, NamesARequestsFieldsAsTheRequestDoes) {
  SparseTensors out;
  out.indptr = Int64Tensor({4}, {1, 2, 2, 3});
  ExpectRefused(out.Assemble(3, "features"), "features.csr.indptr", "features.csr.indptr[0] is 1");
  out = SparseTensors();
  out.indices = Int32Tensor({3}, {1, 4, 0});
  ExpectRefused(out.Assemble(3, "graphs.features"), "graphs.features.csr.indices",
                "graphs.features.csr.indices[1] is 4");
  out = SparseTensors();
  out.values = FloatTensor({3}, {1, 1, INFINITY});
  ExpectRefused(out.Assemble(3, "features"), "features.csr.values", "features.csr.values[2] is inf");
  out = SparseTensors();
  out.feature_count = 0;
  ExpectRefused(out.Assemble(3, "features"), "features.csr.column_count", "features.csr.column_count says 0");
}

TEST(AssembleFeatures, WantsOneFormWhole) {
  FeatureTensors tensors;
  ExpectRefused(AssembleFeatures(tensors, 3, ""), "x",
                "features must come as x, or as all of x_indptr, x_indices and x_values");
  const SparseTensors sparse;
  tensors.indptr = sparse.indptr.view();
  ExpectRefused(AssembleFeatures(tensors, 3, ""), "x", "some of these are missing");
  const HostTensor x = FloatTensor({3, 1}, {1, 2, 3});
  tensors.dense = x.view();
  ExpectRefused(AssembleFeatures(tensors, 3, ""), "x", "send one of them");
}

TEST(PermuteRows, MovesRowsOfBothForms) {
  std::mt19937 random(5);
  const int64_t rows = 40, cols = 7;
  HostFeatures dense, sparse;
  dense.rows = sparse.rows = sparse.csr.num_rows = rows;
  dense.cols = sparse.cols = sparse.csr.num_cols = cols;
  sparse.sparse = true;
  sparse.csr.row_ptr.push_back(0);
  for (int64_t i = 0; i < rows * cols; ++i) {
    const float value = random() % 3 == 0 ? static_cast<float>(i + 1) : 0.0f;
    dense.dense.push_back(value);
    if (value != 0.0f) {
      sparse.csr.col.push_back(static_cast<NodeId>(i % cols));
      sparse.csr.value.push_back(value);
    }
    if (i % cols == cols - 1) sparse.csr.row_ptr.push_back(sparse.csr.nnz());
  }
  const std::vector<NodeId> new_of_old = testing::RandomPermutation(rows, 11);
  const HostFeatures moved = PermuteRows(dense, new_of_old), moved_sparse = PermuteRows(sparse, new_of_old);
  ASSERT_EQ(moved_sparse.csr.row_ptr.size(), rows + 1);
  std::vector<float> from_sparse(rows * cols, 0.0f);
  for (int64_t row = 0; row < rows; ++row) {
    for (EdgeId e = moved_sparse.csr.row_ptr[row]; e < moved_sparse.csr.row_ptr[row + 1]; ++e) {
      from_sparse[row * cols + moved_sparse.csr.col[e]] = moved_sparse.csr.value[e];
    }
  }
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      EXPECT_EQ(moved.dense[new_of_old[row] * cols + col], dense.dense[row * cols + col]);
      EXPECT_EQ(from_sparse[new_of_old[row] * cols + col], dense.dense[row * cols + col]);
    }
  }
}

}  // namespace
}  // namespace vicinal
