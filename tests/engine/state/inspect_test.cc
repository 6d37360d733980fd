// SPDX-License-Identifier: Apache-2.0
#include "engine/state/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/state/kernel_marks.h"
#include "engine/state/sealed_json.h"
#include "tests/engine/state/history.h"
#include "tests/engine/state/simulated_file_system.h"

namespace vicinal::state {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class InspectTest : public ::testing::Test {
 protected:
  InspectTest() {
    directory_ = Open();
    for (const Store store : kAllStores) EXPECT_TRUE(directory_->ReserveVersions(store, 10).ok());
    for (const VersionId& id : {graph_, features_, model_}) EXPECT_TRUE(PublishVersion(*directory_, id).ok());
  }
  std::unique_ptr<StateDirectory> Open() {
    StateDirectory::Options options;
    options.holder = {"host1", 42, "2026-01-02T03:04:05Z", ""};
    auto opened = StateDirectory::Open(&files_, options);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *std::move(opened);
  }
  static std::string ReasonOf(const Status& status) {
    const auto detail = DetailOf(status);
    return detail ? detail->reason : "";
  }
  // "PATH" of each file that is not as it should be.
  std::vector<std::string> Bad() {
    std::vector<std::string> bad;
    checked_ = 0;
    const Status status = CheckFiles(files_, [&](const FileVerdict& verdict) {
      ++checked_;
      if (!verdict.status.ok()) bad.push_back(verdict.path);
    });
    EXPECT_TRUE(status.ok()) << status;
    return bad;
  }
  Status Write(const std::string& path) {
    VICINAL_ASSIGN_OR_RETURN(const auto file, files_.Create(path));
    return file->Append("x");
  }

  SimulatedFileSystem files_;
  FakeClock clock_;
  std::unique_ptr<StateDirectory> directory_;
  const LockHolder self_{"host2", 43, "2026-01-02T03:04:06Z", ""};
  const VersionId graph_{Store::kGraphs, "g", 1, "", 0}, features_{Store::kFeatures, "x", 2, "g", 1},
      model_{Store::kModels, "m", 3, "", 0};
  int checked_ = 0;
};

TEST_F(InspectTest, ListsWhatIsThereAndWritesNothing) {
  ASSERT_TRUE(directory_->Quarantine(model_, Internal("for a test")).ok());
  ASSERT_TRUE(files_.MakeDirectory("graphs/g/7").ok());
  const int64_t operations = files_.operations();
  const auto inventory = TakeInventory(files_);
  ASSERT_TRUE(inventory.ok()) << inventory.status();
  EXPECT_EQ(files_.operations(), operations);
  EXPECT_EQ(inventory->incarnation, directory_->incarnation());
  EXPECT_EQ(inventory->holder->pid, 42);
  ASSERT_THAT(inventory->lost, SizeIs(1));
  EXPECT_EQ(inventory->lost[0].id, model_);
  EXPECT_EQ(inventory->lost[0].quarantine, inventory->quarantined[0]);
  ASSERT_THAT(inventory->versions, SizeIs(2));
  EXPECT_EQ(inventory->versions[0].id, graph_);
  EXPECT_EQ(inventory->versions[0].files, 1);
  EXPECT_GT(inventory->versions[0].bytes, inventory->versions[0].disk_bytes);  // sections lie at 2 MiB
  EXPECT_GT(inventory->versions[0].disk_bytes, 0);
  EXPECT_EQ(inventory->versions[1].id, features_);
  EXPECT_THAT(inventory->unpublished, ElementsAre("graphs/g/7"));
  EXPECT_THAT(inventory->quarantined, ElementsAre(HasSubstr("quarantine/models-3-")));
  EXPECT_THAT(inventory->problems, IsEmpty());
}

TEST_F(InspectTest, TellsWhichVersionsWereReplaced) {
  for (const VersionId& later :
       {VersionId{Store::kModels, "m", 8, "", 0}, VersionId{Store::kModels, "n", 9, "", 0},
        VersionId{Store::kGraphs, "g", 5, "", 0}, VersionId{Store::kFeatures, "x", 6, "g", 5}}) {
    ASSERT_TRUE(PublishVersion(*directory_, later).ok());
  }
  std::vector<std::string> replaced, latest;
  const auto inventory = TakeInventory(files_);
  ASSERT_TRUE(inventory.ok()) << inventory.status();
  for (const VersionInfo& version : inventory->versions) {
    (version.replaced ? replaced : latest).push_back(Describe(version.id));
  }
  // The feature set goes with its graph version.
  EXPECT_THAT(replaced, ElementsAre(Describe(graph_), Describe(features_), Describe(model_)));
  EXPECT_THAT(latest, SizeIs(4));
}

TEST_F(InspectTest, ChecksEveryByteOfEveryFile) {
  EXPECT_THAT(Bad(), IsEmpty());
  EXPECT_EQ(checked_, 3 + 3 * 2);
  for (const std::string path : {"graphs/g/1/data.vsec", "graphs/g/1/features/x/2/data.vsec", "models/m/3/data.vsec",
                                 "models/m/3/manifest.json", "INCARNATION", "VERSIONS"}) {
    const bool data = path.ends_with(".vsec");
    const int64_t offset = data ? kSectionAlignment : 30;  // contents, not the header
    files_.XorByte(path, offset, 0x10);
    EXPECT_THAT(Bad(), ElementsAre(path));
    files_.XorByte(path, offset, 0x10);
  }
  EXPECT_THAT(Bad(), IsEmpty());
}

TEST_F(InspectTest, ChecksLayoutsAndTheirList) {
  const auto file = directory_->CreateLayoutFile(graph_, "tiles.vsec", {{"masks", DataType::kUint8, {5}}});
  ASSERT_TRUE(file.ok() && (*file)->Append(0, "masks").ok() && (*file)->Finish().ok());
  ASSERT_TRUE(directory_->SyncLayoutFiles(graph_).ok());
  const nlohmann::json layout = {
      {"file", "tiles.vsec"}, {"bytes", (*file)->summary().bytes}, {"checksum", (*file)->summary().checksum}};
  const nlohmann::json good = {{"major", 1},   {"minor", 0},       {"graph", "g"},
                               {"version", 1}, {"device", "gpu0"}, {"layouts", nlohmann::json::array({layout})}};
  const std::string name = LayoutsDocumentName("gpu0"), path = "graphs/g/1/documents/" + name + ".json";
  const std::string data = "graphs/g/1/layouts/tiles.vsec";
  ASSERT_TRUE(directory_->PutDocument(graph_, name, internal::SealJson(good)).ok());
  EXPECT_THAT(Bad(), IsEmpty());
  EXPECT_EQ(checked_, 3 + 3 * 2 + 2);
  const int64_t with_layout = directory_->DiskBytes(*directory_->GetManifest(graph_));
  EXPECT_EQ(with_layout, files_.Stat("graphs/g/1/data.vsec")->disk_bytes + files_.Stat(data)->disk_bytes);
  EXPECT_EQ(TakeInventory(files_)->versions[0].disk_bytes,
            with_layout + files_.Stat("graphs/g/1/manifest.json")->disk_bytes);
  files_.XorByte(data, kSectionAlignment, 1);
  EXPECT_THAT(Bad(), ElementsAre(data));
  files_.XorByte(data, kSectionAlignment, 1);
  for (const auto& [member, value] : {std::pair<std::string, nlohmann::json>{"version", 2},
                                      {"device", "gpu1"},
                                      {"layouts", nlohmann::json::array({layout, layout})}}) {
    nlohmann::json bad = good;
    bad[member] = value;
    ASSERT_TRUE(directory_->PutDocument(graph_, name, internal::SealJson(bad)).ok());
    EXPECT_THAT(Bad(), ElementsAre(path)) << member;
  }
  ASSERT_TRUE(directory_->PutDocument(graph_, name, internal::SealJson(good)).ok());
  ASSERT_TRUE(files_.Unlink(data).ok());
  EXPECT_THAT(Bad(), ElementsAre(data));
}

TEST_F(InspectTest, ChecksTuningDocuments) {
  const nlohmann::json record = {{"operation", "aggregate"}, {"kind", "sum"}, {"state", "tuned"}};
  const nlohmann::json good = {{"major", 1},   {"minor", 0},       {"graph", "g"},
                               {"version", 1}, {"device", "cpu0"}, {"records", nlohmann::json::array({record})}};
  const std::string name = TuningDocumentName("cpu0"), path = "graphs/g/1/documents/" + name + ".json";
  ASSERT_TRUE(directory_->PutDocument(graph_, name, internal::SealJson(good)).ok());
  EXPECT_THAT(Bad(), IsEmpty());
  EXPECT_EQ(checked_, 3 + 3 * 2 + 1);

  const std::string text = files_.Read(path);
  for (size_t at = 0; at < text.size(); at += 17) {  // each check reads all files
    files_.XorByte(path, static_cast<int64_t>(at), 0x04);
    EXPECT_THAT(Bad(), ElementsAre(path)) << at;
    files_.XorByte(path, static_cast<int64_t>(at), 0x04);
  }
  for (size_t size = 0; size < text.size(); size += 23) {
    files_.Overwrite(path, text.substr(0, size));
    EXPECT_THAT(Bad(), ElementsAre(path)) << size;
  }
  files_.Overwrite(path, std::string(text.size(), '\0'));
  EXPECT_THAT(Bad(), ElementsAre(path));

  const std::vector<std::pair<const char*, nlohmann::json>> wrong = {
      {"major", 2},
      {"graph", "h"},
      {"version", 2},
      {"version", "1"},
      {"device", "cpu1"},
      {"records", {}},
      {"records", {1}},
      {"records", nlohmann::json::array({{{"kind", "sum"}}})},
      {"device", 7},
      {"graph", 7},
      {"records", "something"}};
  for (const auto& [member, value] : wrong) {
    nlohmann::json changed = good;
    changed[member] = value;
    files_.Overwrite(path, internal::SealJson(changed));
    EXPECT_THAT(Bad(), ElementsAre(path)) << changed;
  }
  files_.Overwrite(path, text);
  EXPECT_THAT(Bad(), IsEmpty());
  ASSERT_TRUE(Write("graphs/g/1/documents/notes.json").ok());
  EXPECT_THAT(Bad(), IsEmpty()) << "files of others are left alone";
}

TEST_F(InspectTest, ShowsQuarantinedKernelsAndLiftsThem) {
  const KernelMarks marks = {"cpu0", "build", {"aggregate rows"}, {}, {}, {{"aggregate tiles", "illegal address"}}};
  ASSERT_TRUE(WriteKernelMarks(files_, marks).ok());
  ASSERT_THAT(TakeInventory(files_)->kernels, SizeIs(1));
  EXPECT_EQ(TakeInventory(files_)->kernels[0].configuration, "aggregate tiles");
  EXPECT_EQ(TakeInventory(files_)->kernels[0].reason, "illegal address");
  EXPECT_EQ(ReasonOf(LiftQuarantine(files_, self_, "aggregate tiles", clock_)), "STATE_LOCKED");
  directory_.reset();
  EXPECT_EQ(LiftQuarantine(files_, self_, "aggregate rows", clock_).code(), StatusCode::kNotFound);
  EXPECT_TRUE(LiftQuarantine(files_, self_, "aggregate tiles", clock_).ok());
  EXPECT_THAT(TakeInventory(files_)->kernels, IsEmpty());
  EXPECT_EQ(ReadKernelMarks(files_, KernelMarksFile("cpu0"))->proven, marks.proven);
  EXPECT_THAT(Bad(), IsEmpty());
  files_.XorByte(KernelMarksFile("cpu0"), 30, 0x04);
  EXPECT_THAT(Bad(), ElementsAre(KernelMarksFile("cpu0")));
  EXPECT_THAT(TakeInventory(files_)->kernels, IsEmpty()) << "a damaged one blocks nothing";
}

TEST_F(InspectTest, AFileThatIsMissingOrShortIsNamed) {
  const std::string bytes = files_.Read("models/m/3/data.vsec");
  files_.Overwrite("models/m/3/data.vsec", bytes.substr(0, bytes.size() - 1));
  EXPECT_THAT(Bad(), ElementsAre("models/m/3/manifest.json"));
  ASSERT_TRUE(files_.Unlink("models/m/3/data.vsec").ok());
  EXPECT_THAT(Bad(), ElementsAre("models/m/3/manifest.json"));
  EXPECT_THAT(TakeInventory(files_)->problems, SizeIs(1));
}

TEST_F(InspectTest, OfANewerFormatOrNoStateNothingIsSaid) {
  SimulatedFileSystem empty;
  EXPECT_EQ(ReasonOf(TakeInventory(empty).status()), "STATE_NOT_INITIALIZED");
  EXPECT_EQ(ReasonOf(SweepOffline(empty, self_, seconds(0), clock_).status()), "STATE_NOT_INITIALIZED");
  EXPECT_EQ(ReasonOf(Restore(empty, self_, clock_).status()), "STATE_NOT_INITIALIZED");
  EXPECT_EQ(empty.operations(), 0);
  directory_.reset();
  files_.Overwrite("FORMAT", internal::SealJson({{"product", "vicinal"}, {"major", 2}, {"minor", 0}}));
  const int64_t operations = files_.operations();
  EXPECT_EQ(ReasonOf(CheckFiles(files_, [](const FileVerdict&) {})), "STATE_FORMAT_TOO_NEW");
  EXPECT_EQ(ReasonOf(Restore(files_, self_, clock_).status()), "STATE_FORMAT_TOO_NEW");
  EXPECT_EQ(files_.operations(), operations);
}

TEST_F(InspectTest, WritingIsRefusedWhileAServerWrites) {
  for (const Status& status :
       {SweepOffline(files_, self_, seconds(0), clock_).status(), Restore(files_, self_, clock_).status()}) {
    EXPECT_EQ(ReasonOf(status), "STATE_LOCKED");
    EXPECT_THAT(std::string(status.message()), HasSubstr("process 42 on host1"));
  }
  EXPECT_EQ(TakeInventory(files_)->incarnation, directory_->incarnation());
}

TEST_F(InspectTest, SweepsWhatIsLeftOverOnceItIsOld) {
  ASSERT_TRUE(directory_->Remove(model_, StateDirectory::Data::kLeaveToSweep).ok());
  ASSERT_TRUE(Write("models/notes.txt").ok());
  directory_.reset();
  EXPECT_EQ(SweepOffline(files_, self_, seconds(60), clock_)->files, 0);
  clock_.Advance(seconds(61));
  EXPECT_EQ(SweepOffline(files_, self_, seconds(60), clock_)->files, 1);
  EXPECT_TRUE(files_.Stat("models/notes.txt").ok());
  EXPECT_EQ(files_.Stat("models/m").status().code(), StatusCode::kNotFound);
  EXPECT_THAT(TakeInventory(files_)->versions, SizeIs(2));
}

TEST_F(InspectTest, ARestoredCopyHasItsOwnIncarnation) {
  const std::string former = directory_->incarnation();
  ASSERT_TRUE(files_.MakeDirectory("graphs/g/9").ok());
  ASSERT_TRUE(Write("graphs/g/9/graph.vsec").ok());  // half-written when it was copied
  directory_.reset();
  const auto restored = Restore(files_, self_, clock_);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->former_incarnation, former);
  EXPECT_NE(restored->incarnation, former);
  EXPECT_THAT(restored->repairs, IsEmpty());
  EXPECT_EQ(restored->swept.files, 1);
  EXPECT_THAT(Bad(), IsEmpty());
  EXPECT_THAT(TakeInventory(files_)->versions, SizeIs(3));
  directory_ = Open();
  EXPECT_EQ(directory_->incarnation(), restored->incarnation);
  EXPECT_EQ(*directory_->ReserveVersions(Store::kGraphs, 1), 11);
}

TEST_F(InspectTest, RestoringSurvivesAnyFailureAndCanBeRepeated) {
  const std::string former = directory_->incarnation();
  directory_.reset();
  for (int64_t step = 0;; ++step) {
    const int64_t before = files_.operations();
    files_.FailAt(step, ENOSPC);
    const Status restored = Restore(files_, self_, clock_).status();
    files_.FailAt(-1, 0);
    EXPECT_THAT(TakeInventory(files_)->versions, SizeIs(3));
    if (files_.operations() - before <= step) {  // it did not come to that
      EXPECT_TRUE(restored.ok()) << restored;
      break;
    }
    ASSERT_LT(step, 200);
  }
  EXPECT_NE(Open()->incarnation(), former);
}

}  // namespace
}  // namespace vicinal::state
