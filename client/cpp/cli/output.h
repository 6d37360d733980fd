// SPDX-License-Identifier: Apache-2.0
// Text output: aligned tables, sizes and times with units, and a progress bar for terminals.
#ifndef VICINAL_CLIENT_CPP_CLI_OUTPUT_H_
#define VICINAL_CLIENT_CPP_CLI_OUTPUT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace vicinal::client::cli {

// Columns as wide as their widest cell (but for the padding, at most 120 characters), two spaces between them; columns
// of numbers are aligned right. Cells are made printable (printable.h).
class Table {
 public:
  explicit Table(std::vector<std::string> titles) : rows_{std::move(titles)} {}
  void Add(std::vector<std::string> row);
  void Print(std::ostream& out) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string FormatBytes(int64_t bytes);     // "84.2 KiB"
std::string FormatSeconds(double seconds);  // "1.25 ms"
std::string FormatNumber(double value);     // six significant digits
std::string FormatFixed(double value, int digits);
std::string FormatCount(int64_t count, const char* noun);  // "1 edge", "2 edges"
std::string Shorten(const std::string& text);              // at most 60 bytes, then "...", for cells of a table
std::string FormatShare(double share);                     // "85.1 %"

// Printable lines of at most `width` characters, each after `indent` spaces. Breaks at spaces; a longer word has a line
// of its own.
void PrintWrapped(const std::string& text, size_t width, size_t indent, std::ostream& out);

// "... 5 more layers" and the reason, if the server truncated a reply; nothing if `count` is 0.
void PrintLeftOut(int64_t count, const char* what, std::ostream& out);

// "[#####.....]  45 %  uploading" on one line of a terminal, erased by the destructor. Prints nothing elsewhere.
class ProgressBar {
 public:
  ProgressBar(std::ostream& err, bool terminal) : err_(err), terminal_(terminal) {}
  ~ProgressBar() { Clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `share` of 1; draws at most ten times a second.
  void Show(double share, const std::string& label);
  void Clear();

 private:
  std::ostream& err_;
  const bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_OUTPUT_H_
