// SPDX-License-Identifier: Apache-2.0
// Models by name, with versions and atomic replacement. In memory (engine/durable keeps them). The store checks no
// memory: its callers reserve it, and the stored models own the reservations.
#ifndef VICINAL_ENGINE_STORE_MODEL_STORE_H_
#define VICINAL_ENGINE_STORE_MODEL_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/api/subscription.h"
#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/memory/memory_budget.h"
#include "engine/model/model.h"
#include "engine/store/version_source.h"
#include "engine/store/watchers.h"

namespace vicinal {

// A model as it was uploaded.
struct ModelDocument {
  std::string architecture_json;
  std::string weights_file;  // safetensors
  Reservation memory;        // of the two
};

struct StoredModel {
  std::string name;
  int64_t version = 0;
  WallTime create_time{};
  std::shared_ptr<const Model> model;   // once stored, each copy keeps `memory` alive
  std::shared_ptr<Reservation> memory;  // of the model; changed by the store only; null: not counted
  bool reference_checked = false;
  double reference_error = 0.0;
  std::string source_digest;  // of what the upload was made from; opaque
};
using ModelHandle = std::shared_ptr<const StoredModel>;

// Thread-safe. Reservations of versions that were deleted or replaced are transferred to Account::kRequests, because
// only requests still use them.
class ModelStore {
 public:
  struct Options {
    int64_t max_models = 1000;
    const Clock* clock = nullptr;
    VersionSource* versions = nullptr;  // must outlive the store; null: one of its own, in memory
  };
  explicit ModelStore(Options options)
      : options_(options),
        versions_(options.versions != nullptr ? options.versions : &own_versions_),
        watchers_(std::make_shared<internal::Watchers>()) {}

  // Whether Put would succeed, to be checked before loading: ALREADY_EXISTS, ABORTED, RESOURCE_EXHAUSTED.
  Status CheckPut(const std::string& name, bool replace, int64_t if_version) const;
  // Gives the model its version. Errors of CheckPut and VersionSource.
  StatusOr<ModelHandle> Put(StoredModel model, bool replace, int64_t if_version);
  // Puts a model from the state directory, which keeps its version and time, unless the store has the same or a later
  // version of it.
  void Adopt(StoredModel model);
  // A model of that name is on disk and cannot be loaded: requests get `error` until one is put there, or it is
  // deleted. No effect while a version serves, or if there is such an error already.
  void SetLost(const std::string& name, const Status& error);
  void ForgetLost(const std::string& name);
  // Version 0: the latest. NOT_FOUND; the error of SetLost.
  StatusOr<ModelHandle> Find(const std::string& name, int64_t version) const;
  std::vector<ModelHandle> List() const;  // by name
  // Whether `model` is the version that serves under `name`.
  bool IsServing(const std::string& name, const Model& model) const;
  Status Delete(const std::string& name, int64_t if_version);

  // Calls `callback` after each replacement, deletion and NotifyWatchers of `name`, as GraphStore::Watch does.
  std::unique_ptr<Subscription> Watch(const std::string& name, std::function<void()> callback);
  // Tells the watchers of `name` that something about it changed which is not kept here.
  void NotifyWatchers(const std::string& name) const;

 private:
  Status CheckPutLocked(const std::string& name, bool replace, int64_t if_version) const VICINAL_REQUIRES(mutex_);

  const Options options_;
  VersionSource own_versions_;
  VersionSource* const versions_;
  mutable Mutex mutex_;
  std::map<std::string, ModelHandle> models_ VICINAL_GUARDED_BY(mutex_);
  std::map<std::string, Status> lost_ VICINAL_GUARDED_BY(mutex_);  // of names without a model
  const std::shared_ptr<internal::Watchers> watchers_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_STORE_MODEL_STORE_H_
