// SPDX-License-Identifier: Apache-2.0
// Pieces that fit and pieces that do not; accuracy, latency, files.
#include "client/cpp/cli/answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <sstream>
#include <string>

#include "client/cpp/formats/npy.h"
#include "proto/wire/tensors.h"
#include "tests/support/temporary_directory.h"

namespace vicinal::client::cli {
namespace {

using ::testing::HasSubstr;

v1::ClassifyResponse Piece(int64_t first, const std::vector<int32_t>& classes, int64_t k = 1) {
  v1::ClassifyResponse piece;
  const auto rows = static_cast<int64_t>(classes.size()) / k;
  const std::vector<float> scores(classes.size(), 0.5f);
  piece.set_first_row(first);
  *piece.mutable_classes() = wire::MakeTensor(classes.data(), {rows, k});
  *piece.mutable_scores() = wire::MakeTensor(scores.data(), {rows, k});
  return piece;
}

TEST(AnswersTest, PiecesAreJoined) {
  Answer answer;
  ASSERT_TRUE(answer.Add(Piece(0, {1, 2, 3, 4}, 2)).ok());
  ASSERT_TRUE(answer.Add(Piece(2, {5, 6}, 2)).ok());
  EXPECT_EQ(answer.rows, 3);
  EXPECT_EQ(answer.matrices.at("classes").shape, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(RowOf(answer.matrices.at("classes"), 2), (std::vector<double>{5, 6}));
}

// A float32 has no 2^24 + 1.
TEST(AnswersTest, LargeClassesAreShownAsTheyAre) {
  Answer answer;
  ASSERT_TRUE(answer.Add(Piece(0, {(1 << 24) + 1})).ok());
  EXPECT_EQ(ToJson(answer)["classes"][0][0], 16777217);
  std::ostringstream out;
  PrintAnswer(
      answer, "node", [](int64_t) { return "n"; }, "", out);
  EXPECT_THAT(out.str(), HasSubstr("16777217"));
}

TEST(AnswersTest, PiecesThatDoNotFitAreRefused) {
  const auto add_second = [](const v1::ClassifyResponse& second) {
    Answer answer;
    EXPECT_TRUE(answer.Add(Piece(0, {1, 2})).ok());
    return answer.Add(second);
  };
  EXPECT_TRUE(add_second(Piece(2, {3})).ok());
  EXPECT_FALSE(add_second(Piece(1, {3})).ok());
  EXPECT_FALSE(add_second(Piece(2, {3, 4}, 2)).ok());
  v1::ClassifyResponse piece = Piece(2, {3});
  piece.clear_scores();
  EXPECT_FALSE(add_second(piece).ok());
  piece = Piece(2, {3});
  piece.mutable_classes()->set_data("x");
  EXPECT_FALSE(add_second(piece).ok());
  piece = Piece(2, {3});
  piece.mutable_classes()->add_shape(1);
  EXPECT_FALSE(add_second(piece).ok());
  piece = Piece(2, {3});
  *piece.mutable_logits() = piece.scores();
  EXPECT_FALSE(add_second(piece).ok());
  EXPECT_FALSE(Answer().Add(v1::ClassifyResponse()).ok());
  EXPECT_FALSE(Answer().Add(v1::EmbedResponse()).ok());
  piece = Piece(0, {3});
  piece.mutable_classes()->set_dtype(v1::DATA_TYPE_FLOAT32);
  EXPECT_FALSE(Answer().Add(piece).ok());
  piece = Piece(0, {});
  piece.mutable_classes()->set_shape(1, 0);
  EXPECT_FALSE(Answer().Add(piece).ok());
}

TEST(AnswersTest, AccuracyCountsLabelledRows) {
  Answer answer;
  ASSERT_TRUE(answer.Add(Piece(0, {1, 9, 2, 9, 3, 9, 0, 9}, 2)).ok());
  const Accuracy accuracy = Compare(answer, {1, 0, -1, 0});
  EXPECT_EQ(accuracy.right, 2);
  EXPECT_EQ(accuracy.counted, 3);
  EXPECT_EQ(ToString({795, 1000}), "accuracy 0.7950 (795/1000)");
  EXPECT_EQ(ToString({0, 0}), "accuracy 0.0000 (0/0)");
}

TEST(AnswersTest, TextShowsTheFirstRows) {
  Answer answer;
  ASSERT_TRUE(answer.Add(Piece(0, std::vector<int32_t>(25, 4))).ok());
  std::ostringstream out;
  const auto name_of = [](int64_t row) { return "n" + std::to_string(row); };
  PrintAnswer(answer, "node", name_of, "", out);
  EXPECT_THAT(out.str(), HasSubstr("node  class   score\nn0        4  0.5000\n"));
  EXPECT_THAT(out.str(), HasSubstr("... 15 more; --out FILE.npy writes all\n"));
  std::ostringstream kept;
  PrintAnswer(answer, "node", name_of, "all.npy", kept);
  EXPECT_THAT(kept.str(), HasSubstr("... 15 more\n"));
}

TEST(AnswersTest, RowsThatAreNotFiniteAreCounted) {
  const auto name_of = [](int64_t row) { return "n" + std::to_string(row); };
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const auto note = [&](const std::vector<float>& scores, const std::vector<float>& logits, bool float16) {
    v1::ClassifyResponse piece = Piece(0, {1, 2, 3, 4});
    *piece.mutable_scores() = wire::MakeTensor(scores.data(), {4, 1});
    *piece.mutable_logits() = wire::MakeTensor(logits.data(), {4, 2});
    Answer answer;
    EXPECT_TRUE(answer.Add(piece).ok());
    return NotFiniteNote(answer, "node", name_of, float16);
  };
  const std::vector<float> fine = {1, 0.5, 0, std::numeric_limits<float>::max()}, logits(8, -3.0f);
  EXPECT_EQ(note(fine, logits, false), "");
  EXPECT_EQ(note({1, 1, nan, 1}, logits, false),
            "1 of 4 rows is not finite (NaN or infinite), the first is that of node n2: a layer computed what has no "
            "finite value, such as the logarithm of a negative number, or a value between layers exceeded "
            "float32's range");
  // A row counts once, wherever it stands and whatever it is.
  const std::string both = note({1, nan, 1, 1}, {0, 0, inf, -inf, 0, 0, 0, -inf}, true);
  EXPECT_THAT(both, HasSubstr("2 of 4 rows are not finite (NaN or infinite), the first is that of node n1"));
  EXPECT_THAT(both, HasSubstr("65,504"));
  EXPECT_EQ(NotFiniteNote(Answer(), "node", name_of, false), "");
}

TEST(AnswersTest, TitlesOfSeveralClassesAreNoClassNumbers) {
  Answer answer;
  std::vector<int32_t> classes(23);
  for (int32_t k = 0; k < 23; ++k) classes[static_cast<size_t>(k)] = k;
  ASSERT_TRUE(answer.Add(Piece(0, classes, 23)).ok());
  std::ostringstream out;
  PrintAnswer(
      answer, "node", [](int64_t) { return "n"; }, "", out);
  for (const char* title :
       {"node  1st class   score  2nd class   score  3rd class   score  4th class   score", "11th class", "12th class",
        "13th class", "20th class", "21st class", "22nd class", "23rd class"}) {
    EXPECT_THAT(out.str(), HasSubstr(title));
  }
}

TEST(AnswersTest, FilesKeepAllRows) {
  Answer answer;
  ASSERT_TRUE(answer.Add(Piece(0, {1, 2, 3})).ok());
  const TemporaryDirectory folder;
  const std::string npy = folder / "answers.npy", npz = folder / "answers.npz";
  ASSERT_TRUE(WriteAnswer(npy, answer, "classes", {}).ok());
  EXPECT_EQ(ToInts(*ReadNpy(npy)).value(), (std::vector<int64_t>{1, 2, 3}));
  ASSERT_TRUE(WriteAnswer(npz, answer, "classes", {7, 8, 9}).ok());
  const auto back = Npz::Open(npz);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(ToInts(*back->Read("nodes")).value(), (std::vector<int64_t>{7, 8, 9}));
  EXPECT_EQ(back->Read("scores")->shape, (std::vector<int64_t>{3, 1}));
}

TEST(AnswersTest, LatencyByRank) {
  const Latency one = Summarise({3});
  EXPECT_EQ(one.least, 3);
  EXPECT_EQ(one.p99, 3);
  std::vector<double> many;
  for (int i = 200; i > 0; --i) many.push_back(i);
  const Latency latency = Summarise(many);
  EXPECT_EQ(latency.least, 1);
  EXPECT_EQ(latency.median, 100);
  EXPECT_EQ(latency.p99, 198);
}

}  // namespace
}  // namespace vicinal::client::cli
