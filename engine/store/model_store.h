// SPDX-License-Identifier: Apache-2.0
// The models that are there, by name: versions, atomic replacement, a budget of bytes. In memory; persistence comes
// later.
#ifndef VICINAL_ENGINE_STORE_MODEL_STORE_H_
#define VICINAL_ENGINE_STORE_MODEL_STORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/model/model.h"

namespace vicinal {

struct StoredModel {
  std::string name;
  int64_t version = 0;
  WallTime create_time{};
  std::shared_ptr<const Model> model;
  bool reference_checked = false;
  double reference_error = 0.0;
};
using ModelHandle = std::shared_ptr<const StoredModel>;

// Thread-safe.
class ModelStore {
 public:
  struct Options {
    int64_t budget_bytes = 0;  // 0: no bound
    int64_t max_models = 1000;
    const Clock* clock = nullptr;
  };
  explicit ModelStore(Options options) : options_(options) {}

  // Whether Put would be allowed, before the work of loading: ALREADY_EXISTS, ABORTED, RESOURCE_EXHAUSTED.
  Status CheckPut(const std::string& name, bool replace, int64_t if_version) const;
  StatusOr<ModelHandle> Put(StoredModel model, bool replace, int64_t if_version);
  // Version 0: the latest. NOT_FOUND.
  StatusOr<ModelHandle> Find(const std::string& name, int64_t version) const;
  std::vector<ModelHandle> List() const;  // by name
  Status Delete(const std::string& name, int64_t if_version);
  int64_t size_bytes() const;

 private:
  Status CheckPutLocked(const std::string& name, bool replace, int64_t if_version) const VICINAL_REQUIRES(mutex_);

  const Options options_;
  mutable Mutex mutex_;
  int64_t next_version_ VICINAL_GUARDED_BY(mutex_) = 1;
  std::map<std::string, ModelHandle> models_ VICINAL_GUARDED_BY(mutex_);
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_STORE_MODEL_STORE_H_
