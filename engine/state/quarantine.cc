// SPDX-License-Identifier: Apache-2.0
// Damaged versions are moved aside, and stay known: what was durable and cannot be read must not pass for something
// that never was. The document LOST names them before anything is moved.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/strict_json.h"
#include "engine/base/uuid.h"
#include "engine/state/file_error.h"
#include "engine/state/manifest.h"
#include "engine/state/sealed_json.h"
#include "engine/state/state_directory.h"

namespace vicinal::state {
namespace {

using Json = nlohmann::json;
constexpr char kLost[] = "LOST", kQuarantine[] = "quarantine", kReason[] = "REASON.json";
// So that the document stays far below kMaxDocumentBytes. Those that were lost first are forgotten then.
constexpr size_t kMaxLost = 10'000;
constexpr size_t kMaxReasonBytes = 500;

Json ToJson(const LostVersion& lost) {
  Json json = {{"store", std::string(ToString(lost.id.store))},
               {"name", lost.id.name},
               {"version", lost.id.version},
               {"reason", lost.reason},
               {"quarantine", lost.quarantine}};
  if (BelongsToGraph(lost.id.store)) {
    json["graph"] = lost.id.graph;
    json["graph_version"] = lost.id.graph_version;
  }
  return json;
}

StatusOr<LostVersion> FromJson(const Json& json) {
  if (!json.is_object()) return Damaged(kLost, "an entry is not an object");
  LostVersion lost;
  VICINAL_ASSIGN_OR_RETURN(const std::string store, internal::StringMember(kLost, json, "store"));
  const std::optional<Store> known = StoreOf(store);
  if (!known) return Damaged(kLost, "there is no store '" + store + "'");
  lost.id.store = *known;
  VICINAL_ASSIGN_OR_RETURN(lost.id.name, internal::StringMember(kLost, json, "name"));
  VICINAL_ASSIGN_OR_RETURN(lost.id.version, internal::IntegerMember(kLost, json, "version", 1, kMaxVersion));
  if (BelongsToGraph(lost.id.store)) {
    VICINAL_ASSIGN_OR_RETURN(lost.id.graph, internal::StringMember(kLost, json, "graph"));
    VICINAL_ASSIGN_OR_RETURN(lost.id.graph_version,
                             internal::IntegerMember(kLost, json, "graph_version", 1, kMaxVersion));
  }
  VICINAL_RETURN_IF_ERROR(PathOf(lost.id).status());
  VICINAL_ASSIGN_OR_RETURN(lost.reason, internal::StringMember(kLost, json, "reason"));
  VICINAL_ASSIGN_OR_RETURN(lost.quarantine, internal::StringMember(kLost, json, "quarantine"));
  return lost;
}

// Whether a later loss of `id` tells all that `earlier` told: of the same name, or of its graph.
bool Covers(const VersionId& id, const VersionId& earlier) {
  if (id.store == Store::kGraphs && BelongsToGraph(earlier.store)) return GraphOf(earlier) == id;
  VersionId same = id;
  same.version = earlier.version;
  return same == earlier;
}

}  // namespace

StatusOr<std::vector<LostVersion>> StateDirectory::Lost() const {
  auto lost = ReadLost();
  return lost.status().code() == StatusCode::kDataLoss ? LostByReasons() : lost;
}

Status StateDirectory::CheckLost() const { return ReadLost().status(); }

StatusOr<std::vector<LostVersion>> StateDirectory::LostByReasons() const {
  std::vector<LostVersion> all;
  const auto entries = files_->List(kQuarantine);
  if (entries.status().code() == StatusCode::kNotFound) return all;
  if (!entries.ok()) return entries.status();
  for (const DirectoryEntry& entry : *entries) {
    if (entry.kind != FileKind::kDirectory) continue;
    const std::string path = Join(Join(kQuarantine, entry.name), kReason);
    const auto text = ReadSmallFile(*files_, path, internal::kMaxDocumentBytes);
    const auto json = text.ok() ? internal::UnsealJson(path, *text) : text.status();
    // The first builds wrote reasons for people only.
    auto lost = json.ok() && json->contains("lost") ? FromJson((*json)["lost"]) : NotFound("lost version", path, "");
    if (!lost.ok()) continue;
    lost->quarantine = ParentOf(path);
    const auto replaces = [](const VersionId& id, const VersionId& earlier) {
      return Covers(id, earlier) && (id.store != earlier.store || id.version > earlier.version);
    };
    const bool told =
        std::any_of(all.begin(), all.end(), [&](const LostVersion& other) { return replaces(other.id, lost->id); });
    if (told) continue;
    std::erase_if(all, [&](const LostVersion& earlier) { return replaces(lost->id, earlier.id); });
    all.push_back(*std::move(lost));
  }
  return all;
}

StatusOr<std::vector<LostVersion>> StateDirectory::ReadLost() const {
  const auto text = ReadSmallFile(*files_, kLost, internal::kMaxDocumentBytes);
  if (text.status().code() == StatusCode::kNotFound) return std::vector<LostVersion>();
  if (!text.ok()) return text.status();
  VICINAL_ASSIGN_OR_RETURN(const Json json, internal::UnsealJson(kLost, *text));
  const auto found = json.find("lost");
  if (found == json.end() || !found->is_array()) return Damaged(kLost, "lost is not a list");
  std::vector<LostVersion> all;
  for (const Json& entry : *found) {
    VICINAL_ASSIGN_OR_RETURN(LostVersion lost, FromJson(entry));
    all.push_back(std::move(lost));
  }
  return all;
}

Status StateDirectory::WriteLost(const std::vector<LostVersion>& lost) {
  Json entries = Json::array();
  for (const LostVersion& version : lost) entries.push_back(ToJson(version));
  return ReplaceFile(*files_, kLost, internal::SealJson({{"lost", entries}}));
}

Status StateDirectory::AddLost(LostVersion added) {
  StatusOr<std::vector<LostVersion>> lost = Lost();
  if (!lost.ok()) return lost.status();
  std::erase_if(*lost, [&](const LostVersion& earlier) { return Covers(added.id, earlier.id); });
  if (lost->size() >= kMaxLost) lost->erase(lost->begin());
  lost->push_back(std::move(added));
  return WriteLost(*lost);
}

Status StateDirectory::ForgetLost(const std::function<bool(const VersionId& id)>& is_forgotten) {
  VICINAL_CHECK(!options_.read_only);
  Status none = NotFound("lost version", kLost, "none of these was lost");
  MutexLock lock(&mutex_);
  StatusOr<std::vector<LostVersion>> lost = Lost();
  if (!lost.ok()) return lost.status();
  const size_t forgotten = std::erase_if(*lost, [&](const LostVersion& version) { return is_forgotten(version.id); });
  if (forgotten > 0) return WriteLost(*lost);
  if (CheckLost().code() == StatusCode::kDataLoss) VICINAL_RETURN_IF_ERROR(WriteLost(*lost));
  return none;
}

StatusOr<std::string> StateDirectory::Quarantine(const VersionId& id, const Status& reason) {
  VICINAL_CHECK(!options_.read_only);
  VICINAL_ASSIGN_OR_RETURN(const std::string path, PathOf(id));
  const std::string target = std::string(kQuarantine) + "/" + std::string(ToString(id.store)) + "-" +
                             std::to_string(id.version) + "-" + MakeUuid().substr(0, 8);
  LostVersion lost{id, std::string(reason.message().substr(0, kMaxReasonBytes)), target};
  const Json why = {{"path", path}, {"version", Describe(id)}, {"reason", reason.ToString()}, {"lost", ToJson(lost)}};
  MutexLock lock(&mutex_);
  VICINAL_RETURN_IF_ERROR(files_->Stat(path).status());
  const Status made = files_->MakeDirectory(kQuarantine);
  if (!made.ok() && made.code() != StatusCode::kAlreadyExists) return made;
  VICINAL_RETURN_IF_ERROR(files_->MakeDirectory(target));
  VICINAL_RETURN_IF_ERROR(ReplaceFile(*files_, Join(target, kReason), internal::SealJson(why)));
  VICINAL_RETURN_IF_ERROR(files_->SyncDirectory(kQuarantine));
  VICINAL_RETURN_IF_ERROR(files_->SyncDirectory(""));
  VICINAL_RETURN_IF_ERROR(AddLost(std::move(lost)));
  VICINAL_RETURN_IF_ERROR(files_->Rename(path, target + "/data"));
  VICINAL_RETURN_IF_ERROR(files_->SyncDirectory(target));
  VICINAL_RETURN_IF_ERROR(files_->SyncDirectory(ParentOf(path)));
  return target;
}

std::vector<LostVersion> StillLost(std::vector<LostVersion> lost, const std::set<VersionId>& published) {
  std::set<VersionId> names;  // whose version is 0
  for (VersionId id : published) {
    id.version = 0;
    names.insert(std::move(id));
  }
  std::erase_if(lost, [&](const LostVersion& version) {
    VersionId name = version.id;
    name.version = 0;
    return names.contains(name) || (BelongsToGraph(name.store) && !published.contains(GraphOf(name)));
  });
  return lost;
}

}  // namespace vicinal::state
