// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/pages.h"

#include <gtest/gtest.h>

#include "vicinal/v1/graph.pb.h"

namespace vicinal::server {
namespace {

TEST(PagesTest, WalksTheListWithoutRepeats) {
  const std::vector<std::string> names = {"a", "b", "c", "d", "e"};
  std::vector<std::string> seen;
  std::string token;
  do {
    const auto page = PageOf(names, 2, token);
    ASSERT_TRUE(page.ok());
    seen.insert(seen.end(), names.begin() + page->begin, names.begin() + page->end);
    token = page->next_token;
  } while (!token.empty());
  EXPECT_EQ(seen, names);
}

TEST(PagesTest, ANameThatWentMeanwhileSkipsNothing) {
  const auto first = PageOf({"a", "b", "c"}, 2, "");
  ASSERT_TRUE(first.ok());
  const auto second = PageOf({"a", "c"}, 2, first->next_token);  // "b" is gone
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->begin, 1u);
  EXPECT_EQ(second->end, 2u);
}

TEST(PagesTest, APageEndsBeforeItHasTooManyBytes) {
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  const size_t sizes[] = {5000, 10, 10, 5000};  // the first has too many by itself
  const auto make = [&](size_t i) {
    v1::Graph graph;
    graph.set_name(names[i]);
    graph.set_error_message(std::string(sizes[i], 'x'));
    return graph;
  };
  std::vector<std::string> pages;
  std::string token;
  do {
    v1::ListGraphsResponse response;
    token = FillPage(*PageOf(names, 3, token), names, 1000, make, response.mutable_graphs());
    pages.emplace_back();
    for (const v1::Graph& graph : response.graphs()) pages.back() += graph.name();
  } while (!token.empty());
  EXPECT_EQ(pages, (std::vector<std::string>{"a", "bc", "d"}));
}

TEST(PagesTest, BadSizesAndTokens) {
  EXPECT_FALSE(PageOf({"a"}, -1, "").ok());
  EXPECT_FALSE(PageOf({"a"}, 1001, "").ok());
  EXPECT_FALSE(PageOf({"a"}, 0, "b").ok());
  EXPECT_FALSE(PageOf({"a"}, 0, "after:NOT A NAME").ok());
  const auto all = PageOf(std::vector<std::string>(150, "a"), 0, "");
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(all->end, 100u);
  EXPECT_TRUE(PageOf({}, 0, "")->next_token.empty());
}

}  // namespace
}  // namespace vicinal::server
