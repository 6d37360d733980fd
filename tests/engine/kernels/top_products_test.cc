// SPDX-License-Identifier: Apache-2.0
// The best products against a sort of products in double, for shapes that end within panels and tiles; and the same
// bits whatever the ranges and the other queries.
#include "engine/kernels/top_products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

namespace vicinal::testing {
namespace {

struct Shape {
  int64_t queries, candidates, width, k;
};

class TopProductsTest : public ::testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    const Shape s = GetParam();
    // Rows lie apart, with numbers between them that must not be read as theirs.
    stride_ = s.width + 3;
    candidates_.assign(static_cast<size_t>(s.candidates * stride_), 1e30f);
    queries_.resize(static_cast<size_t>(s.queries * s.width));
    for (int64_t i = 0; i < s.candidates; ++i) {
      for (int64_t c = 0; c < s.width; ++c) candidates_[static_cast<size_t>(i * stride_ + c)] = normal(random);
    }
    for (float& value : queries_) value = normal(random);
    // Equal candidates have equal scores: the lower id is better.
    for (int64_t i = 1; i < s.candidates; i += 5) {
      std::copy_n(candidates_.begin() + (i - 1) * stride_, s.width, candidates_.begin() + i * stride_);
    }
  }

  std::vector<TopEntry> Run(int64_t first, int64_t count, const std::vector<int64_t>& cuts) {
    const Shape s = GetParam();
    std::vector<float> packed(static_cast<size_t>(PaddedQueries(count) * s.width));
    PackQueries({queries_.data() + first * s.width, count, s.width, s.width}, packed.data());
    TopProductsJob job;
    job.candidates = {candidates_.data(), s.candidates, s.width, stride_};
    job.queries = packed.data();
    job.num_queries = count;
    job.k = s.k;
    job.scale = scale_.empty() ? nullptr : scale_.data();
    job.ids = ids_.empty() ? nullptr : ids_.data();
    job.excluded = excluded_.empty() ? nullptr : excluded_.data() + first;
    std::vector<TopEntry> lists(static_cast<size_t>(count * s.k));
    std::vector<float> thresholds(static_cast<size_t>(PaddedQueries(count)));
    StartTop(job, lists.data(), thresholds.data());
    // The last range first.
    for (size_t i = cuts.size() - 1; i > 0; --i) {
      OfferProducts(job, cuts[i - 1], cuts[i], lists.data(), thresholds.data());
    }
    for (int64_t q = 0; q < count; ++q) SortTop(lists.data() + q * s.k, s.k);
    return lists;
  }

  double Score(int64_t query, int64_t candidate) const {
    const int64_t width = GetParam().width;
    double sum = 0;
    for (int64_t c = 0; c < width; ++c) {
      sum += static_cast<double>(queries_[static_cast<size_t>(query * width + c)]) *
             candidates_[static_cast<size_t>(candidate * stride_ + c)];
    }
    return scale_.empty() ? sum : sum * scale_[static_cast<size_t>(candidate)];
  }

  int64_t stride_ = 0;
  std::vector<float> candidates_, queries_, scale_;
  std::vector<int32_t> ids_;
  std::vector<ExcludedIds> excluded_;
};

bool SameBits(const std::vector<TopEntry>& a, const std::vector<TopEntry>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const TopEntry& x, const TopEntry& y) { return x.score == y.score && x.id == y.id; });
}

TEST_P(TopProductsTest, AreTheBestOfAllProducts) {
  const Shape s = GetParam();
  const std::vector<TopEntry> found = Run(0, s.queries, {0, s.candidates});
  const double error = 1e-6 * static_cast<double>(s.width) * 4;
  for (int64_t q = 0; q < s.queries; ++q) {
    std::vector<double> all;
    for (int64_t i = 0; i < s.candidates; ++i) all.push_back(Score(q, i));
    std::sort(all.begin(), all.end(), std::greater<>());
    std::vector<int32_t> seen;
    for (int64_t i = 0; i < s.k; ++i) {
      const TopEntry& entry = found[static_cast<size_t>(q * s.k + i)];
      if (i >= s.candidates) {
        EXPECT_EQ(entry.id, TopEntry().id);
        continue;
      }
      ASSERT_LT(entry.id, s.candidates);
      EXPECT_NEAR(entry.score, Score(q, entry.id), error);
      EXPECT_NEAR(entry.score, all[static_cast<size_t>(i)], error);
      seen.push_back(entry.id);
      if (i == 0) continue;
      EXPECT_TRUE(found[static_cast<size_t>(q * s.k + i - 1)].Better(entry));
    }
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
  }
}

TEST_P(TopProductsTest, RangesAndOtherQueriesDoNotChangeBits) {
  const Shape s = GetParam();
  const std::vector<TopEntry> whole = Run(0, s.queries, {0, s.candidates});
  EXPECT_TRUE(SameBits(Run(0, s.queries, {0, s.candidates / 3, s.candidates / 2, s.candidates}), whole));
  for (const int64_t q : {int64_t{0}, s.queries / 2, s.queries - 1}) {
    const auto row = whole.begin() + q * s.k;
    EXPECT_TRUE(SameBits(Run(q, 1, {0, s.candidates}), std::vector<TopEntry>(row, row + s.k))) << q;
  }
}

TEST_P(TopProductsTest, WhatIsExcludedIsReplacedByTheNextBest) {
  const Shape s = GetParam();
  scale_.resize(static_cast<size_t>(s.candidates));
  ids_.resize(static_cast<size_t>(s.candidates));
  for (int64_t i = 0; i < s.candidates; ++i) {
    scale_[static_cast<size_t>(i)] = 1.0f / static_cast<float>(i % 4 + 1);
    ids_[static_cast<size_t>(i)] = static_cast<int32_t>(3 * (s.candidates - i));
  }
  const std::vector<TopEntry> before = Run(0, s.queries, {0, s.candidates});
  // The first of each query's results.
  std::vector<int32_t> firsts;
  for (int64_t q = 0; q < s.queries; ++q) firsts.push_back(before[static_cast<size_t>(q * s.k)].id);
  for (const int32_t& id : firsts) excluded_.push_back({&id, &id + 1});
  const std::vector<TopEntry> after = Run(0, s.queries, {0, s.candidates});
  for (int64_t q = 0; q < s.queries; ++q) {
    for (int64_t i = 0; i + 1 < std::min(s.k, s.candidates); ++i) {
      EXPECT_EQ(after[static_cast<size_t>(q * s.k + i)].id, before[static_cast<size_t>(q * s.k + i + 1)].id);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, TopProductsTest,
                         ::testing::Values(Shape{1, 1, 1, 1}, Shape{1, 300, 5, 3}, Shape{15, 97, 16, 10},
                                           Shape{16, 96, 17, 1}, Shape{17, 500, 64, 100}, Shape{40, 101, 33, 7},
                                           Shape{64, 350, 8, 2}, Shape{100, 211, 31, 12}, Shape{3, 4, 2, 9}));

TEST(TopProducts, ScoresThatAreNoNumbersAreLeftOut) {
  const std::vector<float> query = {1.0f};
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> candidates = {std::nanf(""), 2.0f, -infinity, infinity, -1.0f};
  std::vector<float> packed(static_cast<size_t>(PaddedQueries(1)));
  PackQueries({query.data(), 1, 1, 1}, packed.data());
  TopProductsJob job;
  job.candidates = {candidates.data(), 5, 1, 1};
  job.queries = packed.data();
  job.num_queries = 1;
  job.k = 5;
  std::vector<TopEntry> list(5);
  std::vector<float> thresholds(packed.size());
  StartTop(job, list.data(), thresholds.data());
  OfferProducts(job, 0, 5, list.data(), thresholds.data());
  SortTop(list.data(), 5);
  const std::vector<int32_t> ids = {3, 1, 4, 2, TopEntry().id};
  for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(list[i].id, ids[i]) << i;
}

TEST(TopProducts, LengthsAreThoseOfTheRows) {
  const std::vector<float> rows = {3, 4, 9, 0, 0, 9};
  std::vector<float> lengths(2);
  InverseLengths({rows.data(), 2, 2, 3}, 0, 2, lengths.data());
  EXPECT_FLOAT_EQ(lengths[0], 0.2f);
  EXPECT_FLOAT_EQ(lengths[1], 1e12f);
}

}  // namespace
}  // namespace vicinal::testing
