// SPDX-License-Identifier: Apache-2.0
// A new directory for the files of one test, removed with all in it at the end. Tests run at the same time, in
// processes of their own: a fixed name in the shared temporary directory would be written by two of them, so tests make
// files nowhere else.
#ifndef VICINAL_TESTS_SUPPORT_TEMPORARY_DIRECTORY_H_
#define VICINAL_TESTS_SUPPORT_TEMPORARY_DIRECTORY_H_

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace vicinal {

// As a member of a fixture it stands before what uses it, so that it is removed afterwards.
class TemporaryDirectory {
 public:
  // In the system's directory for temporary files ($TMPDIR). Ends the process if it cannot be made.
  TemporaryDirectory() : TemporaryDirectory(std::filesystem::temp_directory_path()) {}
  explicit TemporaryDirectory(const std::filesystem::path& parent) : path_((parent / "vicinal_test_XXXXXX").string()) {
    if (mkdtemp(path_.data()) != nullptr) return;
    const std::error_code reason(errno, std::generic_category());
    std::fprintf(stderr, "cannot make a temporary directory in %s: %s\n", parent.c_str(), reason.message().c_str());
    std::abort();
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    if (!kept_) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  // It stays, for inspection.
  void Keep() { kept_ = true; }

 private:
  std::string path_;
  bool kept_ = false;
};

}  // namespace vicinal

#endif  // VICINAL_TESTS_SUPPORT_TEMPORARY_DIRECTORY_H_
