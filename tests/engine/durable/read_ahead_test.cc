// SPDX-License-Identifier: Apache-2.0
// What is read before it is loaded: the files of the versions that a start loads, in its order, and nothing else.
#include "engine/durable/read_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/durable/version_ids.h"
#include "engine/state/sealed_json.h"
#include "tests/engine/state/simulated_file_system.h"

namespace vicinal::durable {
namespace {

using state::VersionId;
using ::testing::IsEmpty;

class ReadAheadTest : public ::testing::Test {
 protected:
  ReadAheadTest() {
    auto opened = state::StateDirectory::Open(&files_, {});
    EXPECT_TRUE(opened.ok()) << opened.status();
    directory_ = *std::move(opened);
    for (const state::Store store : state::kAllStores) EXPECT_TRUE(directory_->ReserveVersions(store, 20).ok());
    Publish(GraphId("a", 1));
    Publish(GraphId("a", 2));
    Publish(FeaturesId("a", 2, "y", 1));
    Publish(FeaturesId("a", 2, "y", 2));
    Publish(FeaturesId("a", 2, "x", 3));
    Publish(FeaturesId("a", 1, "x", 4));
    Publish(GraphId("b", 3));
    Publish(GraphId("c", 4));
    Publish(ModelId("m", 1));
  }
  void Publish(const VersionId& id) {
    const auto writer = directory_->BeginVersion(id);
    ASSERT_TRUE(writer.ok()) << writer.status();
    const auto file = (*writer)->AddFile("data", {{"bytes", DataType::kUint8, {kBytes}}});
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Append(0, std::string(kBytes, 'x')).ok());
    ASSERT_TRUE((*file)->Finish().ok());
    ASSERT_TRUE((*writer)->Publish("{}").ok());
  }
  std::vector<std::string> Paths(int64_t max_bytes) const {
    std::vector<std::string> paths;
    for (const FileToRead& file : FilesOfStart(*directory_, max_bytes)) {
      paths.push_back(*PathOf(file.manifest.id) + (file.layout ? "/layouts/" : "/") + file.file.name);
    }
    return paths;
  }

  static constexpr int64_t kBytes = int64_t{9} << 20;
  state::SimulatedFileSystem files_;
  std::unique_ptr<state::StateDirectory> directory_;
};

TEST_F(ReadAheadTest, TakesTheLatestVersionsInTheOrderOfTheLoad) {
  ASSERT_TRUE(directory_->PutRecent({"b", "gone", "a"}).ok());
  const std::vector<std::string> all = {"graphs/b/3/data.vsec", "graphs/a/2/data.vsec",
                                        "graphs/a/2/features/x/3/data.vsec", "graphs/a/2/features/y/2/data.vsec",
                                        "graphs/c/4/data.vsec"};
  EXPECT_EQ(Paths(int64_t{1} << 40), all);
  const int64_t file = files_.Stat(all[0])->bytes;
  EXPECT_EQ(Paths(2 * file), std::vector<std::string>(all.begin(), all.begin() + 2));
  EXPECT_THAT(Paths(file - 1), IsEmpty());
  files_.Overwrite("graphs/b/3/manifest.json", "{}");
  EXPECT_EQ(Paths(int64_t{1} << 40), std::vector<std::string>(all.begin() + 1, all.end())) << "the loader tells";
}

TEST_F(ReadAheadTest, LayoutsComeBetweenAGraphAndItsFeatures) {
  const VersionId graph = GraphId("a", 2);
  const auto file = directory_->CreateLayoutFile(graph, "tiles.vsec", {{"masks", DataType::kUint8, {kBytes}}});
  ASSERT_TRUE(file.ok() && (*file)->Append(0, std::string(kBytes, 'x')).ok() && (*file)->Finish().ok());
  const nlohmann::json layout = {
      {"file", "tiles.vsec"}, {"bytes", (*file)->summary().bytes}, {"checksum", (*file)->summary().checksum}};
  const std::string list = state::internal::SealJson({{"major", 1}, {"layouts", nlohmann::json::array({layout})}});
  ASSERT_TRUE(directory_->PutDocument(graph, state::LayoutsDocumentName("gpu"), list).ok());
  ASSERT_TRUE(directory_->PutDocument(graph, state::LayoutsDocumentName("other"), "damaged").ok());
  ASSERT_TRUE(directory_->PutRecent({"a"}).ok());
  const std::vector<std::string> paths = Paths(int64_t{1} << 40);
  EXPECT_EQ(std::vector<std::string>(paths.begin(), paths.begin() + 3),
            (std::vector<std::string>{"graphs/a/2/data.vsec", "graphs/a/2/layouts/tiles.vsec",
                                      "graphs/a/2/features/x/3/data.vsec"}));
}

TEST_F(ReadAheadTest, ReadsAllOfThemOnce) {
  ASSERT_TRUE(directory_->PutRecent({"c"}).ok());
  const auto paths = Paths(int64_t{1} << 40);
  Mutex mutex;
  std::vector<std::pair<std::string, int64_t>> pieces;
  files_.set_read_hook([&](const std::string& path, state::SimulatedFileSystem::Access, int64_t, int64_t bytes) {
    MutexLock lock(&mutex);
    if (bytes > (64 << 10)) pieces.emplace_back(path, bytes);
  });
  {
    const ReadAhead reading(*directory_, int64_t{1} << 40);
    for (size_t read = 0; read < paths.size() * 3; std::this_thread::yield()) {
      MutexLock lock(&mutex);
      read = pieces.size();
    }
  }
  std::vector<std::pair<std::string, int64_t>> expected;
  for (const std::string& path : paths) {
    for (const int64_t bytes : {4 << 20, 4 << 20, 1 << 20}) expected.emplace_back(path, bytes);
  }
  EXPECT_EQ(pieces, expected);
}

}  // namespace
}  // namespace vicinal::durable
