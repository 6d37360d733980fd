// SPDX-License-Identifier: Apache-2.0
#include "engine/tune/program_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "engine/tune/work.h"
#include "tests/engine/kernels/edge_values.h"

namespace vicinal {
namespace {

using ::testing::ElementsAre;
using testing::ValueOf;

// mean of linear(u_j[2:10] * v_i[1:9], W, b) * r, of three columns, beside features of edges.
EdgeProgram Program() {
  EdgeProgram program;
  program.sources = 2;
  program.targets = 1;
  program.edge_width = 3;
  program.values = {ValueOf(EdgeOp::kSource, 8, -1, -1, 1, 2),
                    ValueOf(EdgeOp::kTarget, 8, -1, -1, 0, 1),
                    ValueOf(EdgeOp::kMultiply, 8, 0, 1),
                    ValueOf(EdgeOp::kLinear, 3, 2, -1, 0),
                    ValueOf(EdgeOp::kRow, 3, -1, -1, 2),
                    ValueOf(EdgeOp::kMultiply, 3, 3, 4),
                    ValueOf(EdgeOp::kFeatures, 3)};
  program.values[3].bias = 1;
  program.results = {{EdgeReduce::kMean, 5, -1}, {EdgeReduce::kMean, 6, -1}};
  return program;
}

std::string NameOf(const EdgeProgram& program) { return KeyOf(program, EdgeWeights::kNone).program; }

TEST(ProgramWorkTest, AKeyNamesTheProgram) {
  const TuningKey key = KeyOf(Program(), EdgeWeights::kPerEdge);
  EXPECT_TRUE(IsExpression(key));
  EXPECT_TRUE(IsProgramName(key.program)) << key.program;
  EXPECT_EQ(Describe(key), "expression mean, width 6, weights per_edge, program " + key.program);
  EXPECT_EQ(KeyOf(Program(), EdgeWeights::kPerEdge), key);
  EXPECT_EQ(NameOf(Program()), key.program);
  EdgeProgram several = Program();
  several.results[1].reduce = EdgeReduce::kStd;
  EXPECT_EQ(KeyOf(several, EdgeWeights::kNone).kind, "several");
  for (const bool good : {IsKindOf("expression", "several"), IsKindOf("expression", "var"),
                          !IsKindOf("expression", "gat"), !IsKindOf("aggregate", "var")})
    EXPECT_TRUE(good);
  EXPECT_EQ(KindsOf("expression"), "sum, mean, max, min, var, std, softmax, several");
}

TEST(ProgramWorkTest, NamesAreTheSameInEveryProcess) {
  EXPECT_EQ(NameOf(Program()), "5acd1222f8c31373");
  for (const char* bad : {"", "0123456789abcde", "0123456789abcdef0", "0123456789ABCDEF", "0123456789abcdeg"})
    EXPECT_FALSE(IsProgramName(bad)) << bad;
}

TEST(ProgramWorkTest, ProgramsThatDifferInAnythingHaveDifferentNames) {
  const std::vector<std::function<void(EdgeProgram*)>> changes = {
      [](EdgeProgram* p) { p->sources = 3; },
      [](EdgeProgram* p) { p->targets = 2; },
      [](EdgeProgram* p) { p->edge_width = 4; },
      [](EdgeProgram* p) { p->values[0].first = 1; },
      [](EdgeProgram* p) { p->values[0].index = 0; },
      [](EdgeProgram* p) { p->values[2].op = EdgeOp::kMin; },
      [](EdgeProgram* p) { p->values[2].a = 1; },
      [](EdgeProgram* p) { p->values[2].b = 0; },
      [](EdgeProgram* p) { p->values[3].bias = -1; },
      [](EdgeProgram* p) { p->values[3].width = 4; },
      [](EdgeProgram* p) { p->values[3].number = 0.5f; },
      [](EdgeProgram* p) { p->values[3].activation.kind = ActivationKind::kRelu; },
      [](EdgeProgram* p) { p->values[3].activation.slope = 0.5f; },
      [](EdgeProgram* p) { p->values[3].activation.limit = 0.5f; },
      [](EdgeProgram* p) { p->values[3].parts = {2}; },
      [](EdgeProgram* p) { p->values.push_back(p->values[6]); },
      [](EdgeProgram* p) { p->results[1].value = 5; },
      [](EdgeProgram* p) { p->results[1].score = 5; },
      [](EdgeProgram* p) { p->results[1].reduce = EdgeReduce::kSum; },
  };
  std::set<std::string> names = {NameOf(Program())};
  for (const auto& change : changes) {
    EdgeProgram program = Program();
    change(&program);
    names.insert(NameOf(program));
  }
  EXPECT_EQ(names.size(), changes.size() + 1);
}

TEST(ProgramWorkTest, SizesReachToTheLastColumnThatIsRead) {
  const ProgramSizes sizes = SizesOf(Program());
  EXPECT_THAT(sizes.sources, ElementsAre(1, 10, 0, 0, 0, 0, 0, 0)) << "a matrix that is not read has a column";
  EXPECT_THAT(sizes.targets, ElementsAre(9, 0, 0, 0, 0, 0, 0, 0));
  ASSERT_EQ(sizes.parameters.size(), 3u);
  EXPECT_TRUE(sizes.parameters[0].is_matrix);
  EXPECT_EQ(sizes.parameters[0].rows, 3);
  EXPECT_EQ(sizes.parameters[0].cols, 8);
  for (const size_t row : {1, 2}) {
    EXPECT_FALSE(sizes.parameters[row].is_matrix);
    EXPECT_EQ(sizes.parameters[row].cols, 3);
  }
}

TEST(ProgramWorkTest, MoreEdgesTakeLongerAndMoreThreadsShorter) {
  EXPECT_EQ(RoughProgramSeconds(Program(), 0, 2), 0.0);
  const double one = RoughProgramSeconds(Program(), 1000, 1);
  EXPECT_GT(one, 0.0);
  EXPECT_DOUBLE_EQ(RoughProgramSeconds(Program(), 4000, 2), 2 * one);
  const double on_gpu = RoughProgramSeconds(Program(), 1000, 0);
  EXPECT_GT(on_gpu, 0.0);
  EXPECT_LT(on_gpu, one / 10);
}

}  // namespace
}  // namespace vicinal
