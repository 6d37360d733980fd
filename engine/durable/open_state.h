// SPDX-License-Identifier: Apache-2.0
// The state directory of a running engine, and the version numbers that it makes durable.
#ifndef VICINAL_ENGINE_DURABLE_OPEN_STATE_H_
#define VICINAL_ENGINE_DURABLE_OPEN_STATE_H_

#include <memory>
#include <string>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/stats.h"
#include "engine/base/status.h"
#include "engine/state/file_system.h"
#include "engine/state/state_directory.h"
#include "engine/store/version_source.h"

namespace vicinal::durable {

// Thread-safe.
class OpenState {
 public:
  enum class Access {
    kWrite,
    kRead,  // of a directory that another server writes: it must be there, and nothing is written
  };
  // Opens the directory `path`; to write it, it is made if only its last component is missing. `address` is written to
  // the lock file. Logs what had to be repaired; `logger` and `stats` must outlive the object. Errors of
  // StateDirectory::Open and of the file system, which name --state_dir and `path`.
  static StatusOr<std::unique_ptr<OpenState>> Open(const std::string& path, Access access, const std::string& address,
                                                   const Clock& clock, Logger& logger, StatsSink& stats);

  state::StateDirectory& directory() { return *directory_; }
  state::FileSystem& files() { return *files_; }
  VersionSource* graph_versions() { return &graph_versions_; }
  VersionSource* feature_versions() { return &feature_versions_; }
  VersionSource* model_versions() { return &model_versions_; }

 private:
  static StatusOr<std::unique_ptr<OpenState>> OpenPath(const std::string& path, Access access,
                                                       const std::string& address, const Clock& clock, Logger& logger,
                                                       StatsSink& stats);
  OpenState(std::unique_ptr<state::FileSystem> files, std::unique_ptr<state::StateDirectory> directory,
            StatsSink* stats);
  VersionSource::ReserveBlock ReserveIn(state::Store store);

  const std::unique_ptr<state::FileSystem> files_;
  const std::unique_ptr<state::StateDirectory> directory_;
  StatsSink* const stats_;
  VersionSource graph_versions_, feature_versions_, model_versions_;
};

}  // namespace vicinal::durable

#endif  // VICINAL_ENGINE_DURABLE_OPEN_STATE_H_
