// SPDX-License-Identifier: Apache-2.0
// Reads without blocking, and polls where a pipe has nothing to say yet: opening a named pipe that nobody writes to
// would otherwise wait for ever.
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

// With blanks around the token.
constexpr size_t kMaxLineBytes = 2 * kMaxTokenBytes;

// Of a file that is open; closes it.
class Reader {
 public:
  Reader(int file, std::chrono::milliseconds patience) : file_(file), patience_(patience) {
    struct stat about;
    regular_ = fstat(file_, &about) == 0 && S_ISREG(about.st_mode);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { close(file_); }

  // Appends what comes next. 0, or what went wrong; at the file's end nothing is appended.
  int Append(std::string* text) {
    while (true) {
      char buffer[kMaxTokenBytes];
      const ssize_t got = read(file_, buffer, sizeof(buffer));
      if (got > 0) {
        text->append(buffer, static_cast<size_t>(got));
        return 0;
      }
      if (got < 0 && errno != EAGAIN && errno != EINTR) return errno;
      // A pipe that nobody has written to yet seems to have ended.
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

// What is read of the file: at least its first line, or more than a line may have. 0, or what went wrong.
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
    if (error == ETIMEDOUT) return bad(absl::StrCat("a pipe that said nothing for ", patience.count() / 1000, " s"));
    return bad(absl::StrCat("cannot be read: ", std::strerror(error)));
  }
  const size_t end = text.find('\n');
  if (end == std::string::npos && text.size() > kMaxLineBytes) {
    return bad(absl::StrCat("its first line has more than ", kMaxLineBytes,
                            " bytes; is it the token's file? A token has ", "at most ", kMaxTokenBytes));
  }
  const std::string token(absl::StripAsciiWhitespace(text.substr(0, end)));
  if (token.empty()) return bad("its first line is empty; put the token there");
  if (token.size() > kMaxTokenBytes) {
    return bad(absl::StrCat("the token has ", token.size(), " characters; at most ", kMaxTokenBytes,
                            " are taken, because gRPC carries no more than 8 KiB of metadata with a call"));
  }
  for (const char c : token) {
    if (c <= 0x20 || c >= 0x7f) return bad("the token holds a character that cannot be sent (a space?)");
  }
  return token;
}

}  // namespace vicinal::server
