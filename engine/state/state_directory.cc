// SPDX-License-Identifier: Apache-2.0
// Opening: format, lock, incarnation, reserved versions. Every step is durable before the next, and each can be done
// again, so that a crash anywhere leaves a directory that opens.
#include "engine/state/state_directory.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/strict_json.h"
#include "engine/base/uuid.h"
#include "engine/state/file_error.h"
#include "engine/state/sealed_json.h"

namespace vicinal::state {
namespace {

using Json = nlohmann::json;
constexpr char kFormat[] = "FORMAT", kIncarnation[] = "INCARNATION", kVersions[] = "VERSIONS", kLock[] = "LOCK",
               kRecent[] = "RECENT";

StatusOr<Json> ReadDocument(const FileSystem& files, const std::string& path) {
  VICINAL_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(files, path, internal::kMaxDocumentBytes));
  return internal::UnsealJson(path, text);
}

// True if there is a format, false if the directory is empty of state.
StatusOr<bool> CheckFormat(const FileSystem& files) {
  const auto document = ReadDocument(files, kFormat);
  if (document.ok()) {
    VICINAL_RETURN_IF_ERROR(internal::CheckMajor(kFormat, *document, kFormatMajor));
    return true;
  }
  if (document.status().code() != StatusCode::kNotFound) return document.status();
  for (const char* const other : {"graphs", "models", kIncarnation, kVersions}) {
    const auto info = files.Stat(other);
    if (info.ok()) return Damaged(kFormat, "it is missing beside '" + std::string(other) + "'; copy it from a backup");
    if (info.status().code() != StatusCode::kNotFound) return info.status();
  }
  return false;
}

StatusOr<std::string> ReadIncarnation(const FileSystem& files) {
  VICINAL_ASSIGN_OR_RETURN(const Json json, ReadDocument(files, kIncarnation));
  VICINAL_ASSIGN_OR_RETURN(std::string uuid, internal::StringMember(kIncarnation, json, "incarnation"));
  if (!IsUuid(uuid)) return Damaged(kIncarnation, "it has no UUID");
  return uuid;
}

std::string HolderText(const LockHolder& holder) {
  const Json json = {
      {"host", holder.host}, {"pid", holder.pid}, {"start_time", holder.start_time}, {"address", holder.address}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<LockHolder> ParseHolder(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto word = [&](const char* key) { return internal::StringMember(kLock, json, key).value_or(""); };
  const auto pid = internal::IntegerMember(kLock, json, "pid", 0, std::numeric_limits<int64_t>::max());
  return LockHolder{word("host"), pid.value_or(0), word("start_time"), word("address")};
}

Status IgnoreExisting(const Status& status) {
  return status.code() == StatusCode::kAlreadyExists ? OkStatus() : status;
}

}  // namespace

StatusOr<std::unique_ptr<StateDirectory>> StateDirectory::Open(FileSystem* files, Options options) {
  auto directory = std::unique_ptr<StateDirectory>(new StateDirectory(files, std::move(options)));
  // Before anything is written, the lock file included.
  VICINAL_ASSIGN_OR_RETURN(bool format_exists, CheckFormat(*files));
  if (directory->options_.read_only || directory->options_.inspect) {
    if (!format_exists) {
      return FailedPrecondition("STATE_NOT_INITIALIZED",
                                "this is no state directory yet: it has no file FORMAT, which the server that writes "
                                "it makes");
    }
    auto incarnation = ReadIncarnation(*files);
    if (!incarnation.ok() && !directory->options_.inspect) return incarnation.status();
    directory->incarnation_ = incarnation.value_or("");
    return directory;
  }
  if (directory->options_.new_incarnation && !format_exists) {
    return FailedPrecondition("STATE_NOT_INITIALIZED", "this is no state directory: it has no file FORMAT");
  }
  VICINAL_RETURN_IF_ERROR(directory->TakeLock());
  // Again: who held the lock may have made it.
  VICINAL_ASSIGN_OR_RETURN(format_exists, CheckFormat(*files));
  VICINAL_RETURN_IF_ERROR(directory->Initialize(format_exists));
  return directory;
}

Status StateDirectory::TakeLock() {
  auto lock = files_->Lock(kLock, HolderText(options_.holder));
  if (lock.ok()) {
    lock_ = *std::move(lock);
    return OkStatus();
  }
  const auto detail = DetailOf(lock.status());
  if (!detail || detail->reason != "STATE_LOCKED") return lock.status();
  const auto text = detail->metadata.find("holder");
  const auto holder = text == detail->metadata.end() ? std::nullopt : ParseHolder(text->second);
  ErrorDetail named = *detail;
  std::string who = "another process";
  if (holder) {
    who = "process " + std::to_string(holder->pid) + " on " + holder->host + ", started " + holder->start_time;
    named.metadata = {{"host", holder->host}, {"pid", std::to_string(holder->pid)}, {"startTime", holder->start_time}};
  }
  return MakeError(StatusCode::kFailedPrecondition,
                   "the state directory is in use by " + who + "; stop it, or open the directory read-only", named);
}

Status StateDirectory::SetAddress(const std::string& address) {
  VICINAL_CHECK(!options_.read_only);
  LockHolder holder = options_.holder;
  holder.address = address;
  return lock_->SetHolder(HolderText(holder));
}

Status StateDirectory::Initialize(bool format_exists) {
  // What an earlier process made and did not sync comes first: FORMAT before VERSIONS before INCARNATION.
  VICINAL_RETURN_IF_ERROR(files_->SyncDirectory(""));
  if (!format_exists) {
    const Json format = {{"product", "vicinal"}, {"major", kFormatMajor}, {"minor", kFormatMinor}};
    VICINAL_RETURN_IF_ERROR(ReplaceFile(*files_, kFormat, internal::SealJson(format)));
  }
  VICINAL_RETURN_IF_ERROR(OpenIdentity());
  VICINAL_RETURN_IF_ERROR(IgnoreExisting(files_->MakeDirectory("graphs")));
  VICINAL_RETURN_IF_ERROR(IgnoreExisting(files_->MakeDirectory("models")));
  for (const char* const directory : {"graphs", "models", "quarantine"}) VICINAL_RETURN_IF_ERROR(SyncNames(directory));
  return files_->SyncDirectory("");
}

// What is visible need not be durable: an earlier process may have ended between a rename or an unlink and its fsync.
// What this process lists, or does not list any more, must stay so. One fsync per directory, of clean ones mostly.
Status StateDirectory::SyncNames(const std::string& directory) {
  const auto entries = files_->List(directory);
  if (entries.status().code() == StatusCode::kNotFound) return OkStatus();
  if (!entries.ok()) return entries.status();
  for (const DirectoryEntry& entry : *entries) {
    if (entry.kind == FileKind::kDirectory) VICINAL_RETURN_IF_ERROR(SyncNames(directory + "/" + entry.name));
  }
  return files_->SyncDirectory(directory);
}

// VERSIONS is written before the first INCARNATION, so that one without it means that it was lost. Then, and where one
// of them is damaged, a new incarnation begins, before versions are reserved in it: versions of the former one that are
// handed out again then mean something else.
Status StateDirectory::OpenIdentity() {
  VICINAL_ASSIGN_OR_RETURN(auto beyond, NumbersBeyondAll());
  auto incarnation = ReadIncarnation(*files_);
  auto next = ReadReservations(beyond);
  for (const Status& status : {incarnation.status(), next.status()}) {
    if (status.ok() || status.code() == StatusCode::kDataLoss || status.code() == StatusCode::kNotFound) continue;
    return status;
  }
  const bool first = incarnation.status().code() == StatusCode::kNotFound;
  if (!next.ok() && !(first && next.status().code() == StatusCode::kNotFound)) {
    repairs_.push_back("reserved versions were lost, a new incarnation begins: " +
                       std::string(next.status().message()));
  } else if (!first && !incarnation.ok()) {
    repairs_.push_back("a new incarnation begins: " + std::string(incarnation.status().message()));
  }
  const bool renew = !repairs_.empty() || options_.new_incarnation;
  if (renew) VICINAL_RETURN_IF_ERROR(WriteIncarnation());
  if (!next.ok()) VICINAL_RETURN_IF_ERROR(WriteReservations(beyond));
  if (first && !renew) VICINAL_RETURN_IF_ERROR(WriteIncarnation());
  if (!renew && !first) incarnation_ = *incarnation;
  MutexLock lock(&reserve_mutex_);
  next_ = next.ok() ? *std::move(next) : std::move(beyond);
  return OkStatus();
}

StatusOr<std::map<Store, int64_t>> StateDirectory::NumbersBeyondAll() const {
  std::map<Store, int64_t> beyond;
  for (const Store store : kNumberedStores) beyond[store] = 1;
  const VersionVisitor visit = [&](const VersionId& id, const std::string&) {
    // Greater numbers were never handed out: somebody made the directory.
    int64_t& next = beyond[NumberedAs(id.store)];
    if (id.version < kMaxVersion) next = std::max(next, id.version + 1);
  };
  VICINAL_RETURN_IF_ERROR(VisitAll(visit, nullptr));
  return beyond;
}

Status StateDirectory::CheckIncarnation() const { return ReadIncarnation(*files_).status(); }

Status StateDirectory::CheckStores() const {
  for (const char* const store : {"graphs", "models"}) VICINAL_RETURN_IF_ERROR(files_->Stat(store).status());
  return OkStatus();
}

bool StateDirectory::IsReplaced() const {
  if (files_->CheckReachable().ok()) return false;
  const auto now = files_->Reopen();
  return now.ok() && CheckFormat(**now).value_or(false) && ReadIncarnation(**now).ok();
}

StatusOr<std::string> StateDirectory::ReadIncarnationNow() const { return ReadIncarnation(*files_); }

Status StateDirectory::CheckReservations() const {
  // Listed before VERSIONS is read: a writer reserves numbers before it uses them.
  VICINAL_ASSIGN_OR_RETURN(const auto beyond, NumbersBeyondAll());
  return ReadReservations(beyond).status();
}

Status StateDirectory::WriteIncarnation() {
  incarnation_ = MakeUuid();
  return ReplaceFile(*files_, kIncarnation, internal::SealJson({{"incarnation", incarnation_}}));
}

Status StateDirectory::WriteReservations(const std::map<Store, int64_t>& next) {
  Json json;
  for (const auto& [store, version] : next) json[std::string(ToString(store))] = version;
  return ReplaceFile(*files_, kVersions, internal::SealJson({{"next", json}}));
}

StatusOr<std::map<Store, int64_t>> StateDirectory::ReadReservations(const std::map<Store, int64_t>& beyond) const {
  VICINAL_ASSIGN_OR_RETURN(const Json json, ReadDocument(*files_, kVersions));
  const auto found = json.find("next");
  if (found == json.end() || !found->is_object()) return Damaged(kVersions, "next is not an object");
  std::map<Store, int64_t> next;
  for (const Store store : kNumberedStores) {
    const std::string key(ToString(store));
    VICINAL_ASSIGN_OR_RETURN(next[store], internal::IntegerMember(kVersions, *found, key.c_str(), 1, kMaxVersion));
    const auto least = beyond.find(store);
    if (least != beyond.end() && next[store] < least->second) {
      return Damaged(kVersions, "version " + std::to_string(least->second - 1) + " of " + key +
                                    " is there, but its number is not reserved: this is a copy, see "
                                    "'vicinal state restore'");
    }
  }
  return next;
}

StatusOr<int64_t> StateDirectory::ReserveVersions(Store store, int64_t count) {
  VICINAL_CHECK(!options_.read_only && count > 0 && count < kMaxVersion / 2);
  MutexLock lock(&reserve_mutex_);
  std::map<Store, int64_t> next = next_;
  int64_t& number = next[NumberedAs(store)];
  const int64_t first = number;
  number += count;
  if (number > kMaxVersion) return FailedPrecondition("STATE_NO_VERSIONS", "all version numbers are used");
  VICINAL_RETURN_IF_ERROR(WriteReservations(next));
  next_ = std::move(next);
  return first;
}

Status StateDirectory::PutRecent(const std::vector<std::string>& graphs) {
  VICINAL_CHECK(!options_.read_only);
  MutexLock lock(&mutex_);
  return ReplaceFile(*files_, kRecent, internal::SealJson({{"graphs", graphs}}));
}

StatusOr<std::vector<std::string>> StateDirectory::GetRecent() const {
  VICINAL_ASSIGN_OR_RETURN(const Json json, ReadDocument(*files_, kRecent));
  const auto found = json.find("graphs");
  if (found == json.end() || !found->is_array()) return Damaged(kRecent, "graphs is not a list");
  std::vector<std::string> graphs;
  for (const Json& name : *found) {
    if (!name.is_string()) return Damaged(kRecent, "a name is not a string");
    graphs.push_back(name.get<std::string>());
  }
  return graphs;
}

StatusOr<LockHolder> StateDirectory::ReadHolder() const {
  VICINAL_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(*files_, kLock, 4096));
  const auto holder = ParseHolder(text);
  if (!holder) return NotFound("lock holder", kLock, "the writer has not written its name yet");
  return *holder;
}

}  // namespace vicinal::state
