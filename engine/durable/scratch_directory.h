// SPDX-License-Identifier: Apache-2.0
// A directory of one process, for what a replica must remember and cannot write to the state directory that it follows.
#ifndef VICINAL_ENGINE_DURABLE_SCRATCH_DIRECTORY_H_
#define VICINAL_ENGINE_DURABLE_SCRATCH_DIRECTORY_H_

#include <memory>
#include <string>

#include "engine/base/status.h"
#include "engine/state/file_system.h"

namespace vicinal::durable {

struct ScratchDirectory {
  std::unique_ptr<state::FileSystem> files;  // null: none
  std::unique_ptr<state::FileLock> lock;     // keeps other processes out
};

// Makes the directory if only its last component is missing. INVALID_ARGUMENT (BAD_SCRATCH_DIR): it is a state
// directory, or lies in one. FAILED_PRECONDITION (STATE_LOCKED): another process uses it. Errors of the file system.
StatusOr<ScratchDirectory> OpenScratch(const std::string& path);

}  // namespace vicinal::durable

#endif  // VICINAL_ENGINE_DURABLE_SCRATCH_DIRECTORY_H_
