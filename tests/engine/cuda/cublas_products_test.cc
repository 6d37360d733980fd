// SPDX-License-Identifier: Apache-2.0
// What the process remembers of cuBLAS, with a library and a verification that fail as the test says: no GPU.
#include "engine/cuda/dense/cublas/detail/cublas_products.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/error.h"

namespace vicinal::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Widths = CublasProducts::Widths;
using Pinned = CublasProducts::Pinned;

constexpr Widths kWidths = {602, 256}, kOthers = {256, 41};

// The library: a table whose calls return what the test says.
cublasStatus_t created = CUBLAS_STATUS_SUCCESS;
int creations = 0;

cublasStatus_t Create(cublasLtHandle_t* handle) {
  ++creations;
  // A failed call may leave anything in *handle.
  *handle = reinterpret_cast<cublasLtHandle_t>(handle);
  return created;
}
const char* GetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_ALLOC_FAILED ? "the resource allocation failed" : "the test says so";
}

Status MemoryIsShort() { return ResourceExhausted("OUT_OF_MEMORY", "the device is full", std::chrono::seconds(1)); }

class CublasProductsTest : public ::testing::Test {
 protected:
  CublasProductsTest() {
    library_.Create = &Create;
    library_.GetStatusString = &GetStatusString;
    created = CUBLAS_STATUS_SUCCESS;
    creations = 0;
  }

  StatusOr<LoadedCublas> Load() {
    if (!present_.ok()) return present_;
    VICINAL_ASSIGN_OR_RETURN(const cublasLtHandle_t handle, library_.MakeHandle());
    return LoadedCublas{&library_, handle};
  }
  StatusOr<Pinned> Verify(const LoadedCublas& loaded) {
    ++verifications_;
    EXPECT_EQ(loaded.library, &library_);
    EXPECT_NE(loaded.handle, nullptr);
    if (!verified_.ok()) return verified_;
    return Pinned();
  }

  FakeClock clock_;
  CublasLibrary library_;
  Status present_, verified_;
  int verifications_ = 0;
  CublasProducts products_{
      {[this] { return Load(); }, [this](const LoadedCublas& loaded, const Widths&) { return Verify(loaded); }},
      clock_};
};

std::string ReasonOf(const Status& status) {
  const std::optional<ErrorDetail> detail = DetailOf(status);
  return detail.has_value() ? detail->reason : std::string();
}

TEST_F(CublasProductsTest, IsLoadedAndVerifiedOnce) {
  EXPECT_FALSE(products_.IsSettled(kWidths));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(products_.PinnedFor(kWidths).ok());
  EXPECT_TRUE(products_.IsSettled(kWidths));
  EXPECT_EQ(verifications_, 1);
  EXPECT_TRUE(products_.PinnedFor(kOthers).ok());
  EXPECT_EQ(verifications_, 2);
  EXPECT_EQ(creations, 1);
  clock_.Advance(std::chrono::hours(24));
  EXPECT_TRUE(products_.PinnedFor(kWidths).ok());
  EXPECT_TRUE(products_.LoadToTune().ok());
  EXPECT_EQ(creations, 1);
  EXPECT_EQ(verifications_, 2);
}

TEST_F(CublasProductsTest, ALackOfMemoryWhileLoadingPasses) {
  created = CUBLAS_STATUS_ALLOC_FAILED;
  const Status first = products_.Load().status();
  EXPECT_EQ(first.code(), StatusCode::kResourceExhausted) << first;
  EXPECT_EQ(CublasProducts::RefusalOf(first),
            "cublasLtCreate failed: the resource allocation failed; this may pass: requests try again after 10 s, "
            "tuning each time");
  EXPECT_EQ(products_.PinnedFor(kWidths).status(), first);
  EXPECT_EQ(verifications_, 0);

  clock_.Advance(CublasProducts::kRetryInterval - Nanoseconds(1));
  EXPECT_EQ(products_.Load().status(), first);
  EXPECT_EQ(creations, 1) << "requests do not repeat the attempt at each call";

  clock_.Advance(Nanoseconds(1));
  EXPECT_FALSE(products_.Load().ok());
  EXPECT_EQ(creations, 2);
  created = CUBLAS_STATUS_SUCCESS;
  EXPECT_FALSE(products_.Load().ok()) << "the interval begins anew";
  EXPECT_EQ(creations, 2);

  clock_.Advance(CublasProducts::kRetryInterval);
  EXPECT_TRUE(products_.PinnedFor(kWidths).ok());
  EXPECT_EQ(creations, 3);
  EXPECT_TRUE(products_.Load().ok());
  EXPECT_EQ(creations, 3);
}

TEST_F(CublasProductsTest, TuningTriesAgainAtOnce) {
  created = CUBLAS_STATUS_ALLOC_FAILED;
  EXPECT_FALSE(products_.Load().ok());
  EXPECT_EQ(products_.LoadToTune().status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(creations, 2);
  clock_.Advance(CublasProducts::kRetryInterval - Nanoseconds(1));
  EXPECT_FALSE(products_.Load().ok());
  EXPECT_EQ(creations, 2) << "tuning's attempt counts for requests, too";
  created = CUBLAS_STATUS_SUCCESS;
  EXPECT_TRUE(products_.LoadToTune().ok());
  EXPECT_TRUE(products_.Load().ok()) << "and so does its success";
  EXPECT_EQ(creations, 3);
}

TEST_F(CublasProductsTest, OtherReasonsNotToLoadStay) {
  for (const cublasStatus_t status : {CUBLAS_STATUS_NOT_SUPPORTED, CUBLAS_STATUS_INTERNAL_ERROR}) {
    created = status;
    creations = 0;
    CublasProducts products({[this] { return Load(); }, nullptr}, clock_);
    const Status why = products.Load().status();
    created = CUBLAS_STATUS_SUCCESS;
    clock_.Advance(std::chrono::hours(24));
    EXPECT_EQ(products.PinnedFor(kWidths).status(), why);
    EXPECT_EQ(products.LoadToTune().status(), why);
    EXPECT_EQ(why.code(), StatusCode::kFailedPrecondition) << why;
    EXPECT_EQ(ReasonOf(why), "KERNEL_REFUSED");
    EXPECT_EQ(CublasProducts::RefusalOf(why), "cublasLtCreate failed: the test says so");
    EXPECT_EQ(creations, 1);
  }
}

TEST_F(CublasProductsTest, AMissingLibraryIsLookedForOnce) {
  present_ = FailedPrecondition("KERNEL_REFUSED", "cuBLAS is not there");
  EXPECT_EQ(CublasProducts::RefusalOf(products_.Load().status()), "cuBLAS is not there");
  present_ = OkStatus();
  clock_.Advance(std::chrono::hours(24));
  EXPECT_EQ(CublasProducts::RefusalOf(products_.LoadToTune().status()), "cuBLAS is not there");
  EXPECT_EQ(creations, 0);
}

TEST_F(CublasProductsTest, ALackOfMemoryWhileVerifyingPasses) {
  verified_ = MemoryIsShort();
  EXPECT_EQ(products_.PinnedFor(kWidths).status(), verified_);
  EXPECT_FALSE(products_.IsSettled(kWidths)) << "tuning must prepare these widths";
  EXPECT_EQ(products_.PinnedFor(kWidths).status(), verified_);
  EXPECT_EQ(verifications_, 1);
  EXPECT_THAT(CublasProducts::RefusalOf(verified_), HasSubstr("the device is full; this may pass"));

  verified_ = OkStatus();
  EXPECT_TRUE(products_.PinnedFor(kOthers).ok()) << "less memory may be enough for other widths";
  EXPECT_FALSE(products_.PinnedFor(kWidths).ok());
  clock_.Advance(CublasProducts::kRetryInterval);
  EXPECT_TRUE(products_.PinnedFor(kWidths).ok());
  EXPECT_TRUE(products_.IsSettled(kWidths));
  EXPECT_EQ(verifications_, 3);
  EXPECT_EQ(creations, 1);
}

TEST_F(CublasProductsTest, WhatTuningVerifiedServesRequestsAtOnce) {
  verified_ = MemoryIsShort();
  EXPECT_FALSE(products_.PinnedFor(kWidths).ok());
  products_.Remember(kWidths, Pinned());
  EXPECT_TRUE(products_.PinnedFor(kWidths).ok());
  products_.Remember(kWidths, MemoryIsShort());
  EXPECT_TRUE(products_.PinnedFor(kWidths).ok()) << "the first settled answer stays";
  EXPECT_EQ(verifications_, 1);
}

TEST_F(CublasProductsTest, ARefusalOfTheBitsStays) {
  verified_ = FailedPrecondition("KERNEL_REFUSED", "cuBLAS gives 7 elements other bits");
  EXPECT_EQ(products_.PinnedFor(kWidths).status(), verified_);
  EXPECT_TRUE(products_.IsSettled(kWidths));
  EXPECT_THAT(CublasProducts::RefusalOf(verified_), Not(HasSubstr("pass")));
  verified_ = OkStatus();
  clock_.Advance(std::chrono::hours(24));
  EXPECT_FALSE(products_.PinnedFor(kWidths).ok());
  EXPECT_EQ(verifications_, 1);
}

TEST_F(CublasProductsTest, AnErrorThatIsNoAnswerIsNotKept) {
  verified_ = Internal("the device is lost");
  EXPECT_EQ(products_.PinnedFor(kWidths).status(), verified_);
  EXPECT_FALSE(products_.IsSettled(kWidths));
  EXPECT_EQ(products_.PinnedFor(kWidths).status(), verified_);
  EXPECT_EQ(verifications_, 2);
}

TEST_F(CublasProductsTest, ManyWhoAskAtOnceMakeOneAttempt) {
  for (const Status& outcome : {OkStatus(), MemoryIsShort()}) {
    verified_ = outcome;
    verifications_ = creations = 0;
    CublasProducts products(
        {[this] { return Load(); }, [this](const LoadedCublas& loaded, const Widths&) { return Verify(loaded); }},
        clock_);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&] { EXPECT_EQ(products.PinnedFor(kWidths).status(), outcome); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(creations, 1);
    EXPECT_EQ(verifications_, 1);
  }
}

}  // namespace
}  // namespace vicinal::cuda
