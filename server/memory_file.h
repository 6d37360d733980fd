// SPDX-License-Identifier: Apache-2.0
// A file that exists in this process's memory only, and still has a path that a library can open: private keys reach no
// disk, and nothing is left behind if the process is killed. Replacing the content is atomic for readers.
#ifndef VICINAL_SERVER_MEMORY_FILE_H_
#define VICINAL_SERVER_MEMORY_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace vicinal::server {

// Not thread-safe; readers of the path need no lock.
class MemoryFile {
 public:
  MemoryFile() = default;
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile();

  // Gives the file this content. Its modification time becomes `generation` seconds after 1970: a reader that compares
  // times sees every change, even several within one second. FAILED_PRECONDITION: no memory or no descriptor; the old
  // content stays.
  Status Replace(std::string_view content, int64_t generation);

  // Valid in this process from the first Replace on; stays the same.
  std::string path() const;

 private:
  int fd_ = -1;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_MEMORY_FILE_H_
