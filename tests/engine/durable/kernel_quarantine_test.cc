// SPDX-License-Identifier: Apache-2.0
#include "engine/durable/kernel_quarantine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "engine/state/file_error.h"
#include "tests/engine/durable/durable_testing.h"

namespace vicinal::durable {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kSimd[] = "aggregate simd_rows block=8", kTiles[] = "aggregate tiles";

class KernelQuarantineTest : public ::testing::Test {
 protected:
  KernelQuarantine::Parts Parts(const std::string& device, const std::string& build) {
    KernelQuarantine::Parts parts;
    parts.files = files_.get();
    parts.device = device;
    parts.build = build;
    parts.logger = &Logger::Null();
    parts.stats = &StatsSink::Null();
    parts.on_quarantine = [this](const std::string& configuration) { told_.push_back(configuration); };
    return parts;
  }
  std::unique_ptr<KernelQuarantine> Start(const std::string& device = "processor", const std::string& build = "1") {
    return std::make_unique<KernelQuarantine>(Parts(device, build));
  }
  // As a run that ends well.
  static void Run(KernelQuarantine& quarantine, const std::string& configuration) {
    quarantine.Begin(configuration);
    quarantine.End(configuration, OkStatus());
  }
  // kill -9 while a configuration runs; the next process starts.
  std::unique_ptr<KernelQuarantine> KilledDuring(KernelQuarantine& quarantine, const std::string& configuration) {
    quarantine.Begin(configuration);
    files_ = files_->NextProcess();
    return Start();
  }

  std::unique_ptr<state::SimulatedFileSystem> files_ = std::make_unique<state::SimulatedFileSystem>();
  std::vector<std::string> told_;
};

TEST_F(KernelQuarantineTest, OneInterruptedStartProvesNothing) {
  const auto first = Start();
  const auto second = KilledDuring(*first, kSimd);
  EXPECT_EQ(second->WhyQuarantined(kSimd), "");
  second->Begin(kSimd);
  second->End(kSimd, OkStatus());
  const auto third = KilledDuring(*second, kSimd);
  EXPECT_EQ(third->WhyQuarantined(kSimd), "") << "it has ended well: no mark any more";
  EXPECT_EQ(third->count(), 0);
}

TEST_F(KernelQuarantineTest, TwoInterruptedStartsQuarantine) {
  const auto first = Start();
  const auto second = KilledDuring(*first, kSimd);
  second->Begin(kTiles);  // what is written for others keeps the count
  second->End(kTiles, OkStatus());
  const auto third = KilledDuring(*second, kSimd);
  EXPECT_THAT(third->WhyQuarantined(kSimd), HasSubstr("quarantined: 2 servers ended"));
  EXPECT_EQ(third->WhyQuarantined(kTiles), "");
  files_ = files_->NextProcess();
  EXPECT_EQ(Start()->count(), 1) << "for good";
}

TEST_F(KernelQuarantineTest, StartsThatDoNotRunItCountNothing) {
  const auto first = Start();
  auto next = KilledDuring(*first, kSimd);
  for (int start = 0; start < 5; ++start) {
    files_ = files_->NextProcess();
    next = Start();
  }
  EXPECT_EQ(next->WhyQuarantined(kSimd), "");
}

TEST_F(KernelQuarantineTest, ADeviceErrorQuarantinesAtOnceAndOthersDoNot) {
  const auto quarantine = Start();
  quarantine->Begin(kTiles);
  quarantine->End(kTiles, absl::ResourceExhaustedError("no memory"));
  quarantine->Begin(kTiles);
  quarantine->End(kTiles, absl::CancelledError("a request came"));
  EXPECT_EQ(quarantine->WhyQuarantined(kTiles), "");
  EXPECT_THAT(told_, IsEmpty());
  quarantine->Begin(kSimd);
  quarantine->End(kSimd, Internal("illegal address"));
  EXPECT_THAT(quarantine->WhyQuarantined(kSimd), HasSubstr("illegal address"));
  EXPECT_THAT(told_, ElementsAre(kSimd));
  files_ = files_->NextProcess();
  const auto next = Start();
  EXPECT_THAT(next->WhyQuarantined(kSimd), HasSubstr("illegal address"));
  EXPECT_EQ(next->WhyQuarantined(kTiles), "") << "no mark is left of what ended";
}

TEST_F(KernelQuarantineTest, ALateRunThatEndsWellLiftsNothing) {
  const auto quarantine = Start();
  quarantine->Begin(kSimd);
  quarantine->End(kSimd, Internal("illegal address"));
  Run(*quarantine, kSimd);
  EXPECT_FALSE(quarantine->HasEndedWell(kSimd));
  files_ = files_->NextProcess();
  const auto next = Start();
  EXPECT_FALSE(next->HasEndedWell(kSimd));
  EXPECT_NE(next->WhyQuarantined(kSimd), "");
}

TEST_F(KernelQuarantineTest, OnlyTheFirstRunTouchesTheDisk) {
  const auto quarantine = Start();
  quarantine->Begin(kSimd);
  quarantine->End(kSimd, OkStatus());
  const int64_t operations = files_->operations();
  for (int run = 0; run < 100; ++run) {
    quarantine->Begin(kSimd);
    quarantine->End(kSimd, OkStatus());
  }
  EXPECT_EQ(files_->operations(), operations);
  files_ = files_->NextProcess();
  const auto next = Start();
  next->Begin(kSimd);
  next->End(kSimd, OkStatus());
  EXPECT_EQ(files_->operations(), 0) << "also after a start";
}

TEST_F(KernelQuarantineTest, AnotherBuildRunsEverythingForTheFirstTimeAgain) {
  const auto first = Start("processor", "1");
  Run(*first, kSimd);
  first->Begin(kTiles);
  first->End(kTiles, Internal("illegal address"));
  files_ = files_->NextProcess();
  EXPECT_TRUE(Start("processor", "1")->HasEndedWell(kSimd));
  const auto updated = Start("processor", "2");
  EXPECT_FALSE(updated->HasEndedWell(kSimd));
  EXPECT_NE(updated->WhyQuarantined(kTiles), "") << "a quarantine is lifted by people";
}

TEST_F(KernelQuarantineTest, DoubtsLastAndRaiseNoRevision) {
  const auto quarantine = Start();
  EXPECT_EQ(quarantine->revision(), 0);
  Run(*quarantine, kSimd);
  Run(*quarantine, kTiles);
  quarantine->Doubt({kSimd, "aggregate unknown"});
  EXPECT_FALSE(quarantine->HasEndedWell(kSimd));
  EXPECT_TRUE(quarantine->HasEndedWell(kTiles));
  EXPECT_EQ(quarantine->revision(), 0);
  files_ = files_->NextProcess();
  const auto next = Start();
  EXPECT_FALSE(next->HasEndedWell(kSimd));
  next->Begin(kSimd);
  next->End(kSimd, Internal("illegal address"));
  EXPECT_EQ(next->revision(), 1);
}

TEST_F(KernelQuarantineTest, AReplicaHeedsItsWriterAndWritesNothingThere) {
  const auto writer = Start();
  writer->Begin(kTiles);
  writer->End(kTiles, Internal("illegal address"));
  state::SimulatedFileSystem scratch;
  KernelQuarantine::Parts parts = Parts("processor", "1");
  parts.followed = files_.get();
  for (state::FileSystem* const own :
       {static_cast<state::FileSystem*>(&scratch), static_cast<state::FileSystem*>(nullptr)}) {
    const int64_t operations = files_->operations();
    parts.files = own;
    KernelQuarantine replica(parts);
    EXPECT_THAT(replica.WhyQuarantined(kTiles), HasSubstr("illegal address"));
    EXPECT_EQ(replica.count(), 1);
    replica.Begin(kSimd);
    replica.End(kSimd, Internal("misaligned"));
    EXPECT_EQ(replica.count(), 2);
    EXPECT_EQ(files_->operations(), operations);
  }
  const auto kept = state::ReadKernelMarks(scratch, state::KernelMarksFile("processor"));
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->quarantined.size(), 1u) << "its own";
}

TEST_F(KernelQuarantineTest, MarksSurviveAPowerFailure) {
  testing::SplitMix64 random(7);
  for (int round = 0; round < 20; ++round) {
    files_ = std::make_unique<state::SimulatedFileSystem>();
    const auto first = Start();
    first->Begin(kSimd);
    files_ = files_->CutPower(random);
    const auto second = Start();
    second->Begin(kSimd);
    files_ = files_->CutPower(random);
    EXPECT_NE(Start()->WhyQuarantined(kSimd), "") << round;
  }
}

TEST_F(KernelQuarantineTest, ADiskThatFailsKeepsNothingFromRunning) {
  const auto quarantine = Start();
  files_->FailFrom(0, ENOSPC);
  quarantine->Begin(kSimd);
  quarantine->End(kSimd, Internal("illegal address"));
  EXPECT_NE(quarantine->WhyQuarantined(kSimd), "") << "in this process";
}

TEST_F(KernelQuarantineTest, DevicesAreKeptApartAndDamageBeginsAnew) {
  const auto quarantine = Start("gpu");
  quarantine->Begin(kSimd);
  quarantine->End(kSimd, Internal("illegal address"));
  EXPECT_EQ(Start("processor")->count(), 0);
  EXPECT_EQ(Start("gpu")->count(), 1);
  const std::string file = state::KernelMarksFile("gpu");
  const std::string text = files_->Read(file);
  for (size_t at = 0; at < text.size(); ++at) {
    files_->XorByte(file, static_cast<int64_t>(at), 0x04);
    EXPECT_EQ(state::ReadKernelMarks(*files_, file).status().code(), StatusCode::kDataLoss) << at;
    EXPECT_EQ(Start("gpu")->count(), 0);
    files_->XorByte(file, static_cast<int64_t>(at), 0x04);
  }
  EXPECT_EQ(Start("gpu")->count(), 1);
}

}  // namespace
}  // namespace vicinal::durable
