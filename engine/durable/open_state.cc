// SPDX-License-Identifier: Apache-2.0
#include "engine/durable/open_state.h"

#include <unistd.h>

#include <climits>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/error.h"
#include "engine/durable/failures.h"
#include "engine/state/posix_file_system.h"

namespace vicinal::durable {
namespace {

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, HOST_NAME_MAX) == 0 ? name : "unknown";
}

Status WithAdvice(const Status& error, const std::string& advice) {
  return MakeError(error.code(), std::string(error.message()) + "; " + advice, DetailOf(error).value_or(ErrorDetail()));
}

}  // namespace

OpenState::OpenState(std::unique_ptr<state::FileSystem> files, std::unique_ptr<state::StateDirectory> directory,
                     StatsSink* stats)
    : files_(std::move(files)),
      directory_(std::move(directory)),
      stats_(stats),
      graph_versions_(ReserveIn(state::Store::kGraphs)),
      feature_versions_(ReserveIn(state::Store::kFeatures)),
      model_versions_(ReserveIn(state::Store::kModels)) {}

VersionSource::ReserveBlock OpenState::ReserveIn(state::Store store) {
  return [this, store](int64_t count) {
    StatusOr<int64_t> first = directory_->ReserveVersions(store, count);
    if (!first.ok()) stats_->StateFailure(FailureKind(first.status()));
    return first;
  };
}

StatusOr<std::unique_ptr<OpenState>> OpenState::Open(const std::string& path, Access access, const std::string& address,
                                                     const Clock& clock, Logger& logger, StatsSink& stats) {
  auto opened = OpenPath(path, access, address, clock, logger, stats);
  if (opened.ok()) return opened;
  const Status named = Annotate(opened.status(), "--state_dir '" + path + "'");
  if (access == Access::kWrite || named.code() != StatusCode::kNotFound) return named;
  return WithAdvice(named, "start the server that writes it first");
}

StatusOr<std::unique_ptr<OpenState>> OpenState::OpenPath(const std::string& path, Access access,
                                                         const std::string& address, const Clock& clock, Logger& logger,
                                                         StatsSink& stats) {
  using Root = state::PosixFileSystem::Root;
  VICINAL_ASSIGN_OR_RETURN(
      std::unique_ptr<state::FileSystem> files,
      state::PosixFileSystem::Open(path, access == Access::kWrite ? Root::kCreate : Root::kMustExist));
  state::StateDirectory::Options options;
  options.read_only = access == Access::kRead;
  options.holder = {HostName(), getpid(), absl::FormatTime(absl::FromChrono(clock.WallNow()), absl::UTCTimeZone()),
                    address};
  options.clock = &clock;
  VICINAL_ASSIGN_OR_RETURN(std::unique_ptr<state::StateDirectory> directory,
                           state::StateDirectory::Open(files.get(), std::move(options)));
  for (const std::string& repair : directory->repairs()) {
    logger.Log(LogLevel::kWarning, "state directory repaired", {{"directory", path}, {"repair", repair}});
  }
  logger.Log(LogLevel::kInfo, "state directory", {{"directory", path}, {"incarnation", directory->incarnation()}});
  return std::unique_ptr<OpenState>(new OpenState(std::move(files), std::move(directory), &stats));
}

}  // namespace vicinal::durable
