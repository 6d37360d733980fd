// SPDX-License-Identifier: Apache-2.0
// Models by name: versions, replacement under conditions, and reservations.
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
  StoredModel Sized(const std::string& name, int64_t bytes) {
    auto model = std::make_shared<Model>();
    model->size_bytes = bytes;
    StoredModel stored;
    stored.name = name;
    stored.model = std::move(model);
    stored.memory = std::make_shared<Reservation>(budget_.Reserve(Account::kPreparing, bytes, "a test").value());
    return stored;
  }

  FakeClock clock_;
  MemoryBudget budget_{0};
  ModelStore store_{{3, &clock_}};
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
  const Status gone = store_.Find("m", (*first)->version).status(), never = store_.Find("m", 9999).status();
  EXPECT_EQ(gone.code(), StatusCode::kNotFound);
  EXPECT_EQ(gone.message(),
            "model 'm' has no version 1: only its latest is kept, 2; request 2, or 0 for whichever is the "
            "latest");
  EXPECT_EQ(DetailOf(never)->reason, "VERSION_NOT_FOUND");
  EXPECT_EQ(never.message(),
            "model 'm' has no version 9999 yet: its latest is 2; request 2, or 0 for whichever is the "
            "latest");
  EXPECT_EQ(budget_.Snapshot().models, 20);
  EXPECT_EQ(budget_.Snapshot().requests, 10) << "the old version is still used";
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

TEST_F(ModelStoreTest, AModelHoldsItsReservation) {
  auto handle = *store_.Put(Sized("a", 600), false, 0);
  EXPECT_EQ(budget_.Snapshot().models, 600);
  EXPECT_FALSE(store_.Put(Sized("a", 5), false, 0).ok());
  EXPECT_EQ(budget_.Snapshot().total(), 600) << "a refused model holds nothing";
  auto model = handle->model;
  handle = nullptr;
  ASSERT_TRUE(store_.Delete("a", 0).ok());
  EXPECT_EQ(budget_.Snapshot().models, 0);
  EXPECT_EQ(budget_.Snapshot().requests, 600) << "a request still runs it";
  model = nullptr;
  EXPECT_EQ(budget_.Snapshot().total(), 0);
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
