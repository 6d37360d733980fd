// SPDX-License-Identifier: Apache-2.0
// Reads without blocking, and polls if a pipe has no data yet: opening a named pipe without a writer would otherwise
// wait for ever.
#include "server/read_token_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "proto/wire/names.h"

namespace vicinal::server {
namespace {

using wire::kMaxTokenBytes;

// The token with surrounding blanks.
constexpr size_t kMaxLineBytes = 2 * kMaxTokenBytes;

// Reads an open file and closes it.
class Reader {
 public:
  Reader(int file, std::chrono::milliseconds patience) : file_(file), patience_(patience) {
    struct stat about;
    regular_ = fstat(file_, &about) == 0 && S_ISREG(about.st_mode);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { close(file_); }

  // Appends the next bytes; nothing at the end of the file. Returns 0 or the error number.
  int Append(std::string* text) {
    while (true) {
      char buffer[kMaxTokenBytes];
      const ssize_t got = read(file_, buffer, sizeof(buffer));
      if (got > 0) {
        text->append(buffer, static_cast<size_t>(got));
        return 0;
      }
      if (got < 0 && errno != EAGAIN && errno != EINTR) return errno;
      // A pipe without a writer so far looks like the end of the file.
      if (got == 0 && (regular_ || waited_ || !text->empty())) return 0;
      pollfd ready{file_, POLLIN, 0};
      if (poll(&ready, 1, static_cast<int>(patience_.count())) == 0) return ETIMEDOUT;
      waited_ = true;
    }
  }

 private:
  const int file_;
  const std::chrono::milliseconds patience_;
  bool regular_ = false;
  bool waited_ = false;
};

// Reads at least the first line, or more than the maximum line length. Returns 0 or the error number.
int ReadStart(const std::string& path, std::chrono::milliseconds patience, std::string* text) {
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (file < 0) return errno;
  Reader reader(file, patience);
  for (size_t before = 1; text->size() != before && text->size() <= kMaxLineBytes;) {
    if (text->find('\n') != std::string::npos) break;
    before = text->size();
    if (const int error = reader.Append(text)) return error;
  }
  return 0;
}

}  // namespace

StatusOr<std::string> ReadTokenFile(const std::string& path, const char* flag, std::chrono::milliseconds patience) {
  const auto bad = [&](const std::string& what) {
    return InvalidArgument("BAD_FLAG", flag, absl::StrCat("--", flag, "=", path, ": ", what));
  };
  std::string text;
  if (const int error = ReadStart(path, patience, &text)) {
    if (error == ETIMEDOUT) return bad(absl::StrCat("a pipe without data for ", patience.count() / 1000, " s"));
    return bad(absl::StrCat("cannot be read: ", std::strerror(error)));
  }
  const size_t end = text.find('\n');
  if (end == std::string::npos && text.size() > kMaxLineBytes) {
    return bad(absl::StrCat("its first line has more than ", kMaxLineBytes,
                            " bytes; is it the token's file? A token has ", "at most ", kMaxTokenBytes));
  }
  const std::string token(absl::StripAsciiWhitespace(text.substr(0, end)));
  if (token.empty()) return bad("its first line is empty; write the token there");
  if (token.size() > kMaxTokenBytes) {
    return bad(absl::StrCat("the token has ", token.size(), " characters; at most ", kMaxTokenBytes,
                            " are allowed, because gRPC limits the metadata of a call to 8 KiB"));
  }
  for (const char c : token) {
    if (c <= 0x20 || c >= 0x7f) return bad("the token contains a character that cannot be sent (a space?)");
  }
  return token;
}

}  // namespace vicinal::server
