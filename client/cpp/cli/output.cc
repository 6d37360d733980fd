// SPDX-License-Identifier: Apache-2.0
// Formatting without locale: scripts read what people read.
#include "client/cpp/cli/output.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/cpp/printable.h"

namespace vicinal::client::cli {
namespace {

std::string Print(const char* format, double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), format, value);
  return buffer;
}

constexpr size_t kMaxPadding = 120;

// Starts like a number: then the column is aligned right.
bool LooksNumeric(const std::string& cell) {
  if (cell.empty() || cell == "-") return true;
  const size_t at = cell[0] == '-' ? 1 : 0;
  if (at >= cell.size() || cell[at] < '0' || cell[at] > '9') return false;
  return cell.find_first_of("abcdefghijklmnopqrstuvwxyz_") >= cell.find(' ');  // a unit may follow after a space
}

// Characters, not bytes: continuation bytes of UTF-8 take no column.
size_t Width(const std::string& cell) {
  return static_cast<size_t>(std::count_if(cell.begin(), cell.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

void Table::Add(std::vector<std::string> row) {
  for (std::string& cell : row) cell = Printable(cell);
  rows_.push_back(std::move(row));
}

void Table::Print(std::ostream& out) const {
  std::vector<size_t> widths(rows_[0].size(), 0);
  std::vector<bool> right(rows_[0].size(), rows_.size() > 1);
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (size_t c = 0; c < rows_[r].size() && c < widths.size(); ++c) {
      // One long cell must not make every row as long: a server could fill the terminal with spaces.
      widths[c] = std::max(widths[c], std::min(Width(rows_[r][c]), kMaxPadding));
      if (r > 0 && !LooksNumeric(rows_[r][c])) right[c] = false;
    }
  }
  for (const std::vector<std::string>& row : rows_) {
    std::string line;
    for (size_t c = 0; c < row.size() && c < widths.size(); ++c) {
      const std::string padding(widths[c] - std::min(Width(row[c]), widths[c]), ' ');
      line += (c == 0 ? "" : "  ") + (right[c] ? padding + row[c] : row[c] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  }
}

std::string FormatBytes(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  return Print(unit == 0 ? "%.0f " : "%.1f ", value) + kUnits[unit];
}

std::string FormatSeconds(double seconds) {
  if (seconds > 0 && seconds < 1e-6) return Print("%.0f ns", seconds * 1e9);
  if (seconds < 1e-3) return Print("%.0f us", seconds * 1e6);
  if (seconds < 1) return Print("%.2f ms", seconds * 1e3);
  return Print("%.2f s", seconds);
}

std::string FormatNumber(double value) { return Print("%.6g", value); }

std::string FormatFixed(double value, int digits) {
  char buffer[64];
  std::snprintf(buffer, sizeof(buffer), "%.*f", digits, value);
  return buffer;
}

std::string FormatCount(int64_t count, const char* noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

std::string FormatShare(double share) { return Print("%.1f %%", share * 100); }

std::string Shorten(const std::string& text) {
  constexpr size_t kMax = 60;
  if (text.size() <= kMax) return text;
  size_t end = kMax - 3;
  while (end > 0 && (text[end] & 0xC0) == 0x80) --end;  // not within a character
  return text.substr(0, end) + "...";
}

void PrintWrapped(const std::string& text, size_t width, size_t indent, std::ostream& out) {
  std::string line;
  const auto end_line = [&] {
    if (!line.empty()) out << std::string(indent, ' ') << line << '\n';
    line.clear();
  };
  for (const absl::string_view word : absl::StrSplit(Printable(text), ' ', absl::SkipEmpty())) {
    if (!line.empty() && Width(line) + 1 + Width(std::string(word)) > width) end_line();
    absl::StrAppend(&line, line.empty() ? "" : " ", word);
  }
  end_line();
}

void PrintLeftOut(int64_t count, const char* what, std::ostream& out) {
  if (count == 0) return;
  out << "... " << count << " more " << what << ": left out by the server (--max_response_bytes)\n";
}

void ProgressBar::Show(double share, const std::string& label) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (shown_ && share < 1 && now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  shown_ = true;
  constexpr int kCells = 30;
  const double clamped = std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0.0;
  const int full = static_cast<int>(clamped * kCells);
  err_ << "\r\x1b[K[" << std::string(full, '#') << std::string(kCells - full, '.') << "] "
       << Print("%3.0f %%  ", clamped * 100) << label << std::flush;
}

void ProgressBar::Clear() {
  if (!shown_) return;
  err_ << "\r\x1b[K" << std::flush;
  shown_ = false;
}

}  // namespace vicinal::client::cli
