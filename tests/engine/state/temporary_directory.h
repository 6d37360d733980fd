// SPDX-License-Identifier: Apache-2.0
// A directory of this machine's file system, removed with all in it at the end.
#ifndef VICINAL_TESTS_ENGINE_STATE_TEMPORARY_DIRECTORY_H_
#define VICINAL_TESTS_ENGINE_STATE_TEMPORARY_DIRECTORY_H_

#include <cstdlib>
#include <filesystem>
#include <string>

namespace vicinal::state {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "vicinal_state_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace vicinal::state

#endif  // VICINAL_TESTS_ENGINE_STATE_TEMPORARY_DIRECTORY_H_
