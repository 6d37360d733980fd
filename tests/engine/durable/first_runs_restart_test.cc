// SPDX-License-Identifier: Apache-2.0
// Marks and quarantines of kernels through the engine's own API, across restarts and on a replica.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/state/kernel_marks.h"
#include "engine/state/posix_file_system.h"
#include "tests/engine/api/small_world.h"
#include "tests/support/temporary_directory.h"

namespace vicinal {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

class FirstRunsRestartTest : public ::testing::Test {
 protected:
  StatusOr<std::unique_ptr<Engine>> Open(bool read_only = false, const std::string& scratch = "") {
    EngineOptions options;
    options.num_threads = 1;
    options.device = "cpu";
    options.tuning_budget = Nanoseconds(0);
    options.state_dir = directory_ / "state";
    options.state_read_only = read_only;
    options.scratch_dir = scratch;
    options.follow_period = std::chrono::milliseconds(1);
    return Engine::Create(options);
  }
  // A server that has answered once and ended.
  void ServeOnce() {
    auto engine = Open();
    ASSERT_TRUE(engine.ok()) << engine.status();
    testing::PutSmallWorld(**engine);
    Answer(**engine);
    EXPECT_TRUE((*engine)->Drain(std::chrono::steady_clock::now() + std::chrono::minutes(1)));
  }
  static std::vector<float> Answer(Engine& engine) {
    while (!engine.loaded()) std::this_thread::yield();
    const auto answer = testing::Infer(engine, testing::AllNodes("g", "m"));
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? answer->values : std::vector<float>();
  }
  static std::vector<std::string> Files(const std::string& directory) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) names.push_back(entry.path().filename());
    return names;
  }
  static std::unique_ptr<state::FileSystem> FilesOf(const std::string& directory) {
    auto files = state::PosixFileSystem::Open(directory, state::PosixFileSystem::Root::kMustExist);
    EXPECT_TRUE(files.ok()) << files.status();
    return *std::move(files);
  }
  // The only ones of that directory.
  static state::KernelMarks Marks(const std::string& directory) {
    for (const std::string& name : Files(directory)) {
      if (!state::IsKernelMarksFile(name)) continue;
      const auto marks = state::ReadKernelMarks(*FilesOf(directory), name);
      EXPECT_TRUE(marks.ok()) << marks.status();
      return *marks;
    }
    ADD_FAILURE() << "no marks";
    return {};
  }
  std::string StateDirectory() const { return directory_ / "state"; }
  // The aggregation that served, by its configuration.
  std::string Aggregation() const {
    for (const std::string& configuration : Marks(StateDirectory()).proven) {
      if (configuration.starts_with("aggregate ")) return configuration;
    }
    ADD_FAILURE() << "no aggregation";
    return "";
  }

  TemporaryDirectory directory_;
};

TEST_F(FirstRunsRestartTest, ServingMarksEachConfigurationOnce) {
  ServeOnce();
  const state::KernelMarks marks = Marks(StateDirectory());
  EXPECT_THAT(marks.proven, Contains(StartsWith("aggregate ")));
  EXPECT_THAT(marks.proven, Contains(StartsWith("dense_update ")));
  EXPECT_THAT(marks.running, IsEmpty());
  EXPECT_THAT(marks.quarantined, IsEmpty());
  EXPECT_NE(marks.build, "") << "the linker is told to write build ids";
  const std::string file = StateDirectory() + "/" + state::KernelMarksFile(marks.device);
  const auto written = std::filesystem::last_write_time(file);
  const auto engine = Open();
  ASSERT_TRUE(engine.ok()) << engine.status();
  Answer(**engine);
  EXPECT_EQ(std::filesystem::last_write_time(file), written);
  EXPECT_EQ((*engine)->quarantined_kernels(), 0);
}

TEST_F(FirstRunsRestartTest, ADefaultThatEndedTwoServersServesNoMore) {
  ServeOnce();
  const std::string bad = Aggregation();
  state::KernelMarks marks = Marks(StateDirectory());
  marks.proven.erase(bad);
  for (const int starts : {1, 2}) {
    marks.running = {bad};  // what a server leaves that ended in this kernel
    ASSERT_TRUE(state::WriteKernelMarks(*FilesOf(StateDirectory()), marks).ok());
    const auto engine = Open();
    ASSERT_TRUE(engine.ok()) << engine.status();
    EXPECT_EQ((*engine)->quarantined_kernels(), starts == 2 ? 1 : 0);
    if (starts == 1) marks.interrupted[bad] = 1;  // as its next write says
    if (starts == 1) continue;
    EXPECT_THAT(Answer(**engine), SizeIs(2 * testing::kSmallNodes));
    const auto explanation = (*engine)->Explain(testing::AllNodes("g", "m"));
    ASSERT_TRUE(explanation.ok()) << explanation.status();
    std::vector<std::string> kernels, reasons;
    for (const PlanStepInfo& step : explanation->steps) {
      kernels.push_back(step.operation + " " + step.kernel);
      for (const KernelRefusal& refusal : step.refusals) reasons.push_back(refusal.reason);
    }
    EXPECT_THAT(kernels, Not(Contains(bad.substr(0, bad.find(' ', bad.find(' ') + 1)))));
    EXPECT_THAT(reasons, Contains(HasSubstr("2 servers ended")));
  }
}

TEST_F(FirstRunsRestartTest, AReplicaKeepsItsMarksInItsScratchDirectory) {
  ServeOnce();
  const std::string scratch = directory_ / "scratch";
  const std::string bad = Aggregation();
  const std::vector<std::string> before = Files(StateDirectory());
  std::vector<float> answer;
  {
    const auto replica = Open(true, scratch);
    ASSERT_TRUE(replica.ok()) << replica.status();
    answer = Answer(**replica);
    const Status refused = Open(true, scratch).status();  // one replica alone
    EXPECT_EQ(DetailOf(refused)->reason, "STATE_LOCKED");
    EXPECT_THAT(std::string(refused.message()), StartsWith("--scratch_dir '" + scratch + "': another server"));
  }
  EXPECT_EQ(Marks(scratch).proven, Marks(StateDirectory()).proven);
  EXPECT_THAT(Files(StateDirectory()), ::testing::UnorderedElementsAreArray(before));
  state::KernelMarks marks = Marks(scratch);
  marks.proven.erase(bad);
  marks.running = {bad};
  marks.interrupted[bad] = 1;
  ASSERT_TRUE(state::WriteKernelMarks(*FilesOf(scratch), marks).ok());
  {
    const auto replica = Open(true, scratch);
    ASSERT_TRUE(replica.ok()) << replica.status();
    EXPECT_EQ((*replica)->quarantined_kernels(), 1);
    EXPECT_THAT(Answer(**replica), SizeIs(answer.size()));
  }
  const auto writer = Open();
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_EQ((*writer)->quarantined_kernels(), 0);
}

TEST_F(FirstRunsRestartTest, AStateDirectoryIsNoScratchDirectory) {
  ServeOnce();
  const std::string link = directory_ / "link";
  std::filesystem::create_directory_symlink(StateDirectory() + "/graphs", link);
  for (const std::string& scratch : {StateDirectory(), StateDirectory() + "/", StateDirectory() + "/scratch",
                                     StateDirectory() + "/graphs/g", StateDirectory() + "/models/../scratch", link}) {
    const Status refused = Open(true, scratch).status();
    ASSERT_FALSE(refused.ok()) << scratch;
    EXPECT_EQ(DetailOf(refused)->reason, "BAD_SCRATCH_DIR") << scratch;
    EXPECT_THAT(std::string(refused.message()), StartsWith("--scratch_dir '" + scratch + "': "));
  }
  EXPECT_FALSE(std::filesystem::exists(StateDirectory() + "/scratch"));
}

}  // namespace
}  // namespace vicinal
