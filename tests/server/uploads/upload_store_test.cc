// SPDX-License-Identifier: Apache-2.0
#include "server/uploads/upload_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <memory>
#include <new>
#include <thread>

#include "engine/base/error.h"
#include "proto/wire/crc32c.h"

namespace vicinal::server {
namespace {

UploadManifest Declared(const std::string& id, int64_t bytes, const std::string& spec = "spec") {
  UploadManifest manifest;
  manifest.upload_id = id;
  manifest.resource_name = "g";
  manifest.spec = spec;
  manifest.tensors = {{"t", DataType::kUint8, {bytes}, bytes}};
  return manifest;
}

v1::UploadChunk Chunk(int64_t offset, const std::string& data) {
  v1::UploadChunk chunk;
  chunk.set_tensor("t");
  chunk.set_offset_bytes(offset);
  chunk.set_data(data);
  chunk.set_crc32c(wire::Crc32c(data.data(), data.size()));
  return chunk;
}

Status Fine() { return OkStatus(); }

class UploadStoreTest : public ::testing::Test {
 protected:
  UploadStoreTest() {
    options_.ttl = std::chrono::seconds(60);
    options_.max_open_uploads = 3;
    options_.max_chunk_bytes = 100;
    options_.clock = &clock_;
    options_.budget = &budget_;
  }
  UploadStore& store() {
    if (store_ == nullptr) store_ = std::make_unique<UploadStore>(options_);
    return *store_;
  }
  StatusOr<std::string> Finish(const UploadStore::Hold& hold, const UploadStore::Make& make) {
    return store().Finish(hold, {}, make);
  }

  int64_t upload_bytes() const { return options_.budget->Snapshot().uploads; }

  FakeClock clock_;
  MemoryBudget budget_{0};
  UploadStore::Options options_;
  std::unique_ptr<UploadStore> store_;
};

TEST_F(UploadStoreTest, TakesChunksAndFinishesOnce) {
  const auto hold = store().Begin(Declared("upload-1", 10), Fine);
  ASSERT_TRUE(hold.ok());
  EXPECT_EQ(*store().Append(*hold, Chunk(0, "01234")), 5);
  EXPECT_EQ(*store().Append(*hold, Chunk(0, "01234")), 0);  // a repeat
  EXPECT_EQ(*store().Append(*hold, Chunk(5, "")), 0);
  EXPECT_EQ(upload_bytes(), 5);
  EXPECT_EQ(Finish(*hold, nullptr).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(*store().Append(*hold, Chunk(5, "56789")), 5);
  int made = 0;
  const auto make = [&](UploadContent& content) -> StatusOr<std::string> {
    ++made;
    return content.Take("t")->bytes;
  };
  EXPECT_EQ(*Finish(*hold, make), "0123456789");
  EXPECT_EQ(*Finish(*hold, make), "0123456789");
  EXPECT_EQ(*Finish(*store().Resume(UploadKind::kGraph, "upload-1"), make), "0123456789");
  EXPECT_EQ(made, 1);
  EXPECT_EQ(upload_bytes(), 0);
  EXPECT_EQ(store().open_uploads(), 0);
  EXPECT_EQ(store().Get("upload-1")->state(), v1::Upload::STATE_FINISHED);
  EXPECT_EQ(store().Get("upload-1")->tensors(0).received_bytes(), 10);
}

TEST_F(UploadStoreTest, RefusesBadChunksAndStaysOpen) {
  const auto hold = *store().Begin(Declared("upload-1", 1000), Fine);
  ASSERT_TRUE(store().Append(hold, Chunk(0, "0123")).ok());
  auto damaged = Chunk(4, "4567");
  damaged.set_crc32c(damaged.crc32c() + 1);
  auto unknown = Chunk(4, "4567");
  unknown.set_tensor("u");
  const struct {
    v1::UploadChunk chunk;
    StatusCode code;
    const char* reason;
  } cases[] = {{damaged, StatusCode::kAborted, "CHUNK_DAMAGED"},
               {Chunk(5, "5"), StatusCode::kAborted, "CHUNK_OUT_OF_PLACE"},
               {Chunk(2, "2345"), StatusCode::kAborted, "CHUNK_OUT_OF_PLACE"},
               {Chunk(-1, "x"), StatusCode::kAborted, "CHUNK_OUT_OF_PLACE"},
               {Chunk(INT64_MAX, "x"), StatusCode::kAborted, "CHUNK_OUT_OF_PLACE"},
               {Chunk(INT64_MIN, "x"), StatusCode::kAborted, "CHUNK_OUT_OF_PLACE"},
               {unknown, StatusCode::kInvalidArgument, "BAD_UPLOAD"},
               {Chunk(4, std::string(101, 'x')), StatusCode::kInvalidArgument, "LIMIT_EXCEEDED"}};
  for (const auto& bad : cases) {
    const Status status = store().Append(hold, bad.chunk).status();
    EXPECT_EQ(status.code(), bad.code) << status;
    const auto detail = DetailOf(status);
    ASSERT_TRUE(detail.has_value());
    EXPECT_EQ(detail->reason, bad.reason);
    if (bad.code == StatusCode::kAborted) {
      EXPECT_EQ(detail->metadata.at("offset"), "4");
    }
  }
  EXPECT_EQ(*store().Append(hold, Chunk(4, "4567")), 4);
}

TEST_F(UploadStoreTest, ChunkBeyondTheEnd) {
  const auto hold = *store().Begin(Declared("upload-1", 6), Fine);
  ASSERT_TRUE(store().Append(hold, Chunk(0, "0123")).ok());
  EXPECT_EQ(DetailOf(store().Append(hold, Chunk(4, "4567")).status())->reason, "CHUNK_TOO_LONG");
}

TEST_F(UploadStoreTest, AnIdIsOneUpload) {
  ASSERT_TRUE(store().Begin(Declared("upload-1", 6), Fine).ok());
  int asked = 0;
  const auto admit = [&] {
    ++asked;
    return OkStatus();
  };
  EXPECT_TRUE(store().Begin(Declared("upload-1", 6), admit).ok());
  EXPECT_EQ(asked, 0);  // it goes on: nothing is admitted anew
  EXPECT_EQ(store().Begin(Declared("upload-1", 6, "other"), admit).status().code(), StatusCode::kInvalidArgument);
  auto features = Declared("upload-1", 6);
  features.kind = UploadKind::kFeatures;
  EXPECT_EQ(store().Begin(features, admit).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(store().Resume(UploadKind::kModel, "upload-1").status().code(), StatusCode::kNotFound);
}

TEST_F(UploadStoreTest, TheNewerStreamTakesOver) {
  const auto older = *store().Begin(Declared("upload-1", 6), Fine);
  const auto newer = *store().Resume(UploadKind::kGraph, "upload-1");
  EXPECT_EQ(DetailOf(store().Append(older, Chunk(0, "0")).status())->reason, "UPLOAD_TAKEN_OVER");
  EXPECT_EQ(Finish(older, nullptr).status().code(), StatusCode::kAborted);
  EXPECT_TRUE(store().Append(newer, Chunk(0, "0")).ok());
}

TEST_F(UploadStoreTest, ExpiresWhenNothingComes) {
  const auto hold = *store().Begin(Declared("upload-1", 6), Fine);
  clock_.Advance(std::chrono::seconds(40));
  ASSERT_TRUE(store().Append(hold, Chunk(0, "0123")).ok());
  clock_.Advance(std::chrono::seconds(40));
  EXPECT_TRUE(store().Get("upload-1").ok());  // the chunk kept it alive
  clock_.Advance(std::chrono::seconds(20));
  EXPECT_EQ(upload_bytes(), 4);
  store().Expire();
  EXPECT_EQ(upload_bytes(), 0);
  EXPECT_EQ(store().Get("upload-1").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store().Append(hold, Chunk(4, "45")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Finish(hold, nullptr).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(store().Begin(Declared("upload-1", 6, "another spec"), Fine).ok());
}

TEST_F(UploadStoreTest, FinishedOnesAreRememberedUntilTheyExpire) {
  const auto hold = *store().Begin(Declared("upload-1", 0), Fine);
  ASSERT_TRUE(Finish(hold, [](UploadContent&) -> StatusOr<std::string> { return std::string("made"); }).ok());
  clock_.Advance(std::chrono::seconds(59));
  EXPECT_TRUE(store().Get("upload-1").ok());
  EXPECT_EQ(store().Get("upload-1")->expire_time().seconds(), 1 + 60);
  clock_.Advance(std::chrono::seconds(1));
  EXPECT_FALSE(store().Knows("upload-1"));
}

// A client that waits for its graph asks for the end of its upload again.
TEST_F(UploadStoreTest, WhatIsBeingPreparedIsNotForgotten) {
  const auto hold = *store().Begin(Declared("upload-1", 0), Fine);
  bool goes_on = true;
  int made = 0;
  const auto make = [&](UploadContent&) -> StatusOr<std::string> {
    return std::string(1, static_cast<char>('a' + made++));
  };
  ASSERT_TRUE(store().Finish(hold, {}, make, [&] { return goes_on; }).ok());
  for (int minute = 0; minute < 5; ++minute) {
    clock_.Advance(std::chrono::seconds(61));
    store().Expire();
    const auto again = store().Resume(UploadKind::kGraph, "upload-1");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*Finish(*again, make), "a");
  }
  clock_.Advance(std::chrono::seconds(59));
  store().Expire();
  clock_.Advance(std::chrono::seconds(1));
  store().Expire();  // it has not ended: the time begins again
  goes_on = false;
  clock_.Advance(std::chrono::seconds(59));
  EXPECT_TRUE(store().Knows("upload-1"));
  clock_.Advance(std::chrono::seconds(1));
  EXPECT_FALSE(store().Knows("upload-1"));
}

TEST_F(UploadStoreTest, AFailedFinishIsForgottenInTime) {
  const auto hold = *store().Begin(Declared("upload-1", 0), Fine);
  const auto fails = [](UploadContent&) -> StatusOr<std::string> { return Internal("no"); };
  ASSERT_FALSE(store().Finish(hold, {}, fails, [] { return true; }).ok());
  clock_.Advance(std::chrono::seconds(60));
  EXPECT_FALSE(store().Knows("upload-1"));
}

// Refused models keep their architectures, megabytes each, for the time that they may be asked about.
TEST_F(UploadStoreTest, WhatIsKeptOfFinishedOnesIsBounded) {
  constexpr int kUploads = 20;
  const std::string spec(4 << 20, 's');
  const auto id = [](int i) { return "upload-" + std::to_string(i); };
  for (int i = 0; i < kUploads; ++i) {
    const auto hold = store().Begin(Declared(id(i), 0, spec), Fine);
    ASSERT_TRUE(hold.ok()) << hold.status();
    clock_.Advance(std::chrono::seconds(1));
    const auto wrong = [](UploadContent&) -> StatusOr<std::string> { return InvalidArgument("BAD", "x", "wrong"); };
    EXPECT_EQ(Finish(*hold, wrong).status().message(), "wrong");
  }
  int64_t known = 0;
  for (int i = 0; i < kUploads; ++i) known += store().Knows(id(i)) ? 1 : 0;
  EXPECT_LE(known * static_cast<int64_t>(spec.size()), 64 << 20);
  EXPECT_TRUE(store().Knows(id(kUploads - 1)));  // the last may still be asked about
  EXPECT_FALSE(store().Knows(id(0)));
}

TEST_F(UploadStoreTest, ErrorsThatStayAreTheAnswerAndOthersAreNot) {
  const auto hold = *store().Begin(Declared("upload-1", 1), Fine);
  ASSERT_TRUE(store().Append(hold, Chunk(0, "x")).ok());
  // Busy, and nothing was taken out: the same upload can be finished later.
  EXPECT_EQ(Finish(hold,
                   [](UploadContent& content) -> StatusOr<std::string> {
                     EXPECT_EQ(content.Look("t")->bytes, "x");
                     return Unavailable("BUSY", "busy", std::chrono::milliseconds(1));
                   })
                .status()
                .code(),
            StatusCode::kUnavailable);
  EXPECT_EQ(store().Get("upload-1")->state(), v1::Upload::STATE_UPLOADING);
  // Wrong for good: the answer is kept.
  int made = 0;
  const auto wrong = [&](UploadContent&) -> StatusOr<std::string> {
    ++made;
    return InvalidArgument("BAD", "x", "wrong");
  };
  EXPECT_EQ(Finish(hold, wrong).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Finish(hold, wrong).status().message(), "wrong");
  EXPECT_EQ(made, 1);
  // Aborted is wrong for good, too: a version that differs goes on differing, and the upload must not stay open.
  const auto differs = *store().Begin(Declared("upload-3", 1), Fine);
  ASSERT_TRUE(store().Append(differs, Chunk(0, "x")).ok());
  EXPECT_FALSE(Finish(differs, [](UploadContent&) -> StatusOr<std::string> {
                 return MakeError(StatusCode::kAborted, "differs", {});
               }).ok());
  EXPECT_EQ(store().Get("upload-3")->state(), v1::Upload::STATE_FINISHED);
  EXPECT_EQ(store().open_uploads(), 0);
  // Busy after the content was taken: it must be sent again, so the upload is forgotten.
  const auto taken = *store().Begin(Declared("upload-2", 1), Fine);
  ASSERT_TRUE(store().Append(taken, Chunk(0, "x")).ok());
  EXPECT_FALSE(Finish(taken, [](UploadContent& content) -> StatusOr<std::string> {
                 content.Take("t");
                 return Unavailable("BUSY", "busy", std::chrono::milliseconds(1));
               }).ok());
  EXPECT_FALSE(store().Knows("upload-2"));
  EXPECT_EQ(upload_bytes(), 0);
}

TEST_F(UploadStoreTest, AFinishWithoutMemoryIsOverAndMayBeTriedAgain) {
  const auto hold = *store().Begin(Declared("upload-1", 1), Fine);
  ASSERT_TRUE(store().Append(hold, Chunk(0, "x")).ok());
  const Status failed = Finish(hold, [](UploadContent&) -> StatusOr<std::string> { throw std::bad_alloc(); }).status();
  EXPECT_EQ(failed.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(DetailOf(failed)->reason, "OUT_OF_MEMORY");
  EXPECT_EQ(store().Get("upload-1")->state(), v1::Upload::STATE_UPLOADING);
  // Nothing was taken out: the next finish works. This one takes it out before memory ends.
  const auto take = [](UploadContent& content) -> StatusOr<std::string> {
    content.Take("t");
    throw std::bad_alloc();
  };
  EXPECT_EQ(Finish(hold, take).status().code(), StatusCode::kResourceExhausted);
  EXPECT_FALSE(store().Knows("upload-1"));
  EXPECT_EQ(upload_bytes(), 0);
  EXPECT_EQ(store().open_uploads(), 0);
}

// Who was refused may free memory and finish again. Who begins anew instead leaves nothing behind.
TEST_F(UploadStoreTest, WhatWasRefusedIsKeptUntilItIsBegunAnew) {
  MemoryBudget budget(100);
  options_.budget = &budget;
  const auto refuse = [](UploadContent&) -> StatusOr<std::string> {
    return ResourceExhausted("BUDGET_FULL", "full", std::chrono::milliseconds(1));
  };
  const auto begin = [this](const std::string& id, const std::string& resource, const char* tensor) {
    UploadManifest manifest = Declared(id, 60);
    manifest.kind = UploadKind::kFeatures;
    manifest.resource_name = resource;
    manifest.tensors[0].name = tensor;
    return store().Begin(manifest, Fine);
  };
  const auto fill = [this](const UploadStore::Hold& hold, const char* tensor) {
    v1::UploadChunk chunk = Chunk(0, std::string(60, 'x'));
    chunk.set_tensor(tensor);
    return store().Append(hold, chunk).status();
  };
  const auto first = begin("upload-1", "g/s", "edge_attr");
  ASSERT_TRUE(first.ok() && fill(*first, "edge_attr").ok());
  EXPECT_EQ(Finish(*first, refuse).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(upload_bytes(), 60);
  // Other resources have no room beside it. A set of nodes of that name is another resource.
  EXPECT_EQ(begin("upload-2", "g/t", "edge_attr").status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(begin("upload-3", "g/s", "x").status().code(), StatusCode::kResourceExhausted);
  // A stream that has resumed it is about to finish it.
  const auto resumed = store().Resume(UploadKind::kFeatures, "upload-1");
  ASSERT_TRUE(resumed.ok());
  EXPECT_EQ(begin("upload-4", "g/s", "edge_attr").status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Finish(*resumed, refuse).status().code(), StatusCode::kResourceExhausted);
  const auto anew = begin("upload-4", "g/s", "edge_attr");
  ASSERT_TRUE(anew.ok()) << anew.status();
  EXPECT_FALSE(store().Knows("upload-1"));
  EXPECT_EQ(upload_bytes(), 0);
  EXPECT_EQ(Finish(*resumed, refuse).status().code(), StatusCode::kNotFound);
  // A chunk that was refused is no other than a finish.
  Reservation graphs = budget.Reserve(Account::kGraphs, 90, "graphs").value();
  v1::UploadChunk piece = Chunk(0, std::string(10, 'x'));
  piece.set_tensor("edge_attr");
  ASSERT_TRUE(store().Append(*anew, piece).ok());
  piece.set_offset_bytes(10);
  EXPECT_EQ(store().Append(*anew, piece).status().code(), StatusCode::kResourceExhausted);
  graphs.Release();
  const auto last = begin("upload-5", "g/s", "edge_attr");
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_FALSE(store().Knows("upload-4"));
  EXPECT_EQ(store().open_uploads(), 1);
  store_.reset();
}

TEST_F(UploadStoreTest, BoundsOnCountAndBytes) {
  MemoryBudget budget(1000);
  options_.budget = &budget;
  const auto graphs = [&](int64_t bytes) { return budget.Reserve(Account::kGraphs, bytes, "a graph").value(); };
  EXPECT_EQ(store().Begin(Declared("upload-0", 1001), Fine).status().code(), StatusCode::kFailedPrecondition);
  Reservation others = graphs(500);
  UploadManifest second = Declared("upload-0", 600);
  second.replace = true;
  const Status kept = store().Begin(second, Fine).status();
  EXPECT_EQ(kept.code(), StatusCode::kResourceExhausted);
  for (const char* words : {"held by graphs 500 bytes", "both must fit"}) {
    EXPECT_NE(kept.message().find(words), absl::string_view::npos) << kept;
  }
  EXPECT_FALSE(DetailOf(kept)->retry_after.has_value()) << "graphs do not go by themselves";
  const auto hold = *store().Begin(Declared("upload-1", 400), Fine);
  others.Release();
  others = graphs(950);
  EXPECT_EQ(store().Append(hold, Chunk(0, std::string(60, 'x'))).status().code(), StatusCode::kResourceExhausted);
  others.Release();
  EXPECT_EQ(*store().Append(hold, Chunk(0, std::string(60, 'x'))), 60);
  ASSERT_TRUE(store().Begin(Declared("upload-2", 1), Fine).ok());
  ASSERT_TRUE(store().Begin(Declared("upload-3", 1), Fine).ok());
  const Status full = store().Begin(Declared("upload-4", 1), Fine).status();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(DetailOf(full)->retry_after.has_value());
  EXPECT_EQ(store().Begin(Declared("upload-5", 1), [] { return NotFound("graph", "g"); }).status().code(),
            StatusCode::kNotFound);
  store_.reset();
}

TEST_F(UploadStoreTest, WhatIsKeptToBeUsedAgainIsEvicted) {
  MemoryBudget budget(1000);
  options_.budget = &budget;
  Reservation plans;
  int evicted = 0;
  budget.AddEvictor(Account::kPlans, [&](int64_t bytes) {
    ++evicted;
    EXPECT_EQ(bytes, 200);
    plans.Release();
    return true;
  });
  const Reservation graphs = budget.Reserve(Account::kGraphs, 500, "a graph").value();
  plans = budget.Reserve(Account::kPlans, 400, "plans").value();
  EXPECT_EQ(store().Begin(Declared("upload-0", 501), Fine).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(evicted, 0) << "it would not suffice";
  EXPECT_TRUE(store().Begin(Declared("upload-1", 300), Fine).ok());
  EXPECT_EQ(evicted, 1);
  EXPECT_TRUE(store().Begin(Declared("upload-2", 300), Fine).ok()) << "a manifest reserves nothing";
  EXPECT_EQ(evicted, 1);
  store_.reset();
}

// Two uploads of 400 bytes that finish at the same time, each made into something of 600, in a budget of 1000: checked
// one after the other without a reservation, both were let in.
TEST_F(UploadStoreTest, TwoThatFinishAtOnceNeverHoldMoreThanTheBudget) {
  constexpr int64_t kBudget = 1000;
  MemoryBudget budget(kBudget);
  options_.budget = &budget;
  options_.max_chunk_bytes = 400;
  UploadStore::Hold holds[2];
  for (int i = 0; i < 2; ++i) {
    holds[i] = *store().Begin(Declared("upload-" + std::to_string(i), 400), Fine);
    ASSERT_EQ(*store().Append(holds[i], Chunk(0, std::string(400, 'x'))), 400);
  }
  std::barrier<> both(2);
  Reservation made[2];
  StatusCode codes[2] = {};
  const auto finish = [&](int i) {
    codes[i] = Finish(holds[i],
                      [&](UploadContent& content) -> StatusOr<std::string> {
                        content.Take("t");
                        Reservation tensors = std::move(content.memory);
                        both.arrive_and_wait();  // both hold their tensors now
                        StatusOr<Reservation> memory =
                            budget.Reserve(Account::kPreparing, 600, "a graph", {.consumed = &tensors});
                        EXPECT_LE(budget.Snapshot().total(), kBudget);
                        both.arrive_and_wait();  // neither released anything before the other asked
                        if (!memory.ok()) return memory.status();
                        made[i] = *std::move(memory);
                        return std::string("made");
                      })
                   .status()
                   .code();
  };
  std::thread other([&] { finish(0); });
  finish(1);
  other.join();
  EXPECT_EQ((codes[0] == StatusCode::kOk) + (codes[1] == StatusCode::kOk), 1);
  EXPECT_EQ((codes[0] == StatusCode::kResourceExhausted) + (codes[1] == StatusCode::kResourceExhausted), 1);
  EXPECT_EQ(budget.Snapshot().preparing, 600);
  EXPECT_EQ(budget.Snapshot().uploads, 0) << "the tensors of the refused one are gone, too";
  store_.reset();
}

TEST_F(UploadStoreTest, AClaimReservesNothing) {
  // 2^60 bytes could not be reserved: it is only ever a number until chunks come.
  const auto hold = store().Begin(Declared("upload-1", int64_t{1} << 60), Fine);
  ASSERT_TRUE(hold.ok());
  EXPECT_TRUE(store().Append(*hold, Chunk(0, "x")).ok());
  EXPECT_EQ(upload_bytes(), 1);
}

// Says when a waiting finish looks at its limits, so that the test knows that it waits.
class WatchedClock final : public Clock {
 public:
  MonotonicTime Now() const override {
    looks_.fetch_add(1);
    looks_.notify_all();
    return MonotonicTime(std::chrono::seconds(1));
  }
  WallTime WallNow() const override { return WallTime(); }
  void AwaitLook(int after) const {
    for (int seen = looks_.load(); seen <= after; seen = looks_.load()) looks_.wait(seen);
  }
  int looks() const { return looks_.load(); }

 private:
  mutable std::atomic<int> looks_{0};
};

TEST_F(UploadStoreTest, ASecondFinishWaitsForTheFirstAndAnswersAsItDid) {
  WatchedClock clock;
  options_.clock = &clock;
  const auto hold = *store().Begin(Declared("upload-1", 1), Fine);
  ASSERT_TRUE(store().Append(hold, Chunk(0, "x")).ok());
  StatusOr<std::string> second = std::string("never asked");
  std::thread other;
  const auto first = Finish(hold, [&](UploadContent&) -> StatusOr<std::string> {
    WorkLimits gone;
    const auto cancelled = std::make_shared<CancelToken>();
    cancelled->Cancel();
    gone.cancel = cancelled;
    EXPECT_EQ(store().Finish(hold, gone, nullptr).status().code(), StatusCode::kCancelled);
    const int before = clock.looks();
    other = std::thread([&] {
      WorkLimits patient;
      patient.deadline = MonotonicTime(std::chrono::hours(1));
      second = store().Finish(hold, patient, nullptr);
    });
    clock.AwaitLook(before);
    return std::string("made once");
  });
  other.join();
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  EXPECT_EQ(*first, "made once");
  EXPECT_EQ(*second, "made once");
}

TEST_F(UploadStoreTest, WhatNothingArrivedOfIsForgottenWithItsStream) {
  for (int i = 0; i < 10; ++i) {  // more than may be open
    const auto hold = store().Begin(Declared("upload-" + std::to_string(i), 6), Fine);
    ASSERT_TRUE(hold.ok()) << hold.status();
    store().Leave(*hold);
    EXPECT_FALSE(store().Knows("upload-" + std::to_string(i)));
  }
  EXPECT_EQ(store().open_uploads(), 0);
  // One of which something arrived stays; so does one that a newer stream goes on with, until that one leaves.
  const auto some = *store().Begin(Declared("upload-some", 6), Fine);
  ASSERT_TRUE(store().Append(some, Chunk(0, "0")).ok());
  store().Leave(some);
  EXPECT_TRUE(store().Knows("upload-some"));
  const auto older = *store().Begin(Declared("upload-taken", 6), Fine);
  const auto newer = *store().Resume(UploadKind::kGraph, "upload-taken");
  store().Leave(older);
  EXPECT_TRUE(store().Append(newer, Chunk(0, "")).ok());
  store().Leave(newer);
  EXPECT_FALSE(store().Knows("upload-taken"));
  EXPECT_EQ(store().Append(newer, Chunk(0, "0")).status().code(), StatusCode::kNotFound);
  // A finished one of no bytes is remembered.
  const auto empty = *store().Begin(Declared("upload-empty", 0), Fine);
  ASSERT_TRUE(Finish(empty, [](UploadContent&) -> StatusOr<std::string> { return std::string("made"); }).ok());
  store().Leave(empty);
  EXPECT_TRUE(store().Knows("upload-empty"));
}

TEST_F(UploadStoreTest, StressStreamsThatFightForOneUpload) {
  constexpr int64_t kBytes = 4000;
  options_.max_open_uploads = 100;
  std::atomic<int> made{0}, answered{0};
  const auto stream = [&] {
    while (true) {
      auto hold = store().Begin(Declared("upload-1", kBytes), Fine);
      ASSERT_TRUE(hold.ok());
      while (true) {
        const int64_t received = store().Describe(*hold).tensors(0).received_bytes();
        if (received == kBytes) break;
        if (!store().Append(*hold, Chunk(received, std::string(50, 'x'))).ok()) break;
      }
      const auto answer = Finish(*hold, [&](UploadContent& content) -> StatusOr<std::string> {
        ++made;
        return std::to_string(content.Take("t")->bytes.size());
      });
      if (!answer.ok()) continue;
      EXPECT_EQ(*answer, std::to_string(kBytes));
      ++answered;
      return;
    }
  };
  store();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(stream);
  std::thread housekeeper([&] {
    while (answered < 4) {
      store().Expire();
      store().open_uploads();
      store().Get("upload-1").status().IgnoreError();
    }
  });
  for (std::thread& thread : threads) thread.join();
  housekeeper.join();
  EXPECT_EQ(made, 1);
  EXPECT_EQ(upload_bytes(), 0);
}

}  // namespace
}  // namespace vicinal::server
