// SPDX-License-Identifier: Apache-2.0
#include "engine/state/state_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/state/crc32c.h"
#include "engine/state/posix_file_system.h"
#include "engine/state/sealed_json.h"
#include "tests/engine/state/history.h"
#include "tests/support/temporary_directory.h"

namespace vicinal::state {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string ReasonOf(const Status& status) {
  const auto detail = DetailOf(status);
  return detail ? detail->reason : "";
}

class StateDirectoryTest : public ::testing::Test {
 protected:
  std::unique_ptr<StateDirectory> Open(bool read_only = false) {
    auto opened = TryOpen(read_only);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *std::move(opened);
  }
  StatusOr<std::unique_ptr<StateDirectory>> TryOpen(bool read_only = false) {
    StateDirectory::Options options;
    options.read_only = read_only;
    options.holder = {"host1", 42, "2026-01-02T03:04:05Z", "host1:50051"};
    options.clock = &clock_;
    return StateDirectory::Open(&files_, options);
  }
  std::vector<VersionId> Listed(const StateDirectory& directory) {
    std::vector<VersionId> ids;
    const auto listing = directory.List();
    EXPECT_TRUE(listing.ok()) << listing.status();
    EXPECT_THAT(listing->problems, IsEmpty());
    for (const Manifest& manifest : listing->published) {
      EXPECT_TRUE(CheckContents(directory, manifest).ok());
      ids.push_back(manifest.id);
    }
    return ids;
  }
  void Put(const std::string& path, const std::string& text) {
    auto file = files_.Create(path);
    ASSERT_TRUE(file.ok()) << file.status();
    ASSERT_TRUE((*file)->Append(text).ok());
  }

  SimulatedFileSystem files_;
  FakeClock clock_;
  const VersionId graph_{Store::kGraphs, "g", 1, "", 0}, features_{Store::kFeatures, "x", 2, "g", 1},
      model_{Store::kModels, "m", 3, "", 0};
};

TEST_F(StateDirectoryTest, PublishesListsAndRemoves) {
  auto directory = Open();
  for (const VersionId& id : {graph_, features_, model_}) {
    EXPECT_TRUE(PublishVersion(*directory, id).ok());
    EXPECT_EQ(directory->BeginVersion(id).status().code(), StatusCode::kAlreadyExists);
  }
  EXPECT_THAT(Listed(*directory), ElementsAre(graph_, features_, model_));
  EXPECT_TRUE(directory->Remove(model_, StateDirectory::Data::kDelete).ok());
  EXPECT_EQ(directory->Remove(model_, StateDirectory::Data::kDelete).code(), StatusCode::kNotFound);
  EXPECT_THAT(Listed(*directory), ElementsAre(graph_, features_));
  EXPECT_TRUE(directory->Remove(graph_, StateDirectory::Data::kDelete).ok());
  EXPECT_THAT(Listed(*directory), IsEmpty());
  EXPECT_THAT(files_.AllFiles(), ElementsAre("FORMAT", "INCARNATION", "LOCK", "VERSIONS"));
}

TEST_F(StateDirectoryTest, FeatureSetsNeedTheirGraph) {
  auto directory = Open();
  EXPECT_EQ(directory->BeginVersion(features_).status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(PublishVersion(*directory, graph_).ok());
  const auto writer = directory->BeginVersion(features_);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(directory->Remove(graph_, StateDirectory::Data::kLeaveToSweep).ok());
  EXPECT_EQ((*writer)->Publish("{}").code(), StatusCode::kNotFound);
}

TEST_F(StateDirectoryTest, SetsPublishedBeforeTheirGraphAppearWithItAfterAnyPowerFailure) {
  auto directory = Open();
  ASSERT_TRUE(directory->ReserveVersions(Store::kGraphs, 1).ok() &&
              directory->ReserveVersions(Store::kFeatures, 2).ok());
  testing::SplitMix64 random(11);
  int without = 0, with = 0;
  files_.set_hook([&] {
    const auto files = files_.CutPower(random);
    const auto found = StateDirectory::Open(files.get(), {});
    ASSERT_TRUE(found.ok()) << found.status();
    const auto listing = (*found)->List();
    ASSERT_TRUE(listing.ok());
    EXPECT_THAT(listing->problems, IsEmpty());
    ++(listing->published.empty() ? without : with);
    EXPECT_TRUE(listing->published.empty() || listing->published.size() == 2u) << listing->published.size();
  });
  {
    const auto writer = directory->BeginVersion(graph_);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(PublishVersion(*directory, features_).ok());
    EXPECT_THAT(Listed(*directory), IsEmpty());
    ASSERT_TRUE((*writer)->Publish("{}").ok());
  }
  ASSERT_TRUE(files_.MakeDirectory("other").ok());  // the power fails after it, too
  files_.set_hook({});
  EXPECT_THAT(directory->List()->published, SizeIs(2));
  EXPECT_GT(without, 10);
  EXPECT_GT(with, 0);
}

TEST_F(StateDirectoryTest, AnUnpublishedVersionLeavesNothing) {
  auto directory = Open();
  {
    const auto writer = directory->BeginVersion(graph_);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->AddFile("a", {{"b", DataType::kUint8, {4}}}).ok());
    EXPECT_EQ((*writer)->AddFile("../a", {}).status().code(), StatusCode::kInvalidArgument);
    EXPECT_TRUE(directory->Sweep(seconds(0)).ok());
    EXPECT_TRUE(files_.Stat("graphs/g/1/a.vsec").ok()) << "swept while it is written";
  }
  EXPECT_EQ(files_.Stat("graphs/g").status().code(), StatusCode::kNotFound);
}

TEST_F(StateDirectoryTest, ReservedVersionsNeverReturn) {
  std::string incarnation;
  {
    auto directory = Open();
    EXPECT_EQ(*directory->ReserveVersions(Store::kGraphs, 10), 1);
    EXPECT_EQ(*directory->ReserveVersions(Store::kGraphs, 5), 11);
    EXPECT_EQ(*directory->ReserveVersions(Store::kModels, 1), 1);
    incarnation = directory->incarnation();
    EXPECT_THAT(incarnation, SizeIs(36));
  }
  auto directory = Open();
  EXPECT_EQ(*directory->ReserveVersions(Store::kGraphs, 1), 16);
  EXPECT_EQ(directory->incarnation(), incarnation);
}

TEST_F(StateDirectoryTest, LostReservationsBeginANewIncarnation) {
  const std::string before = [&] {
    auto directory = Open();
    EXPECT_TRUE(PublishVersion(*directory, {Store::kGraphs, "g", 70, "", 0}).ok());
    return directory->incarnation();
  }();
  for (const bool missing : {false, true}) {
    files_.Overwrite("VERSIONS", std::string(80, '\0'));
    if (missing) {
      ASSERT_TRUE(files_.Unlink("VERSIONS").ok());
    }
    auto directory = Open();
    EXPECT_THAT(directory->repairs(), SizeIs(1));
    EXPECT_NE(directory->incarnation(), before);
    EXPECT_GT(*directory->ReserveVersions(Store::kGraphs, 1), 70);
    EXPECT_THAT(Listed(*directory), SizeIs(1));
  }
}

TEST_F(StateDirectoryTest, ACopyWhoseVersionsAreNotReservedBeginsANewIncarnation) {
  std::string before;
  {
    auto directory = Open();
    before = directory->incarnation();
    const std::string old_versions = files_.Read("VERSIONS");
    ASSERT_EQ(*directory->ReserveVersions(Store::kGraphs, 4), 1);
    ASSERT_TRUE(PublishVersion(*directory, {Store::kGraphs, "g", 4, "", 0}).ok());
    EXPECT_TRUE(directory->CheckReservations().ok());
    files_.Overwrite("VERSIONS", old_versions);  // copied before the version was
    EXPECT_EQ(directory->CheckReservations().code(), StatusCode::kDataLoss);
  }
  auto directory = Open();
  EXPECT_NE(directory->incarnation(), before);
  ASSERT_THAT(directory->repairs(), SizeIs(1));
  EXPECT_THAT(directory->repairs()[0], HasSubstr("version 4 of graphs"));
  EXPECT_EQ(*directory->ReserveVersions(Store::kGraphs, 1), 5);
}

TEST_F(StateDirectoryTest, ASecondWriterNamesTheHolder) {
  auto directory = Open();
  const Status second = TryOpen().status();
  EXPECT_EQ(ReasonOf(second), "STATE_LOCKED");
  EXPECT_EQ(second.message(),
            "the state directory is in use by process 42 on host1, started 2026-01-02T03:04:05Z; stop it, or open the "
            "directory read-only");
  EXPECT_EQ(DetailOf(second)->metadata.at("pid"), "42");
  const auto reader = Open(true);
  EXPECT_EQ(reader->ReadHolder()->address, "host1:50051");
  ASSERT_TRUE(directory->SetAddress("host1:8500").ok());
  EXPECT_EQ(reader->ReadHolder()->address, "host1:8500");
  EXPECT_EQ(reader->ReadHolder()->pid, 42);
  directory.reset();
  EXPECT_TRUE(TryOpen().ok());
}

TEST_F(StateDirectoryTest, AReaderWritesNothing) {
  EXPECT_EQ(ReasonOf(TryOpen(true).status()), "STATE_NOT_INITIALIZED");
  EXPECT_EQ(files_.operations(), 0);
  auto directory = Open();
  ASSERT_TRUE(PublishVersion(*directory, graph_).ok());
  const int64_t before = files_.operations();
  auto reader = Open(true);
  EXPECT_EQ(reader->incarnation(), directory->incarnation());
  EXPECT_THAT(Listed(*reader), ElementsAre(graph_));
  EXPECT_EQ(files_.operations(), before);
  ASSERT_TRUE(PublishVersion(*directory, model_).ok());
  EXPECT_THAT(Listed(*reader), ElementsAre(graph_, model_));
  ASSERT_TRUE(directory->Remove(graph_, StateDirectory::Data::kDelete).ok());
  EXPECT_THAT(Listed(*reader), ElementsAre(model_));
}

TEST_F(StateDirectoryTest, ANewerMajorFormatIsLeftAlone) {
  Open().reset();
  files_.Overwrite("FORMAT", internal::SealJson({{"product", "vicinal"}, {"major", 2}, {"minor", 0}}));
  const int64_t before = files_.operations();
  EXPECT_EQ(ReasonOf(TryOpen().status()), "STATE_FORMAT_TOO_NEW");
  EXPECT_EQ(files_.operations(), before);
  files_.Overwrite("FORMAT", internal::SealJson({{"product", "vicinal"}, {"major", 1}, {"minor", 7}, {"new", {}}}));
  EXPECT_TRUE(TryOpen().ok());
}

TEST_F(StateDirectoryTest, AMissingFormatBesideVersionsIsAnError) {
  Open().reset();
  ASSERT_TRUE(files_.Unlink("FORMAT").ok());
  EXPECT_EQ(TryOpen().status().code(), StatusCode::kDataLoss);
}

TEST_F(StateDirectoryTest, SweepsAfterTheGraceAndLeavesWhatItDoesNotKnow) {
  auto directory = Open();
  ASSERT_TRUE(PublishVersion(*directory, graph_).ok());
  ASSERT_TRUE(PublishVersion(*directory, model_).ok());
  files_.set_time(clock_.WallNow());
  Put("graphs/g/1/manifest.json.tmp", "left by a crash");
  Put("graphs/g/1/left_over.vsec", "left by a crash");
  Put("graphs/g/1/README", "not ours");
  Put("models/m/notes.txt", "not ours");
  Put("notes.txt", "not ours");
  ASSERT_TRUE(files_.MakeDirectory("lost+found").ok());
  ASSERT_TRUE(directory->Remove(model_, StateDirectory::Data::kLeaveToSweep).ok());
  EXPECT_EQ(directory->Sweep(seconds(60))->files, 0);
  EXPECT_TRUE(files_.Stat("models/m/3/data.vsec").ok());
  clock_.Advance(seconds(61));
  EXPECT_EQ(directory->Sweep(seconds(60))->files, 3);
  EXPECT_THAT(files_.AllFiles(),
              ElementsAre("FORMAT", "INCARNATION", "LOCK", "VERSIONS", "graphs/g/1/README", "graphs/g/1/data.vsec",
                          "graphs/g/1/manifest.json", "models/m/notes.txt", "notes.txt"));
  EXPECT_THAT(Listed(*directory), ElementsAre(graph_));
}

TEST_F(StateDirectoryTest, ProblemsAreListedAndMovedAside) {
  auto directory = Open();
  ASSERT_TRUE(PublishVersion(*directory, graph_).ok());
  ASSERT_TRUE(PublishVersion(*directory, model_).ok());
  files_.Overwrite("graphs/g/1/manifest.json", "");
  const auto listing = directory->List();
  ASSERT_THAT(listing->problems, SizeIs(1));
  EXPECT_EQ(listing->problems[0].id, graph_);
  EXPECT_EQ(listing->problems[0].error.code(), StatusCode::kDataLoss);
  EXPECT_THAT(listing->published, SizeIs(1));
  EXPECT_EQ(directory->Sweep(seconds(0))->files, 0) << "damaged files are kept";
  const auto place = directory->Quarantine(graph_, listing->problems[0].error);
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_TRUE(files_.Stat(*place + "/data/manifest.json").ok());
  EXPECT_THAT(Listed(*directory), ElementsAre(model_));
  EXPECT_THAT(files_.Read(*place + "/REASON.json"), HasSubstr("graph 'g' version 1"));
  EXPECT_EQ(directory->Quarantine(graph_, Internal("again")).status().code(), StatusCode::kNotFound);
}

TEST_F(StateDirectoryTest, WhatWasMovedAsideIsKnownUntilItIsForgotten) {
  auto directory = Open();
  EXPECT_THAT(*directory->Lost(), IsEmpty());
  const VersionId later{Store::kModels, "m", 9, "", 0}, set{Store::kFeatures, "x", 2, "g", 1};
  for (const VersionId& id : {graph_, set, model_, later}) ASSERT_TRUE(PublishVersion(*directory, id).ok());
  const auto place = directory->Quarantine(set, Internal("first"));
  ASSERT_TRUE(place.ok()) << place.status();
  ASSERT_TRUE(directory->Quarantine(model_, Internal("second")).ok());
  directory = nullptr;
  directory = Open();
  auto lost = directory->Lost();
  ASSERT_THAT(*lost, SizeIs(2));
  EXPECT_EQ(lost->front().id, set);
  EXPECT_EQ(lost->front().reason, "first");
  EXPECT_EQ(lost->front().quarantine, *place);
  EXPECT_THAT(StillLost(*lost, {graph_, later}), SizeIs(1)) << "a later version of the model serves";
  EXPECT_THAT(StillLost(*lost, {graph_}), SizeIs(2));
  EXPECT_THAT(StillLost(*lost, {later}), IsEmpty()) << "a feature set means nothing without its graph";
  ASSERT_TRUE(directory->Quarantine(later, Internal("third")).ok());
  ASSERT_TRUE(directory->Quarantine(graph_, Internal("fourth")).ok());
  lost = directory->Lost();
  ASSERT_THAT(*lost, SizeIs(2)) << "a later loss takes the place of an earlier one, and a graph's of its sets'";
  EXPECT_EQ(lost->front().id, later);
  EXPECT_EQ(lost->back().id, graph_);
  const auto is_graph = [](const VersionId& id) { return id.store == Store::kGraphs; };
  EXPECT_TRUE(directory->ForgetLost(is_graph).ok());
  EXPECT_EQ(directory->ForgetLost(is_graph).code(), StatusCode::kNotFound);
  ASSERT_THAT(*directory->Lost(), SizeIs(1));
  files_.Overwrite("LOST", "{}");
  EXPECT_EQ(directory->CheckLost().code(), StatusCode::kDataLoss);
  EXPECT_THAT(*directory->Lost(), SizeIs(2)) << "what the reasons beside the files name, the graph once more";
  const auto is_nothing = [](const VersionId&) { return false; };
  EXPECT_EQ(directory->ForgetLost(is_nothing).code(), StatusCode::kNotFound);
  EXPECT_TRUE(directory->CheckLost().ok()) << "written anew";
  ASSERT_THAT(*directory->Lost(), SizeIs(2));
  EXPECT_TRUE(directory->ForgetLost(is_graph).ok());
  ASSERT_THAT(*directory->Lost(), SizeIs(1));
  EXPECT_EQ(directory->Lost()->front().id, later);
}

TEST_F(StateDirectoryTest, AMisplacedOrExchangedFileIsFound) {
  auto directory = Open();
  const VersionId other{Store::kGraphs, "g", 9, "", 0};
  ASSERT_TRUE(PublishVersion(*directory, graph_).ok());
  ASSERT_TRUE(PublishVersion(*directory, other).ok());
  ASSERT_TRUE(files_.Rename("graphs/g/9/data.vsec", "graphs/g/1/data.vsec").ok());
  auto listing = directory->List();
  EXPECT_THAT(listing->problems, SizeIs(2 - listing->published.size()));
  for (const Manifest& manifest : listing->published) {
    EXPECT_EQ(directory->OpenFile(manifest, "data.vsec").status().code(), StatusCode::kDataLoss);
  }
  ASSERT_TRUE(files_.Rename("graphs/g/9/manifest.json", "graphs/g/1/manifest.json").ok());
  listing = directory->List();
  ASSERT_THAT(listing->problems, SizeIs(1));
  EXPECT_THAT(std::string(listing->problems[0].error.message()),
              HasSubstr("it is the manifest of graph 'g' version 9"));
}

// Data files of one shape, whose contents are whole, but another version's.
TEST_F(StateDirectoryTest, AnExchangedFileOfTheSameShapeIsFound) {
  auto directory = Open();
  std::vector<std::string> files;
  for (const int64_t version : {11, 12}) {
    const VersionId id{Store::kModels, "m", version, "", 0};
    const auto writer = directory->BeginVersion(id);
    const auto file = (*writer)->AddFile("data", {{"bytes", DataType::kUint8, {2}}});
    ASSERT_TRUE((*file)->Append(0, std::to_string(version)).ok() && (*file)->Finish().ok());
    ASSERT_TRUE((*writer)->Publish("{}").ok());
    files.push_back(*PathOf(id) + "/data.vsec");
  }
  const auto open = [&](int64_t version) {
    const auto manifest = directory->GetManifest({Store::kModels, "m", version, "", 0});
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    return directory->OpenFile(*manifest, "data.vsec").status();
  };
  EXPECT_TRUE(open(11).ok() && open(12).ok());
  files_.Overwrite(files[0], files_.Read(files[1]));
  EXPECT_EQ(open(11).code(), StatusCode::kDataLoss);
  // As the first builds wrote it: the size alone is known.
  auto manifest = directory->GetManifest({Store::kModels, "m", 11, "", 0});
  std::string text = *EncodeManifest(*manifest);
  const size_t identity = text.find(",\"identity\":");
  text.erase(identity, text.find_first_of(",}", identity + 1) - identity);
  const std::string sealed = text.substr(21);
  files_.Overwrite(*PathOf(manifest->id) + "/manifest.json",
                   "{\"crc32c\":\"" + CrcText(Crc32c(sealed)) + "\"," + sealed);
  EXPECT_TRUE(open(11).ok());
}

// Somebody has moved a graph to another disk and left a link: it is not followed, and does not pass for nothing.
TEST(StateDirectoryOnDiskTest, ALinkInThePlaceOfADirectoryIsTold) {
  TemporaryDirectory root;
  const auto files = PosixFileSystem::Open(root / "state", PosixFileSystem::Root::kCreate);
  ASSERT_TRUE(files.ok()) << files.status();
  const auto directory = StateDirectory::Open(files->get(), {});
  ASSERT_TRUE(directory.ok()) << directory.status();
  const VersionId stays{Store::kGraphs, "stays", 1, "", 0}, moves{Store::kGraphs, "moves", 2, "", 0};
  ASSERT_TRUE(PublishVersion(**directory, stays).ok());
  ASSERT_TRUE(PublishVersion(**directory, moves).ok());
  for (const char* const path : {"state/graphs/moves/2", "state/graphs/moves"}) {
    std::filesystem::rename(root / path, root / "elsewhere");
    std::filesystem::create_directory_symlink(root / "elsewhere", root / path);
    const auto listing = (*directory)->List();
    ASSERT_TRUE(listing.ok()) << listing.status();
    ASSERT_THAT(listing->published, SizeIs(1));
    ASSERT_THAT(listing->problems, SizeIs(1));
    EXPECT_EQ("state/" + listing->problems[0].path, path);
    EXPECT_EQ(ReasonOf(listing->problems[0].error), "STATE_UNSAFE_PATH");
    std::vector<ListedProblem> problems;
    EXPECT_THAT(*(*directory)->ListPublished(&problems), ElementsAre(stays));
    EXPECT_THAT(problems, SizeIs(1));
    std::filesystem::remove(root / path);
    std::filesystem::rename(root / "elsewhere", root / path);
  }
}

TEST(StateDirectoryOnDiskTest, WorksOnThisMachine) {
  TemporaryDirectory root;
  std::string incarnation;
  const VersionId odd{Store::kGraphs, "../" + std::string(700, 'x') + "\xE2\x82\xAC", 5, "", 0};
  for (int round = 0; round < 2; ++round) {
    auto files = PosixFileSystem::Open(root / "state", PosixFileSystem::Root::kCreate);
    ASSERT_TRUE(files.ok()) << files.status();
    auto directory = StateDirectory::Open(files->get(), {});
    ASSERT_TRUE(directory.ok()) << directory.status();
    EXPECT_EQ(ReasonOf(StateDirectory::Open(files->get(), {}).status()), "STATE_LOCKED");
    if (round == 0) {
      ASSERT_TRUE((*directory)->ReserveVersions(Store::kGraphs, 5).ok());
      ASSERT_TRUE(PublishVersion(**directory, odd).ok());
    }
    const auto listing = (*directory)->List();
    ASSERT_TRUE(listing.ok());
    EXPECT_THAT(listing->problems, IsEmpty());
    ASSERT_THAT(listing->published, SizeIs(1));
    EXPECT_EQ(listing->published[0].id, odd);
    EXPECT_TRUE(CheckContents(**directory, listing->published[0]).ok());
    if (round == 1) {
      EXPECT_EQ((*directory)->incarnation(), incarnation);
    }
    incarnation = (*directory)->incarnation();
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root.path())) {
    struct stat info;
    ASSERT_EQ(stat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, entry.is_directory() ? 0700u : 0600u) << entry.path();
  }
}

}  // namespace
}  // namespace vicinal::state
