// SPDX-License-Identifier: Apache-2.0
// Uploads keep what they are given, and bring it back.
#include "engine/prepared/feature_matrix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tests/engine/plan/own_memory_device.h"
#include "tests/engine/prepared/prepared_testing.h"

namespace vicinal {
namespace {

using testing::ExpectEqual;

class FeatureMatrixTest : public ::testing::Test {
 protected:
  std::unique_ptr<Device> device_ = MakeCpuDevice(1);
};

TEST_F(FeatureMatrixTest, UploadsFeatures) {
  HostFeatures dense;
  dense.rows = 2;
  dense.cols = 3;
  dense.dense = {1, 2, 3, 4, 5, 6};
  const auto matrix = FeatureMatrix::Upload(dense, *device_);
  ASSERT_TRUE(matrix.ok());
  EXPECT_FALSE((*matrix)->sparse());
  EXPECT_EQ((*matrix)->entries(), 6);
  EXPECT_EQ((*matrix)->size_bytes(), 24);
  const ConstMatrixView view = (*matrix)->dense();
  EXPECT_EQ(view.rows, 2);
  EXPECT_EQ(view.cols, 3);
  EXPECT_EQ(view.row(1)[2], 6.0f);

  HostFeatures sparse;
  sparse.sparse = true;
  sparse.rows = sparse.csr.num_rows = 2;
  sparse.cols = sparse.csr.num_cols = 9;
  sparse.csr.row_ptr = {0, 1, 3};
  sparse.csr.col = {8, 0, 4};
  sparse.csr.value = {1, 2, 3};
  const auto sparse_matrix = FeatureMatrix::Upload(sparse, *device_);
  ASSERT_TRUE(sparse_matrix.ok());
  EXPECT_TRUE((*sparse_matrix)->sparse());
  EXPECT_EQ((*sparse_matrix)->entries(), 3);
  EXPECT_EQ((*sparse_matrix)->rows(), 2);
  EXPECT_EQ((*sparse_matrix)->cols(), 9);
  ExpectEqual((*sparse_matrix)->csr(), sparse.csr);
}

TEST_F(FeatureMatrixTest, FeaturesThatAreMadeInPartsAreTheSame) {
  testing::OwnMemoryDevice gpu;
  for (const int64_t cols : {3, 33, 64}) {
    HostFeatures dense;
    dense.rows = 50;
    dense.cols = cols;
    for (int64_t i = 0; i < dense.rows * cols; ++i) dense.dense.push_back(static_cast<float>(i) + 1.0f);
    const FillNumbers fill = [&](int64_t begin, int64_t count, float* to) {
      std::copy_n(dense.dense.data() + begin, count, to);
      return OkStatus();
    };
    for (Device* const device : {static_cast<Device*>(&gpu), device_.get()}) {
      const auto whole = FeatureMatrix::Upload(dense, *device);
      const auto made = FeatureMatrix::FillDenseInParts(dense.rows, cols, *device, fill);
      ASSERT_TRUE(whole.ok() && made.ok()) << made.status();
      EXPECT_EQ((*made)->size_bytes(), (*whole)->size_bytes());
      EXPECT_EQ((*made)->device_bytes(), (*made)->size_bytes());
      EXPECT_EQ((*made)->entries(), (*whole)->entries());
      const ConstMatrixView view = (*made)->dense(), expected = (*whole)->dense();
      ASSERT_EQ(view.stride, expected.stride);
      const testing::GuardedMemory::Opened opened(gpu.memory());
      for (int64_t i = 0; i < dense.rows * view.stride; ++i) ASSERT_EQ(view.data[i], expected.data[i]) << i;
    }
  }
}

TEST_F(FeatureMatrixTest, RowsOfFeaturesBeginAlignedOnAGpu) {
  testing::OwnMemoryDevice gpu;
  const std::pair<int64_t, int64_t> strides[] = {{3, 3},     {31, 31},   {33, 36},    {64, 64},
                                                 {127, 128}, {129, 144}, {1433, 1440}};
  for (const auto& [cols, stride] : strides) {
    HostFeatures dense;
    dense.rows = 3000;  // more than travel at once
    dense.cols = cols;
    for (int64_t i = 0; i < dense.rows * cols; ++i) dense.dense.push_back(static_cast<float>(i));
    const auto matrix = FeatureMatrix::Upload(dense, gpu);
    ASSERT_TRUE(matrix.ok());
    const ConstMatrixView view = (*matrix)->dense();
    EXPECT_EQ(view.stride, stride);
    EXPECT_EQ(view.cols, cols);
    EXPECT_EQ((*matrix)->entries(), dense.rows * cols);
    EXPECT_EQ((*matrix)->size_bytes(), dense.rows * stride * 4);
    EXPECT_EQ(FeatureMatrix::BytesOn(dense, gpu), (*matrix)->size_bytes());
    EXPECT_EQ(FeatureMatrix::BytesOn(dense, *device_), dense.rows * cols * 4);
    const testing::GuardedMemory::Opened opened(gpu.memory());
    for (int64_t r = 0; r < dense.rows; ++r) {
      ASSERT_EQ(view.row(r)[0], static_cast<float>(r * cols));
      ASSERT_EQ(view.row(r)[cols - 1], static_cast<float>((r + 1) * cols - 1));
    }
  }
}

HostFeatures DenseRows(int64_t rows, int64_t cols, float first) {
  HostFeatures dense;
  dense.rows = rows;
  dense.cols = cols;
  for (int64_t i = 0; i < rows * cols; ++i) dense.dense.push_back(first + static_cast<float>(i));
  return dense;
}

HostFeatures SparseRows(std::vector<EdgeId> row_ptr, std::vector<NodeId> col, std::vector<float> value) {
  HostFeatures sparse;
  sparse.sparse = true;
  sparse.rows = sparse.csr.num_rows = static_cast<int64_t>(row_ptr.size()) - 1;
  sparse.cols = sparse.csr.num_cols = 9;
  sparse.csr.row_ptr = std::move(row_ptr);
  sparse.csr.col = std::move(col);
  sparse.csr.value = std::move(value);
  return sparse;
}

TEST_F(FeatureMatrixTest, FeaturesComeBackToTheHostAsTheyWere) {
  testing::OwnMemoryDevice gpu;
  for (Device* const device : {static_cast<Device*>(&gpu), device_.get()}) {
    for (const int64_t cols : {3, 33, 1433}) {  // with padding, and more rows than travel at once
      const HostFeatures dense = DenseRows(3000, cols, 1);
      const auto back = (*FeatureMatrix::Upload(dense, *device))->ToHost(*device);
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_FALSE(back->sparse);
      EXPECT_EQ(back->rows, dense.rows);
      EXPECT_EQ(back->cols, cols);
      EXPECT_EQ(back->dense, dense.dense);
    }
    for (const std::vector<float>& values : {std::vector<float>{1, 2, 3}, std::vector<float>()}) {
      const HostFeatures sparse = SparseRows({0, 1, 3}, {8, 0, 4}, values);
      const auto back = (*FeatureMatrix::Upload(sparse, *device))->ToHost(*device);
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_TRUE(back->sparse);
      EXPECT_EQ(back->rows, sparse.rows);
      EXPECT_EQ(back->cols, sparse.cols);
      EXPECT_EQ(back->csr.row_ptr, sparse.csr.row_ptr);
      EXPECT_EQ(back->csr.col, sparse.csr.col);
      EXPECT_EQ(back->csr.value, sparse.csr.value);
    }
  }
}

TEST_F(FeatureMatrixTest, RowsOfSeveralMatricesStandOneAfterTheOther) {
  testing::OwnMemoryDevice gpu;
  for (const int64_t cols : {3, 33}) {  // on the GPU, rows of 33 have padding
    const auto a = FeatureMatrix::Upload(DenseRows(2, cols, 1), gpu);
    const auto b = FeatureMatrix::Upload(DenseRows(1, cols, 500), gpu);
    ASSERT_TRUE(a.ok() && b.ok());
    const auto all = FeatureMatrix::Concatenate({a->get(), b->get(), a->get()}, gpu);
    ASSERT_TRUE(all.ok()) << all.status();
    const ConstMatrixView view = (*all)->dense();
    ASSERT_EQ(view.rows, 5);
    ASSERT_EQ(view.cols, cols);
    EXPECT_EQ((*all)->size_bytes(), FeatureMatrix::BytesOn(DenseRows(5, cols, 0), gpu));
    const testing::GuardedMemory::Opened opened(gpu.memory());
    const int64_t firsts[] = {1, 1 + cols, 500, 1, 1 + cols};
    for (int64_t r = 0; r < 5; ++r) {
      for (int64_t c = 0; c < cols; ++c) ASSERT_EQ(view.row(r)[c], static_cast<float>(firsts[r] + c));
    }
  }
}

TEST_F(FeatureMatrixTest, SparseRowsOfSeveralMatricesStandOneAfterTheOther) {
  testing::OwnMemoryDevice gpu;
  const HostFeatures sparse[] = {SparseRows({0, 1, 3}, {8, 0, 4}, {1, 2, 3}), SparseRows({0, 0}, {}, {}),
                                 SparseRows({0, 2}, {5, 6}, {})};
  const HostFeatures together = SparseRows({0, 1, 3, 3, 5}, {8, 0, 4, 5, 6}, {1, 2, 3, 1, 1});
  std::vector<std::shared_ptr<const FeatureMatrix>> there, here;
  std::vector<const FeatureMatrix*> parts_there, parts_here;
  for (const HostFeatures& features : sparse) {
    there.push_back(*FeatureMatrix::Upload(features, gpu));
    here.push_back(*FeatureMatrix::Upload(features, *device_));
    parts_there.push_back(there.back().get());
    parts_here.push_back(here.back().get());
  }
  const auto on_gpu = FeatureMatrix::Concatenate(parts_there, gpu);
  const auto on_cpu = FeatureMatrix::Concatenate(parts_here, *device_);
  ASSERT_TRUE(on_gpu.ok() && on_cpu.ok());
  ExpectEqual((*on_cpu)->csr(), together.csr);
  EXPECT_EQ((*on_cpu)->size_bytes(), FeatureMatrix::BytesOn(together, *device_));
  const testing::GuardedMemory::Opened opened(gpu.memory());
  ExpectEqual((*on_gpu)->csr(), together.csr);
  EXPECT_EQ((*on_gpu)->size_bytes(), FeatureMatrix::BytesOn(together, gpu));
  EXPECT_EQ(std::vector<EdgeId>((*on_gpu)->host_row_ptr(), (*on_gpu)->host_row_ptr() + 5), together.csr.row_ptr);
  // Without a value anywhere there is none together.
  const auto plain = FeatureMatrix::Concatenate({parts_here[2], parts_here[2]}, *device_);
  ASSERT_TRUE(plain.ok());
  ExpectEqual((*plain)->csr(), SparseRows({0, 2, 4}, {5, 6, 5, 6}, {}).csr);
}

}  // namespace
}  // namespace vicinal
