// SPDX-License-Identifier: Apache-2.0
#include "proto/picture/svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace vicinal::picture {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(SvgTest, TilesAreDarkerTheMoreEdgesTheyHave) {
  const std::string svg = AdjacencySvg({100, 0, 1, 0}, 2, 100, "test");
  EXPECT_THAT(svg, HasSubstr("fill-opacity=\"1.000\" d=\"M0 0h1v1h-1z\""));
  EXPECT_THAT(svg, HasSubstr("d=\"M0 1h1v1h-1z\""));
  EXPECT_THAT(svg, Not(HasSubstr("M1 ")));
  EXPECT_THAT(svg, HasSubstr("aria-label=\"test\""));
}

TEST(SvgTest, BarsAreLabelledWithTheirDegrees) {
  const std::string svg = HistogramSvg({5, 0, 3, 1});
  for (const char* const label : {">0<", ">1<", ">2-3<", ">4-7<", ">5<", ">3<"}) EXPECT_THAT(svg, HasSubstr(label));
  EXPECT_THAT(svg, HasSubstr("width=\"260.0\"")) << "the longest bar";
  EXPECT_EQ(HistogramSvg({}), "");
}

// What comes from elsewhere becomes no markup, and each part is there once.
TEST(SvgTest, ADocumentHoldsAllParts) {
  GraphCounts counts;
  counts.title = "graph <g> & \x1b";
  counts.order = "rcm</text>";
  counts.degree_counts = {2, 1};
  counts.side = 2;
  counts.row_stride = 4;
  counts.before = {0, 1, 0, 0};
  counts.after = {0, 0, 8, 0};
  const std::string svg = GraphSvg(counts);
  EXPECT_THAT(svg, HasSubstr("graph ?g? ? ?"));
  EXPECT_THAT(svg, HasSubstr("in execution order (rcm?/text?)"));
  EXPECT_THAT(svg, HasSubstr("2 x 2 tiles, every 4th target"));
  EXPECT_THAT(svg, HasSubstr("aria-label=\"nodes by degree\""));
  EXPECT_THAT(svg, HasSubstr("fill-opacity=\"1.000\" d=\"M0 1h1v1h-1z\"")) << "eight edges are the common scale";
  EXPECT_THAT(svg, Not(HasSubstr("fill-opacity=\"1.000\" d=\"M1 0h1v1h-1z\""))) << "one edge is lighter";
  EXPECT_EQ(MostEdges(counts.before, counts.after), 8);
}

}  // namespace
}  // namespace vicinal::picture
