// SPDX-License-Identifier: Apache-2.0
// Power failures, kills, failing operations and damage, over random histories of a state directory. With sanitizers,
// fewer of each: they watch memory in the same code, and builds without them check what every history leaves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <string>

#include "engine/base/error.h"
#include "engine/base/sanitized.h"
#include "tests/engine/state/history.h"

namespace vicinal::state {
namespace {

constexpr int kTimesFewer = VICINAL_SANITIZED ? 4 : 1;

TEST(CrashTest, WhatWasDurableSurvivesPowerFailures) {
  int64_t crashes = 0, published = 0;
  for (uint64_t seed = 1; seed <= 80 / kTimesFewer && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    History history(seed);
    for (int segment = 0; segment < 4; ++segment) {
      int64_t kill_after = segment % 2 == 0 ? -1 : static_cast<int64_t>(history.random().Next() % 100);
      history.files().set_hook([&] {
        if (history.random().Next() % 12 == 0) history.CheckCrash();
        if (kill_after-- == 0) history.files().Kill();
      });
      history.Open();
      for (int step = 0; step < 12; ++step) history.Step();
      published += history.published();
      history.files().set_hook(nullptr);
      segment % 2 == 0 ? history.CutPower() : history.Restart();
    }
    history.CheckCrash();
    crashes += history.crashes();
  }
  std::printf("%lld power failures, %lld versions\n", static_cast<long long>(crashes),
              static_cast<long long>(published));
  EXPECT_GE(crashes, 1000 / kTimesFewer);
  EXPECT_GE(published, 300 / kTimesFewer);
}

TEST(CrashTest, EveryOperationMayFailOnce) {
  constexpr std::array kErrors = {ENOSPC, EIO, EROFS};
  constexpr bool kInTurns = VICINAL_SANITIZED;  // each operation fails with one of the errors, not with each
  int64_t failures = 0;
  for (size_t kind = 0; kind < kErrors.size(); ++kind) {
    const int error = kErrors[kind];
    bool failed = true;
    for (int64_t index = kInTurns ? kind : 0; failed && !::testing::Test::HasFailure();
         index += kInTurns ? kErrors.size() : 1) {
      SCOPED_TRACE("operation " + std::to_string(index) + ", error " + std::to_string(error));
      History history(7);
      history.files().FailAt(index, error);
      history.Open();
      for (int step = 0; step < 14; ++step) history.Step();
      failed = history.files().failed();
      failures += failed ? 1 : 0;
      for (int i = 0; i < 3; ++i) history.CheckCrash();
      history.CutPower();
      for (int step = 0; step < 3; ++step) history.Step();
      history.CheckCrash();
      ASSERT_LT(index, 2000);
    }
  }
  std::printf("%lld failed operations\n", static_cast<long long>(failures));
  EXPECT_GT(failures, kInTurns ? 100 : 300);
}

TEST(CrashTest, DamageOfAnyFileIsFoundAndStaysLocal) {
  SimulatedFileSystem whole;
  const std::vector<VersionId> ids = {{Store::kGraphs, "g", 1, "", 0},
                                      {Store::kFeatures, "x", 2, "g", 1},
                                      {Store::kEdgeFeatures, "x", 3, "g", 1},
                                      {Store::kGraphs, "other", 3, "", 0},
                                      {Store::kModels, "m", 4, "", 0}};
  const VersionId lost{Store::kModels, "lost", 3, "", 0};
  {
    const auto directory = StateDirectory::Open(&whole, {});
    ASSERT_TRUE(directory.ok());
    for (const Store store : kAllStores) ASSERT_TRUE((*directory)->ReserveVersions(store, 4).ok());
    for (const VersionId& id : ids) ASSERT_TRUE(PublishVersion(**directory, id).ok());
    ASSERT_TRUE(PublishVersion(**directory, lost).ok());
    ASSERT_TRUE((*directory)->Quarantine(lost, Internal("for a test")).ok());
  }
  testing::SplitMix64 random(5);
  int64_t cases = 0, damaged = 0;
  for (const std::string& path : whole.AllFiles()) {
    const int64_t bytes = whole.Stat(path)->bytes;
    const auto owner = [&](const VersionId& id) { return path.find(*PathOf(id) + "/") == 0; };
    for (int64_t at = 0; at < bytes; at += (at < 700 ? 1 : 1 + bytes / 50) * kTimesFewer) {
      SCOPED_TRACE(path + " byte " + std::to_string(at));
      ++cases;
      const auto files = whole.CutPower(random);
      files->XorByte(path, at, static_cast<uint8_t>(1 + random.Next() % 255));
      const auto directory = StateDirectory::Open(files.get(), {});
      if (!directory.ok()) {
        EXPECT_EQ(path, "FORMAT") << directory.status();
        EXPECT_EQ(directory.status().code(), StatusCode::kDataLoss);
        continue;
      }
      EXPECT_EQ((*directory)->repairs().empty(), path != "INCARNATION" && path != "VERSIONS");
      const auto all_lost = (*directory)->Lost();
      EXPECT_EQ((*directory)->CheckLost().code(), path == "LOST" ? StatusCode::kDataLoss : StatusCode::kOk);
      ASSERT_TRUE(all_lost.ok() && !all_lost->empty()) << "the reason beside its files stands in for the list";
      EXPECT_EQ(all_lost->front().id, lost);
      const auto listing = (*directory)->List();
      ASSERT_TRUE(listing.ok());
      std::set<VersionId> sound;
      for (const Manifest& manifest : listing->published) {
        const Status read = CheckContents(**directory, manifest);
        if (read.ok()) {
          sound.insert(manifest.id);
        } else {
          EXPECT_EQ(read.code(), StatusCode::kDataLoss) << read;
          ++damaged;
        }
      }
      damaged += static_cast<int64_t>(listing->problems.size());
      for (const VersionId& id : ids) {
        const bool affected = owner(id) || (BelongsToGraph(id.store) && owner(GraphOf(id)));
        EXPECT_TRUE(affected || sound.count(id) > 0) << Describe(id) << " suffers from another's damage";
      }
      ASSERT_FALSE(::testing::Test::HasFailure());
    }
  }
  std::printf("%lld damaged bytes, %lld versions found damaged\n", static_cast<long long>(cases),
              static_cast<long long>(damaged));
  EXPECT_GT(damaged, 1000 / kTimesFewer);
}

}  // namespace
}  // namespace vicinal::state
