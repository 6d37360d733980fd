// SPDX-License-Identifier: Apache-2.0
// Brings the files that a start needs into the page cache, in the order in which graphs are loaded, while the device is
// opened and graphs are checked: the disk never waits for the processor.
#ifndef VICINAL_ENGINE_DURABLE_READ_AHEAD_H_
#define VICINAL_ENGINE_DURABLE_READ_AHEAD_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "engine/state/state_directory.h"

namespace vicinal::durable {

// The order in which a start loads graphs: those that were used before the last stop, the latest first; then the
// others, the latest version first. `graphs`: the latest version of each name.
std::vector<std::string> LoadOrder(const state::StateDirectory& directory,
                                   const std::map<std::string, state::VersionId>& graphs);

// The data files of the latest versions of all graphs, their layouts and their feature sets, in that order, until they
// have `max_bytes`. What cannot be read is left out: whoever loads it says why.
struct FileToRead {
  state::Manifest manifest;  // of its version; of layouts, the graph's
  state::ManifestFile file;
  bool layout = false;

  friend bool operator==(const FileToRead&, const FileToRead&) = default;
};
std::vector<FileToRead> FilesOfStart(const state::StateDirectory& directory, int64_t max_bytes);

// Reads FilesOfStart on a thread of its own, from construction until they are read or the object is destroyed.
class ReadAhead {
 public:
  // `directory` must outlive the object.
  ReadAhead(const state::StateDirectory& directory, int64_t max_bytes);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace vicinal::durable

#endif  // VICINAL_ENGINE_DURABLE_READ_AHEAD_H_
