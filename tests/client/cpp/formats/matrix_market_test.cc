// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/formats/matrix_market.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace vicinal::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string MatrixMarketError(const std::string& text) {
  const auto file = ParseMatrixMarket(text, "m.mtx", MatrixRows::kTarget);
  return file.ok() ? "it was read" : std::string(file.status().message());
}

constexpr char kGeneral[] =
    "%%MatrixMarket matrix coordinate real general\n% a comment\n\n3 3 2\n1 2 0.5\n% another\n3 1 -4\n";

TEST(MatrixMarketTest, RowsAreTargetsOrSources) {
  const auto targets = ParseMatrixMarket(kGeneral, "m.mtx", MatrixRows::kTarget);
  ASSERT_TRUE(targets.ok()) << targets.status();
  EXPECT_EQ(targets->node_count, 3);
  EXPECT_THAT(targets->edges.sources, ElementsAre(1, 0));
  EXPECT_THAT(targets->edges.targets, ElementsAre(0, 2));
  EXPECT_THAT(targets->edges.weights, ElementsAre(0.5f, -4.0f));
  EXPECT_THAT(targets->notes[0], HasSubstr("rows were read as targets"));
  const auto sources = ParseMatrixMarket(kGeneral, "m.mtx", MatrixRows::kSource);
  EXPECT_THAT(sources->edges.sources, ElementsAre(0, 2));
  EXPECT_THAT(sources->edges.targets, ElementsAre(1, 0));
  EXPECT_THAT(sources->notes[0], HasSubstr("rows were read as sources"));
}

TEST(MatrixMarketTest, SymmetricEntriesStandForBoth) {
  const auto file = ParseMatrixMarket("%%matrixmarket MATRIX Coordinate Integer Symmetric\n2 2 2\n1 1 7\n2 1 3\n",
                                      "m.mtx", MatrixRows::kTarget);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->edges.sources, ElementsAre(0, 0, 1));
  EXPECT_THAT(file->edges.targets, ElementsAre(0, 1, 0));
  EXPECT_THAT(file->edges.weights, ElementsAre(7.0f, 3.0f, 3.0f));
}

TEST(MatrixMarketTest, PatternHasNoWeights) {
  const auto file =
      ParseMatrixMarket("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n2 1\n", "m.mtx", MatrixRows::kTarget);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->edges.weights, IsEmpty());
  EXPECT_THAT(file->edges.sources, ElementsAre(0));
}

TEST(MatrixMarketTest, RefusalsNameLineAndReason) {
  const std::string banner = "%%MatrixMarket matrix coordinate real general\n";
  EXPECT_THAT(MatrixMarketError(""), HasSubstr("is empty"));
  EXPECT_THAT(MatrixMarketError("1 2 3\n"), HasSubstr("m.mtx:1: '1 2 3' is not a MatrixMarket banner"));
  EXPECT_THAT(MatrixMarketError("%%MatrixMarket matrix array real general\n1 1\n1\n"), HasSubstr("'array'"));
  EXPECT_THAT(MatrixMarketError("%%MatrixMarket matrix coordinate complex general\n"), HasSubstr("'complex'"));
  EXPECT_THAT(MatrixMarketError("%%MatrixMarket matrix coordinate real skew-symmetric\n"),
              HasSubstr("'skew-symmetric'"));
  EXPECT_THAT(MatrixMarketError(banner), HasSubstr("ends before the size line"));
  EXPECT_THAT(MatrixMarketError(banner + "2 2\n"), HasSubstr("m.mtx:2: the size line"));
  EXPECT_THAT(MatrixMarketError(banner + "2 3 1\n"), HasSubstr("2 x 3"));
  EXPECT_THAT(MatrixMarketError(banner + "2 2 -1\n"), HasSubstr("size line"));
  EXPECT_THAT(MatrixMarketError(banner + "2 2 1\n0 1 1\n"), HasSubstr("m.mtx:3: the entry (0, 1) is outside 1..2"));
  EXPECT_THAT(MatrixMarketError(banner + "2 2 1\n1 3 1\n"), HasSubstr("outside"));
  EXPECT_THAT(MatrixMarketError(banner + "2 2 1\n1 1\n"), HasSubstr("'row column value'"));
  EXPECT_THAT(MatrixMarketError(banner + "2 2 1\n1 1 nan\n"), HasSubstr("not a finite number"));
  EXPECT_THAT(MatrixMarketError(banner + "2 2 1\n1 1 1\n1 2 1\n"), HasSubstr("m.mtx:4: more entries"));
  EXPECT_THAT(MatrixMarketError(banner + "2 2 3\n1 1 1\n"), HasSubstr("ends after 1 of the 3 entries"));
  EXPECT_THAT(MatrixMarketError(banner + "9000000000000000000 9000000000000000000 9000000000000000000\n"),
              HasSubstr("ends after 0 of the"));
}

}  // namespace
}  // namespace vicinal::client
