// SPDX-License-Identifier: Apache-2.0
#include "engine/base/nearest_name.h"

#include <gtest/gtest.h>

namespace vicinal {
namespace {

TEST(NearestNameTest, FindsWhatIsAnEditOrTwoAway) {
  const std::vector<std::string> names = {"relu", "x_i", "x_j", "edge_attr", "edge_weight", "leaky_relu"};
  EXPECT_EQ(NearestName("rleu", names), "relu");   // exchanged
  EXPECT_EQ(NearestName("relus", names), "relu");  // one too many
  EXPECT_EQ(NearestName("xj", names), "x_j");      // one missing
  EXPECT_EQ(NearestName("edge_atr", names), "edge_attr");
  EXPECT_EQ(NearestName("egde_wieght", names), "edge_weight");  // two
  EXPECT_EQ(NearestName("LeakyReLU", names), "leaky_relu");     // capitals aside
  EXPECT_EQ(NearestName("RELU", names), "relu");
}

TEST(NearestNameTest, FewerEditsWinThenTheFirst) {
  EXPECT_EQ(NearestName("line1", {"lin", "lin1", "line"}), "lin1");
  EXPECT_EQ(NearestName("x_k", {"x_i", "x_j"}), "x_i");
}

TEST(NearestNameTest, SaysNothingWhereNoNameIsNear) {
  EXPECT_EQ(NearestName("y", {"x", "z"}), "");
  EXPECT_EQ(NearestName("abc", {"axy"}), "");
  EXPECT_EQ(NearestName("softmax", {"softplus", "max"}), "");
  EXPECT_EQ(NearestName("", {"a", ""}), "");
  EXPECT_EQ(NearestName("a", {}), "");
  EXPECT_EQ(NearestName(std::string(65, 'a'), {std::string(65, 'a')}), "");
  EXPECT_EQ(NearestName("ab", {std::string(100'000, 'a')}), "");
}

}  // namespace
}  // namespace vicinal
