// SPDX-License-Identifier: Apache-2.0
#include "engine/base/budget_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/base/error.h"

namespace vicinal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kTestMiB = 1 << 20;

TEST(SizeText, MebibytesBesideBytes) {
  EXPECT_EQ(SizeText(0), "0 bytes");
  EXPECT_EQ(SizeText(kTestMiB - 1), "1048575 bytes");
  EXPECT_EQ(SizeText(kTestMiB), "1048576 bytes (1.0 MiB)");
  EXPECT_EQ(SizeText(3 * kTestMiB / 2), "1572864 bytes (1.5 MiB)");
}

TEST(BudgetError, SaysWhoHoldsIt) {
  HeldBytes held;
  held.graphs = 90 * kTestMiB;
  held.models = 100;
  const Status status = BudgetFull("model 'm'", 20 * kTestMiB, 100 * kTestMiB, held);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(status.message()),
            "model 'm' needs up to 20971520 bytes (20.0 MiB), 10485860 bytes (10.0 MiB) more than is free of this "
            "server's 104857600 bytes (100.0 MiB); held by graphs 94371840 bytes (90.0 MiB), models 100 bytes; delete "
            "graphs, feature sets or models, or start the server with a larger --memory_budget_bytes");
}

TEST(BudgetError, OnlyWhatEndsByItselfIsWorthWaitingFor) {
  HeldBytes held;
  held.graphs = 90;
  held.requests = 9;
  // 9 missing: the requests' end makes room; 10: it does not.
  const Status enough = BudgetFull("x", 10, 100, held), few = BudgetFull("x", 11, 100, held);
  EXPECT_TRUE(DetailOf(enough)->retry_after.has_value());
  EXPECT_THAT(std::string(enough.message()), HasSubstr("or retry later"));
  EXPECT_FALSE(DetailOf(few)->retry_after.has_value());
  EXPECT_THAT(std::string(few.message()), Not(HasSubstr("retry")));
  EXPECT_EQ(DetailOf(few)->reason, "BUDGET_FULL");
  EXPECT_EQ(DetailOf(few)->metadata.at("missingBytes"), "1") << "beyond what waiting frees";
}

TEST(BudgetError, AReplaceNeedsRoomForBoth) {
  HeldBytes held;
  held.graphs = 90;
  EXPECT_THAT(std::string(BudgetFull("x", 11, 100, held, {.replace = true}).message()), HasSubstr("both must fit"));
  EXPECT_THAT(std::string(BudgetFull("x", 11, 100, held).message()), Not(HasSubstr("both must fit")));
}

TEST(BudgetError, WhatCanNeverFit) {
  const Status status = OverBudget("", 101, 100);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(DetailOf(status)->reason, "OVER_BUDGET");
  EXPECT_EQ(std::string(status.message()),
            "needs up to 101 bytes, but this server may use 100 bytes in total (--memory_budget_bytes)");
}

}  // namespace
}  // namespace vicinal
