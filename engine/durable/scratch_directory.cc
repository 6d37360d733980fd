// SPDX-License-Identifier: Apache-2.0
#include "engine/durable/scratch_directory.h"

#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/state/posix_file_system.h"

namespace vicinal::durable {
namespace {

// `path` need not exist; links are followed.
Status CheckIsInNoStateDirectory(const std::string& path) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  if (error) return OkStatus();  // opening it says why
  for (std::filesystem::path at = whole; !std::filesystem::exists(at / "FORMAT", error); at = at.parent_path()) {
    if (at == at.parent_path()) return OkStatus();
  }
  return InvalidArgument("BAD_SCRATCH_DIR", "scratch_dir",
                         "this is a state directory, or lies in one; a scratch directory belongs to one replica alone: "
                         "name one elsewhere");
}

StatusOr<ScratchDirectory> OpenPath(const std::string& path) {
  VICINAL_RETURN_IF_ERROR(CheckIsInNoStateDirectory(path));
  ScratchDirectory scratch;
  VICINAL_ASSIGN_OR_RETURN(scratch.files, state::PosixFileSystem::Open(path, state::PosixFileSystem::Root::kCreate));
  auto lock = scratch.files->Lock("LOCK", absl::StrCat("{\"pid\":", getpid(), "}"));
  if (const auto detail = DetailOf(lock.status()); detail && detail->reason == "STATE_LOCKED") {
    return Annotate(lock.status(), "another server uses it; give each replica a directory of its own");
  }
  VICINAL_ASSIGN_OR_RETURN(scratch.lock, std::move(lock));
  return scratch;
}

}  // namespace

StatusOr<ScratchDirectory> OpenScratch(const std::string& path) {
  StatusOr<ScratchDirectory> opened = OpenPath(path);
  if (opened.ok()) return opened;
  return Annotate(opened.status(), absl::StrCat("--scratch_dir '", path, "'"));
}

}  // namespace vicinal::durable
