// SPDX-License-Identifier: Apache-2.0
#include "engine/store/model_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/store/version_errors.h"

namespace vicinal {
namespace {

// Accounts for a version that no longer serves: only requests still use its memory.
void Retire(const StoredModel& model) {
  if (model.memory != nullptr) model.memory->TransferTo(Account::kRequests);
}

// The model as it is kept: each copy of the handle keeps its reservation alive.
ModelHandle HandleOf(StoredModel model) {
  if (model.memory != nullptr) {
    model.memory->TransferTo(Account::kModels);
    model.model = WithReservation(std::move(model.model), model.memory);
  }
  return std::make_shared<const StoredModel>(std::move(model));
}

}  // namespace

Status ModelStore::CheckPutLocked(const std::string& name, bool replace, int64_t if_version) const {
  const auto found = models_.find(name);
  if (found == models_.end()) {
    if (if_version != 0)
      return NotFound("model", name, absl::StrCat("if_version ", if_version, " names a version to replace"));
    if (options_.max_models > 0 && static_cast<int64_t>(models_.size()) >= options_.max_models) {
      return ResourceExhausted(
          "TOO_MANY_MODELS",
          absl::StrCat("there are ", models_.size(), " models, the maximum (--max_models); delete some"),
          std::chrono::seconds(10));
    }
    return OkStatus();
  }
  if (!replace) return AlreadyExists("model", name, "set replace to replace it");
  if (if_version != 0 && if_version != found->second->version)
    return internal::VersionDiffers("model", name, found->second->version, if_version);
  return OkStatus();
}

Status ModelStore::CheckPut(const std::string& name, bool replace, int64_t if_version) const {
  MutexLock lock(&mutex_);
  return CheckPutLocked(name, replace, if_version);
}

StatusOr<ModelHandle> ModelStore::Put(StoredModel model, bool replace, int64_t if_version) {
  VICINAL_ASSIGN_OR_RETURN(VersionClaim claim, versions_->Claim());
  const std::string name = model.name;
  ModelHandle handle, replaced;  // freed after the lock
  {
    MutexLock lock(&mutex_);
    VICINAL_RETURN_IF_ERROR(CheckPutLocked(name, replace, if_version));
    model.version = claim.Take();
    model.create_time = options_.clock != nullptr ? options_.clock->WallNow() : Clock::Real().WallNow();
    handle = HandleOf(std::move(model));
    replaced = std::exchange(models_[name], handle);
    lost_.erase(name);
    if (replaced != nullptr) Retire(*replaced);
  }
  watchers_->Notify(name);
  return handle;
}

void ModelStore::Adopt(StoredModel model) {
  const std::string name = model.name;
  ModelHandle handle = HandleOf(std::move(model));  // freed after the lock: the former one, or this if it is older
  {
    MutexLock lock(&mutex_);
    ModelHandle& current = models_[name];
    if (current == nullptr || current->version < handle->version) current.swap(handle);
    lost_.erase(name);
  }
  NotifyWatchers(name);
}

void ModelStore::SetLost(const std::string& name, const Status& error) {
  MutexLock lock(&mutex_);
  if (!models_.contains(name)) lost_.try_emplace(name, error);
}

void ModelStore::ForgetLost(const std::string& name) {
  MutexLock lock(&mutex_);
  lost_.erase(name);
}

StatusOr<ModelHandle> ModelStore::Find(const std::string& name, int64_t version) const {
  MutexLock lock(&mutex_);
  const auto found = models_.find(name);
  if (found == models_.end()) {
    const auto lost = lost_.find(name);
    if (lost == lost_.end()) return NotFound("model", name, "upload it, or list the existing models");
    return Annotate(lost->second, absl::StrCat("model '", name, "' could not be loaded from disk"));
  }
  if (version != 0 && version != found->second->version) {
    return internal::VersionNotFound("model", name, found->second->version, version);
  }
  return found->second;
}

std::vector<ModelHandle> ModelStore::List() const {
  MutexLock lock(&mutex_);
  std::vector<ModelHandle> list;
  for (const auto& [name, model] : models_) list.push_back(model);
  return list;
}

bool ModelStore::IsServing(const std::string& name, const Model& model) const {
  const StatusOr<ModelHandle> current = Find(name, 0);
  return current.ok() && (*current)->model.get() == &model;
}

Status ModelStore::Delete(const std::string& name, int64_t if_version) {
  ModelHandle deleted;  // freed after the lock
  {
    MutexLock lock(&mutex_);
    const auto found = models_.find(name);
    if (found == models_.end()) return lost_.erase(name) > 0 ? OkStatus() : NotFound("model", name);
    if (if_version != 0 && if_version != found->second->version)
      return internal::VersionDiffers("model", name, found->second->version, if_version);
    deleted = std::move(found->second);
    Retire(*deleted);
    models_.erase(found);
  }
  watchers_->Notify(name);
  return OkStatus();
}

std::unique_ptr<Subscription> ModelStore::Watch(const std::string& name, std::function<void()> callback) {
  return internal::Watch(watchers_, name, std::move(callback));
}

void ModelStore::NotifyWatchers(const std::string& name) const { watchers_->Notify(name); }

}  // namespace vicinal
