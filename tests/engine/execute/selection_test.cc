// SPDX-License-Identifier: Apache-2.0
// Rows picked and replaced, and references held against answers.
#include "engine/execute/selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/execute/reference_check.h"
#include "tests/engine/plan/own_memory_device.h"

namespace vicinal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Message(const Status& status) { return std::string(status.message()); }

TEST(Selection, NamesTheFirstBadId) {
  EXPECT_TRUE(CheckNodeIds({0, 4, 0}, 5, "nodes.ids").ok());
  const Status above = CheckNodeIds({0, 5, -1}, 5, "nodes.ids");
  EXPECT_EQ(above.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(DetailOf(above)->field, "nodes.ids[1]");
  EXPECT_THAT(Message(above), HasSubstr("nodes.ids[1] is 5; ids of this graph are 0 to 4"));
  EXPECT_EQ(DetailOf(CheckNodeIds({-1}, 5, "nodes.ids"))->field, "nodes.ids[0]");
  EXPECT_TRUE(CheckDistinct({3, 1}, "rows").ok());
  EXPECT_EQ(DetailOf(CheckDistinct({3, 1, 3}, "rows"))->field, "rows[2]");
}

TEST(Selection, GathersInTheClientsOrder) {
  auto device = MakeCpuDevice(1);
  const auto context = device->CreateContext();
  // Rows of stride 3, width 2, in execution order: client's node 0 is row 2, 1 is row 0, 2 is row 1.
  const std::vector<float> values = {10, 11, -1, 20, 21, -1, 0, 1, -1};
  const ConstMatrixView matrix = {values.data(), 3, 2, 3};
  const Permutation permutation = Permutation::FromNewOfOld({2, 0, 1});
  const std::vector<int64_t> ids = {2, 0, 2};
  const StopCheck never = [] { return OkStatus(); };
  EXPECT_THAT(*CopyRows(matrix, PlacesOfNodes(3, permutation, &ids), never, *context),
              ElementsAre(20, 21, 0, 1, 20, 21));
  EXPECT_THAT(*CopyRows(matrix, PlacesOfNodes(3, permutation, nullptr), never, *context),
              ElementsAre(0, 1, 10, 11, 20, 21));
}

TEST(Selection, PiecesMakeTheWholeAndMayBeStopped) {
  auto device = MakeCpuDevice(1);
  const auto context = device->CreateContext();
  // Two rows make a piece, five come in three.
  constexpr int64_t kCols = 2 << 20;
  std::vector<float> values(2 * kCols);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 8191);
  const ConstMatrixView matrix = {values.data(), 2, kCols, kCols};
  const std::vector<int64_t> positions = {1, 0, 0, 1, 1};
  int asked = 0, most = 100;
  const StopCheck stop = [&] { return ++asked > most ? Internal("stopped") : OkStatus(); };
  const auto whole = CopyRows(matrix, positions, stop, *context);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(asked, 3);
  ASSERT_EQ(whole->size(), positions.size() * kCols);
  for (size_t i = 0; i < positions.size(); ++i) {
    EXPECT_TRUE(std::equal(matrix.row(positions[i]), matrix.row(positions[i]) + kCols, whole->data() + i * kCols)) << i;
  }
  asked = 0, most = 2;
  EXPECT_EQ(CopyRows(matrix, positions, stop, *context).status().code(), StatusCode::kInternal);
  EXPECT_EQ(asked, 3);
  EXPECT_TRUE(CopyRows(matrix, {}, stop, *context)->empty());
}

HostFeatures Dense(std::vector<float> values, int64_t rows) {
  HostFeatures features;
  features.rows = rows;
  features.cols = static_cast<int64_t>(values.size()) / rows;
  features.dense = std::move(values);
  return features;
}

HostFeatures Sparse(std::vector<EdgeId> row_ptr, std::vector<NodeId> col, std::vector<float> value, int64_t cols) {
  HostFeatures features;
  features.sparse = true;
  features.rows = static_cast<int64_t>(row_ptr.size()) - 1;
  features.cols = cols;
  features.csr = {features.rows, cols, std::move(row_ptr), std::move(col), std::move(value)};
  return features;
}

TEST(Selection, ReplacesRowsInEveryForm) {
  const HostFeatures dense = Dense({1, 2, 3, 4, 5, 6}, 3);
  const HostFeatures sparse = Sparse({0, 1, 1, 3}, {1, 0, 1}, {2, 5, 6}, 2);
  EXPECT_THAT(ReplaceRows(dense, Dense({7, 8, 9, 10}, 2), {2, 0}).dense, ElementsAre(9, 10, 3, 4, 7, 8));
  EXPECT_THAT(ReplaceRows(dense, Sparse({0, 1}, {1}, {8}, 2), {1}).dense, ElementsAre(1, 2, 0, 8, 5, 6));
  const HostFeatures from_dense = ReplaceRows(sparse, Dense({0, 9}, 1), {2});
  EXPECT_TRUE(from_dense.sparse);
  EXPECT_THAT(from_dense.csr.row_ptr, ElementsAre(0, 1, 1, 2));
  EXPECT_THAT(from_dense.csr.col, ElementsAre(1, 1));
  EXPECT_THAT(from_dense.csr.value, ElementsAre(2, 9));
  const HostFeatures from_sparse = ReplaceRows(sparse, Sparse({0, 2}, {0, 1}, {3, 4}, 2), {1});
  EXPECT_THAT(from_sparse.csr.row_ptr, ElementsAre(0, 1, 3, 5));
  EXPECT_THAT(from_sparse.csr.value, ElementsAre(2, 3, 4, 5, 6));
}

TEST(Selection, RowsAreReplacedInMemoryOfTheDevice) {
  auto device = MakeCpuDevice(1);
  const HostFeatures dense = Dense({1, 2, 3, 4, 5, 6}, 3);
  const HostFeatures sparse = Sparse({0, 1, 1, 3}, {1, 0, 1}, {2, 5, 6}, 2);
  for (const HostFeatures& stored : {dense, sparse}) {
    for (const HostFeatures& rows : {Dense({7, 8, 0, 10}, 2), Sparse({0, 2, 3}, {0, 1, 1}, {7, 8, 10}, 2)}) {
      const auto uploaded = FeatureMatrix::Upload(stored, *device);
      ASSERT_TRUE(uploaded.ok());
      const auto replaced = WithRows(**uploaded, rows, {2, 0}, *device);
      ASSERT_TRUE(replaced.ok());
      const HostFeatures want = ReplaceRows(stored, rows, {2, 0});
      const auto got = (*replaced)->ToHost(*device);
      ASSERT_TRUE(got.ok());
      EXPECT_EQ(got->dense, want.dense);
      EXPECT_EQ(got->csr.row_ptr, want.csr.row_ptr);
      EXPECT_EQ(got->csr.col, want.csr.col);
      EXPECT_EQ(got->csr.value, want.csr.value);
      EXPECT_EQ((*replaced)->size_bytes(), got->size_bytes());
      // What was stored is as it was.
      EXPECT_EQ((*uploaded)->ToHost(*device)->dense, stored.dense);
    }
  }
}

// On a GPU rows of so many columns do not lie one at the other's end.
TEST(Selection, RowsThatLieApartAreReplacedAndComeBack) {
  testing::OwnMemoryDevice gpu;
  constexpr int64_t kCols = 133;
  std::vector<float> values(3 * kCols);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const HostFeatures stored = Dense(values, 3), row = Dense(std::vector<float>(kCols, 7.0f), 1);
  const auto uploaded = FeatureMatrix::Upload(stored, gpu);
  ASSERT_TRUE(uploaded.ok());
  ASSERT_GT((*uploaded)->dense().stride, kCols);
  const auto replaced = WithRows(**uploaded, row, {1}, gpu);
  ASSERT_TRUE(replaced.ok());
  EXPECT_EQ((*replaced)->ToHost(gpu)->dense, ReplaceRows(stored, row, {1}).dense);
  EXPECT_EQ((*replaced)->size_bytes(), (*uploaded)->size_bytes());
  EXPECT_EQ((*uploaded)->ToHost(gpu)->dense, values);
}

TEST(Selection, ToHostGivesBackWhatWasUploaded) {
  auto device = MakeCpuDevice(1);
  const HostFeatures sparse = Sparse({0, 1, 1, 3}, {1, 0, 1}, {2, 5, 6}, 2);
  const auto uploaded = FeatureMatrix::Upload(sparse, *device);
  ASSERT_TRUE(uploaded.ok());
  const auto back = (*uploaded)->ToHost(*device);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->csr.row_ptr, sparse.csr.row_ptr);
  EXPECT_EQ(back->csr.col, sparse.csr.col);
  EXPECT_EQ(back->csr.value, sparse.csr.value);
}

StatusOr<double> Check(const std::vector<float>& expected, const std::vector<float>& got, int64_t classes,
                       double tolerance, const std::vector<int64_t>* ids = nullptr) {
  ReferenceRows rows;
  rows.expected = &expected;
  rows.got = &got;
  rows.ids = ids;
  rows.classes = classes;
  rows.rows = static_cast<int64_t>(expected.size()) / classes;
  return CheckReference(rows, tolerance);
}

TEST(ReferenceCheck, MeasuresRelativeToTheRow) {
  EXPECT_NEAR(*Check({100, 0, 0.5, 0}, {100.5, 0, 0.5, 0}, 2, 0.01), 0.005, 1e-9);
  EXPECT_NEAR(*Check({0.5, 0}, {0.505f, 0}, 2, 0.01), 0.005, 1e-6) << "rows of small numbers count as 1";
}

TEST(ReferenceCheck, NamesTheWorstNodeWithBothValues) {
  const std::vector<int64_t> ids = {7, 42, 9};
  const auto missed = Check({1, 2, 1, 2, 1, 2}, {1, 2.1f, 1, 3, 1, 2}, 2, 1e-4, &ids);
  EXPECT_EQ(missed.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(DetailOf(missed.status())->reason, "REFERENCE_MISSED");
  EXPECT_THAT(Message(missed.status()), HasSubstr("node 42: class 1 is 3, expected 2"));
  EXPECT_EQ(DetailOf(missed.status())->metadata.at("node"), "42");
}

TEST(ReferenceCheck, TheClassMustBeEqualWhereItIsClear) {
  EXPECT_TRUE(Check({1.0f, 0.99f}, {0.995f, 0.996f}, 2, 0.01).ok())
      << "the expected top two are within twice the allowance";
}

TEST(ReferenceCheck, WhatIsNotFiniteIsRefused) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(Check({1, 2}, {nan, 2}, 2, 0.5).ok());
  EXPECT_FALSE(Check({1, 2}, {1, infinity}, 2, 0.5).ok());
}

}  // namespace
}  // namespace vicinal
