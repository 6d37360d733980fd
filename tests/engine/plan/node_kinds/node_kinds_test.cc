// SPDX-License-Identifier: Apache-2.0
// The table of node kinds: complete, in order, and without contradictions.
#include <memory>
#include <set>
#include <string>

#include "engine/plan/node_kinds/node_traits.h"
#include "engine/plan/rewrite/program.h"
#include "gtest/gtest.h"

namespace vicinal::internal {
namespace {

TEST(NodeKinds, TheTableIsInTheOrderOfTheEnum) {
  int index = 0;
  for (const NodeTraits* traits : kNodeTraits) {
    EXPECT_EQ(static_cast<int>(traits->kind), index) << traits->name;
    EXPECT_EQ(&TraitsOf(traits->kind), traits);
    ++index;
  }
}

TEST(NodeKinds, NamesAreUnique) {
  std::set<std::string> names;
  for (const NodeTraits* traits : kNodeTraits) EXPECT_TRUE(names.emplace(traits->name).second) << traits->name;
}

TEST(NodeKinds, AllButConcatCanBeBoundAndDescribed) {
  for (const NodeTraits* traits : kNodeTraits) {
    EXPECT_EQ(traits->bind == nullptr, traits->kind == NodeKind::kConcat) << traits->name;
    EXPECT_EQ(traits->describe == nullptr, traits->bind == nullptr) << traits->name;
  }
}

TEST(NodeKinds, OnlyNeighbourhoodKindsGather) {
  EdgeProgram program;
  program.sources = 1;
  Node node;
  node.expression.program = std::make_shared<const EdgeProgram>(program);
  for (const NodeTraits* traits : kNodeTraits) {
    const bool neighbourhood = traits->locality == Locality::kNeighbourhood;
    EXPECT_EQ(Gathers(node, *traits, 0), neighbourhood) << traits->name;
    EXPECT_TRUE(neighbourhood || traits->gathers == nullptr) << traits->name;
    EXPECT_TRUE(!traits->row_per_graph || traits->locality == Locality::kGraph) << traits->name;
  }
}

}  // namespace
}  // namespace vicinal::internal
