// SPDX-License-Identifier: Apache-2.0
// Models by name: versions, replacement under conditions, and the budget.
#include "engine/store/model_store.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "engine/base/error.h"

namespace vicinal {
namespace {

class ModelStoreTest : public ::testing::Test {
 protected:
  static StoredModel Sized(const std::string& name, int64_t bytes) {
    auto model = std::make_shared<Model>();
    model->size_bytes = bytes;
    StoredModel stored;
    stored.name = name;
    stored.model = std::move(model);
    return stored;
  }

  FakeClock clock_;
  ModelStore store_{{1000, 3, &clock_}};
};

TEST_F(ModelStoreTest, VersionsRiseAndOldHandlesLive) {
  const auto first = store_.Put(Sized("m", 10), false, 0);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(store_.Put(Sized("m", 20), false, 0).status().code(), StatusCode::kAlreadyExists);
  const auto second = store_.Put(Sized("m", 20), true, (*first)->version);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_GT((*second)->version, (*first)->version);
  EXPECT_EQ((*first)->model->size_bytes, 10);
  EXPECT_EQ((*store_.Find("m", 0))->version, (*second)->version);
  EXPECT_EQ(store_.Find("m", (*first)->version).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_.size_bytes(), 20);
}

TEST_F(ModelStoreTest, ConditionsOnVersionsHold) {
  EXPECT_EQ(store_.CheckPut("m", true, 7).code(), StatusCode::kNotFound);
  const int64_t version = (*store_.Put(Sized("m", 10), false, 0))->version;
  EXPECT_EQ(store_.CheckPut("m", true, version + 1).code(), StatusCode::kAborted);
  EXPECT_EQ(store_.Delete("m", version + 1).code(), StatusCode::kAborted);
  EXPECT_TRUE(store_.Delete("m", version).ok());
  EXPECT_EQ(store_.Delete("m", 0).code(), StatusCode::kNotFound);
  EXPECT_GT((*store_.Put(Sized("m", 10), false, 0))->version, version) << "a version never comes twice";
}

TEST_F(ModelStoreTest, TheBudgetHolds) {
  EXPECT_EQ(store_.Put(Sized("huge", 1001), false, 0).status().code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(store_.Put(Sized("a", 600), false, 0).ok());
  const auto full = store_.Put(Sized("b", 600), false, 0);
  EXPECT_EQ(full.status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(DetailOf(full.status())->reason, "BUDGET_FULL");
  EXPECT_FALSE(DetailOf(full.status())->retry_after.has_value()) << "models do not go by themselves";
  EXPECT_TRUE(store_.Put(Sized("a", 1000), true, 0).ok()) << "what is replaced does not count";
}

TEST_F(ModelStoreTest, AsManyAsMayBe) {
  for (const char* name : {"c", "a", "b"}) ASSERT_TRUE(store_.Put(Sized(name, 1), false, 0).ok());
  EXPECT_EQ(store_.CheckPut("d", false, 0).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(store_.CheckPut("a", true, 0).ok());
  ASSERT_EQ(store_.List().size(), 3u);
  EXPECT_EQ(store_.List()[0]->name, "a");
  EXPECT_EQ(store_.List()[2]->name, "c");
}

}  // namespace
}  // namespace vicinal
