// SPDX-License-Identifier: Apache-2.0
// How long compiled kernels stay loaded, with a maker that only counts: uses, recordings, kernels that nobody uses,
// launches that have not ended, programs that are gone before their turn. No thread: the tests do the work.
#include "engine/cuda/compile/compiled_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace vicinal::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class CountingMaker final : public KernelMaker {
 public:
  MadeKernel Make(const KernelJob& job) override {
    made.push_back(job.key);
    if (while_making) while_making();
    if (job.key == "bad") return {nullptr, nullptr, "it is interpreted, as compiling failed"};
    names.push_back(std::make_unique<std::string>(job.key));
    loaded.insert(job.key);
    return {names.back().get(), names.back().get(), "compiled"};
  }
  std::function<bool()> MarkLaunched(CudaDevice*) override {
    ++marks;
    return [this] {
      ++waits;
      return !lost;
    };
  }
  void Unload(const MadeKernel& kernel) override {
    EXPECT_GT(waits, 0) << "launches may still run";
    const std::string& name = *static_cast<const std::string*>(kernel.library);
    EXPECT_EQ(loaded.erase(name), 1u) << name;
  }

  std::vector<std::string> made;
  std::multiset<std::string> loaded;
  std::vector<std::unique_ptr<std::string>> names;
  std::function<void()> while_making;
  int marks = 0, waits = 0;
  bool lost = false;
};

class CompiledKernelsTest : public ::testing::Test {
 protected:
  CompiledKernelUse Find(const std::string& key) {
    KernelJob job;
    job.key = key;
    return kernels_.Find(std::move(job));
  }
  CompiledKernelUse Make(const std::string& key) {
    CompiledKernelUse use = Find(key);
    kernels_.DoWork();
    return use;
  }

  CountingMaker maker_;
  CompiledKernels kernels_{&maker_, 2};
};

TEST_F(CompiledKernelsTest, EqualProgramsShareAKernel) {
  const CompiledKernelUse first = Find("a"), second = Find("a");
  EXPECT_EQ(first.get(), second.get());
  EXPECT_EQ(first->function(), nullptr);
  EXPECT_EQ(first->Describe(), "it is interpreted until it is compiled");
  const uint64_t before = CompiledKernelsEpoch();
  kernels_.DoWork();
  EXPECT_THAT(maker_.made, ElementsAre("a"));
  EXPECT_NE(first->function(), nullptr);
  EXPECT_EQ(first->Describe(), "compiled");
  EXPECT_GT(CompiledKernelsEpoch(), before);
}

// Who tunes asks again, and may stop between.
TEST_F(CompiledKernelsTest, AWaitIsBounded) {
  constexpr std::chrono::milliseconds kNoTime(0);
  const CompiledKernelUse good = Find("a"), bad = Find("bad");
  EXPECT_FALSE(good->AwaitFor(kNoTime));
  kernels_.DoWork();
  EXPECT_TRUE(good->AwaitFor(kNoTime));
  EXPECT_TRUE(bad->AwaitFor(kNoTime)) << "it is known that there is none";
  EXPECT_EQ(bad->function(), nullptr);
}

// Two kernels without uses stay; one that is used does, whatever its age.
TEST_F(CompiledKernelsTest, KernelsThatNobodyUsesAreUnloaded) {
  const CompiledKernelUse used = Make("used");
  for (int i = 0; i < 200; ++i) {
    Make(absl::StrCat(i)).reset();
    kernels_.DoWork();
    EXPECT_LE(maker_.loaded.size(), 3u);
  }
  EXPECT_THAT(maker_.loaded, UnorderedElementsAre("198", "199", "used"));
  EXPECT_NE(used->function(), nullptr);
}

TEST_F(CompiledKernelsTest, AnIdleKernelIsUsedAgainWithoutWork) {
  Make("a").reset();
  Make("b").reset();
  const CompiledKernelUse again = Find("a");
  EXPECT_NE(again->function(), nullptr);
  // Now b is the oldest that nobody uses.
  Make("c").reset();
  Make("d").reset();
  kernels_.DoWork();
  EXPECT_THAT(maker_.made, ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(maker_.loaded, UnorderedElementsAre("a", "c", "d"));
}

TEST_F(CompiledKernelsTest, ARecordingKeepsItsKernels) {
  std::unique_ptr<RecordedCode> recording;
  {
    RecordedCode::Collector collector;
    RecordedCode::Launched(Make("recorded"));
    recording = std::make_unique<RecordedCode>(collector.Take());
  }
  RecordedCode::Launched(Make("launched"));  // nothing is recorded now
  for (const char* key : {"a", "b", "c"}) Make(key).reset();
  kernels_.DoWork();
  EXPECT_THAT(maker_.loaded, UnorderedElementsAre("recorded", "b", "c"));
  recording.reset();
  for (const char* key : {"d", "e"}) Make(key).reset();
  kernels_.DoWork();
  EXPECT_EQ(maker_.loaded.count("recorded"), 0u);
}

TEST_F(CompiledKernelsTest, UnloadingWaitsForLaunches) {
  for (const char* key : {"a", "b"}) Make(key).reset();
  EXPECT_EQ(maker_.marks, 2);
  EXPECT_EQ(maker_.waits, 0);
  Make("c").reset();
  kernels_.DoWork();
  EXPECT_EQ(maker_.waits, 1);
  EXPECT_THAT(maker_.loaded, UnorderedElementsAre("b", "c"));
  maker_.lost = true;
  Make("d").reset();
  kernels_.DoWork();
  EXPECT_EQ(maker_.loaded.count("b"), 1u) << "its launches never end";
}

TEST_F(CompiledKernelsTest, ProgramsThatAreGoneAreNotCompiled) {
  std::vector<CompiledKernelUse> uses;
  for (int i = 0; i < 100; ++i) uses.push_back(Find(absl::StrCat(i)));
  uses.erase(uses.begin() + 1, uses.end());
  kernels_.DoWork();
  EXPECT_THAT(maker_.made, ElementsAre("0"));
}

TEST_F(CompiledKernelsTest, AUseThatGoesWhileItsKernelIsMade) {
  CompiledKernelUse use = Find("a");
  maker_.while_making = [&] { use.reset(); };
  kernels_.DoWork();
  maker_.while_making = nullptr;
  EXPECT_THAT(maker_.loaded, ElementsAre("a"));
  EXPECT_NE(Find("a")->function(), nullptr);
  for (const char* key : {"b", "c", "d"}) Make(key).reset();
  kernels_.DoWork();
  EXPECT_THAT(maker_.loaded, UnorderedElementsAre("c", "d"));
}

// Not for every plan anew, but again when others have taken its place.
TEST_F(CompiledKernelsTest, AFailureIsRemembered) {
  for (int i = 0; i < 3; ++i) {
    const CompiledKernelUse use = Make("bad");
    EXPECT_EQ(use->function(), nullptr);
    EXPECT_EQ(use->Describe(), "it is interpreted, as compiling failed");
  }
  EXPECT_THAT(maker_.made, ElementsAre("bad"));
  EXPECT_THAT(maker_.loaded, IsEmpty());
  for (const char* key : {"a", "b"}) Make(key).reset();
  Make("bad").reset();
  EXPECT_THAT(maker_.made, ElementsAre("bad", "a", "b", "bad"));
}

}  // namespace
}  // namespace vicinal::cuda
