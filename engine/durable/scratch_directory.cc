// SPDX-License-Identifier: Apache-2.0
#include "engine/durable/scratch_directory.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/state/posix_file_system.h"

namespace vicinal::durable {

StatusOr<ScratchDirectory> OpenScratch(const std::string& path) {
  ScratchDirectory scratch;
  VICINAL_ASSIGN_OR_RETURN(scratch.files, state::PosixFileSystem::Open(path, state::PosixFileSystem::Root::kCreate));
  if (scratch.files->Stat("FORMAT").ok()) {
    return InvalidArgument(
        "BAD_SCRATCH_DIR", "scratch_dir",
        absl::StrCat(path, " is a state directory; a scratch directory belongs to one replica alone"));
  }
  VICINAL_ASSIGN_OR_RETURN(scratch.lock, scratch.files->Lock("LOCK", absl::StrCat("{\"pid\":", getpid(), "}")));
  return scratch;
}

}  // namespace vicinal::durable
