// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/state/history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "engine/base/error.h"

namespace vicinal::state {

std::string ContentsOf(const VersionId& id) {
  testing::SplitMix64 random(id.version * 31 + static_cast<int>(id.store) + id.name.size() * 1009);
  std::string bytes(1 + random.Next() % 9000, '\0');
  for (char& c : bytes) c = static_cast<char>(random.Next());
  return bytes;
}

Status CheckContents(const StateDirectory& directory, const Manifest& manifest) {
  const std::string expected = ContentsOf(manifest.id);
  VICINAL_ASSIGN_OR_RETURN(const auto file, directory.OpenFile(manifest, "data.vsec"));
  const Section* const section = file->Find("bytes");
  if (section == nullptr) return NotFound("section", "bytes");
  VICINAL_ASSIGN_OR_RETURN(const std::string bytes, file->ReadBytes(*section));
  EXPECT_EQ(bytes, expected) << "silently different bytes";
  EXPECT_EQ(manifest.metadata, "{\"size\":" + std::to_string(expected.size()) + "}");
  return OkStatus();
}

Status PublishVersion(StateDirectory& directory, const VersionId& id) {
  const std::string bytes = ContentsOf(id);
  VICINAL_ASSIGN_OR_RETURN(const auto writer, directory.BeginVersion(id));
  VICINAL_ASSIGN_OR_RETURN(
      SectionFileWriter* const file,
      writer->AddFile("data", {{"empty", DataType::kFloat32, {0, 3}},
                               {"bytes", DataType::kUint8, {static_cast<int64_t>(bytes.size())}}}));
  VICINAL_RETURN_IF_ERROR(file->Append(1, bytes));
  VICINAL_RETURN_IF_ERROR(file->Finish());
  return writer->Publish("{\"size\":" + std::to_string(bytes.size()) + "}");
}

void History::Open() {
  auto opened = StateDirectory::Open(files_.get(), {});
  directory_ = opened.ok() ? *std::move(opened) : nullptr;
}

const VersionId* History::Pick(Store store) {
  std::vector<const VersionId*> of_store;
  for (const VersionId& id : durable_) {
    if (id.store == store && uncertain_.count(id) == 0) of_store.push_back(&id);
  }
  return of_store.empty() ? nullptr : of_store[random_.Next() % of_store.size()];
}

bool History::GraphIsGone(const VersionId& id) const {
  return BelongsToGraph(id.store) && durable_.count(GraphOf(id)) == 0;
}

int64_t History::Reserve(Store store) {
  const int64_t count = 1 + random_.Next() % 3;
  const auto first = directory_->ReserveVersions(store, count);
  if (!first.ok()) return 0;
  EXPECT_GT(*first, reserved_[NumberedAs(store)]) << "a version came again";
  reserved_[NumberedAs(store)] = *first + count - 1;
  return *first;
}

void History::Publish(Store store) {
  static const std::string names[] = {"a", "B/..", std::string(300, 'n')};
  VersionId id{store, names[random_.Next() % 3], 0, "", 0};
  if (BelongsToGraph(store)) {
    const VersionId* const graph = Pick(Store::kGraphs);
    if (graph == nullptr) return;
    id.graph = graph->name, id.graph_version = graph->version;
  }
  id.version = Reserve(store);
  if (id.version == 0) return;
  uncertain_.insert(id);
  if (PublishVersion(*directory_, id).ok()) durable_.insert(id), uncertain_.erase(id);
}

void History::Remove() {
  const VersionId* const picked = Pick(kAllStores[random_.Next() % 4]);
  if (picked == nullptr) return;
  const VersionId id = *picked;
  std::set<VersionId> going = {id};
  for (const VersionId& other : durable_) {
    if (BelongsToGraph(other.store) && id.store == Store::kGraphs && GraphOf(other) == id) going.insert(other);
  }
  uncertain_.insert(going.begin(), going.end());
  const uint64_t how = random_.Next() % 4;
  if (how == 0) {
    // Its record takes the place of an earlier one of the name, also if a crash comes first.
    std::erase_if(lost_, [&](const VersionId& lost) {
      const bool same = lost.store == id.store && lost.name == id.name && lost.graph == id.graph &&
                        lost.graph_version == id.graph_version;
      return same || (BelongsToGraph(lost.store) && GraphOf(lost) == id);
    });
    if (!directory_->Quarantine(id, Internal("for a test")).ok()) return;
    lost_.insert(id);
  } else {
    const auto data = how == 1 ? StateDirectory::Data::kLeaveToSweep : StateDirectory::Data::kDelete;
    if (!directory_->Remove(id, data).ok()) return;
  }
  for (const VersionId& gone : going) durable_.erase(gone), uncertain_.erase(gone);
}

void History::Forget() {
  if (lost_.empty()) return;
  const VersionId id = *lost_.begin();
  lost_.erase(lost_.begin());
  if (directory_->ForgetLost([&](const VersionId& lost) { return lost == id; }).ok()) forgotten_.insert(id);
}

void History::CheckLost(const StateDirectory& directory) const {
  const auto lost = directory.Lost();
  ASSERT_TRUE(lost.ok()) << lost.status();
  std::set<VersionId> known;
  for (const LostVersion& version : *lost) {
    known.insert(version.id);
    EXPECT_EQ(forgotten_.count(version.id), 0) << Describe(version.id) << " is lost again";
    EXPECT_EQ(version.reason, "for a test");
  }
  for (const VersionId& id : lost_) EXPECT_EQ(known.count(id), 1) << Describe(id) << " was lost, and nobody knows";
}

void History::Step() {
  if (directory_ == nullptr) Open();
  if (directory_ == nullptr) return;
  switch (random_.Next() % 9) {
    case 0:
    case 1:
      return Publish(Store::kGraphs);
    case 2:
      return Publish(Store::kModels);
    case 3:
      return Publish(Store::kFeatures);
    case 4:
      return Publish(Store::kEdgeFeatures);
    case 5:
    case 6:
      return Remove();
    case 7:
      return Forget();
    default:
      directory_->Sweep(std::chrono::seconds(0)).status().IgnoreError();
  }
}

void History::CheckState(SimulatedFileSystem& files, bool adopt) {
  auto opened = StateDirectory::Open(&files, {});
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_TRUE((*opened)->repairs().empty()) << (*opened)->repairs().front();
  const auto listing = (*opened)->List();
  ASSERT_TRUE(listing.ok()) << listing.status();
  for (const ListedProblem& problem : listing->problems) ADD_FAILURE() << problem.path << ": " << problem.error;
  std::set<VersionId> listed;
  for (const Manifest& manifest : listing->published) {
    listed.insert(manifest.id);
    EXPECT_TRUE(durable_.count(manifest.id) + uncertain_.count(manifest.id) > 0) << Describe(manifest.id) << " is back";
    const Status read = CheckContents(**opened, manifest);
    EXPECT_TRUE(read.ok()) << Describe(manifest.id) << ": " << read;
  }
  CheckLost(**opened);
  for (const VersionId& id : durable_) {
    EXPECT_TRUE(listed.count(id) + uncertain_.count(id) > 0 || GraphIsGone(id)) << Describe(id) << " is lost";
  }
  if (adopt) {
    durable_ = std::move(listed);
    uncertain_.clear();
    directory_ = *std::move(opened);
    return;
  }
  for (const Store store : kNumberedStores) {
    const auto first = (*opened)->ReserveVersions(store, 1);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_GT(*first, reserved_[store]) << "a version came again";
  }
}

void History::CheckCrash() {
  ++crashes_;
  const auto left = files_->CutPower(random_);
  CheckState(*left, false);
  // Once more, during or right after the recovery.
  if (random_.Next() % 4 == 0) CheckState(*left->CutPower(random_), false);
}

void History::Restart() {
  files_->Kill();
  directory_.reset();
  files_ = files_->NextProcess();
  CheckState(*files_, true);
}

void History::CutPower() {
  ++crashes_;
  auto left = files_->CutPower(random_);
  files_->Kill();
  directory_.reset();
  files_ = std::move(left);
  CheckState(*files_, true);
}

}  // namespace vicinal::state
