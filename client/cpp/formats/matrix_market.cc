// SPDX-License-Identifier: Apache-2.0
// Banner, size line, entries. Nothing is reserved by the size line's word alone: an entry takes at least four bytes of
// text.
#include "client/cpp/formats/matrix_market.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/status_macros.h"
#include "client/cpp/formats/text.h"

namespace vicinal::client {
namespace {

struct Banner {
  bool pattern = false;
  bool symmetric = false;
};

std::string Lower(std::string_view text) { return absl::AsciiStrToLower(std::string(text)); }

absl::StatusOr<Banner> ParseBanner(std::string_view line, const std::string& path) {
  std::vector<std::string_view> words;
  SplitAtSpaces(line, &words);
  if (words.size() != 5 || Lower(words[0]) != "%%matrixmarket" || Lower(words[1]) != "matrix") {
    return FileError(path, 1,
                     absl::StrCat(Shown(line),
                                  " is not a MatrixMarket banner: the first line must be '%%MatrixMarket matrix "
                                  "coordinate real|integer|pattern general|symmetric'; if the file is an edge list, "
                                  "pass --format edgelist"));
  }
  const std::string format = Lower(words[2]), field = Lower(words[3]), symmetry = Lower(words[4]);
  if (format != "coordinate")
    return FileError(path, 1, absl::StrCat("'", format, "' matrices are not supported; use coordinate"));
  if (field != "real" && field != "integer" && field != "pattern") {
    return FileError(path, 1,
                     absl::StrCat("values of kind '", field, "' are not supported; use real, integer or pattern"));
  }
  if (symmetry != "general" && symmetry != "symmetric") {
    return FileError(path, 1, absl::StrCat("'", symmetry, "' matrices are not supported; use general or symmetric"));
  }
  return Banner{field == "pattern", symmetry == "symmetric"};
}

// The next line that is neither empty nor a comment.
bool NextContent(LineReader* lines, std::string_view* line) {
  while (lines->Next(line)) {
    const std::string_view trimmed = Trim(*line);
    if (!trimmed.empty() && trimmed.front() != '%') return true;
  }
  return false;
}

struct Size {
  int64_t nodes = 0;
  int64_t entries = 0;
};

absl::StatusOr<Size> ParseSize(std::string_view line, int64_t number, const std::string& path) {
  std::vector<std::string_view> words;
  SplitAtSpaces(line, &words);
  int64_t rows, columns, entries;
  if (words.size() != 3 || !ParseInt(words[0], &rows) || !ParseInt(words[1], &columns) ||
      !ParseInt(words[2], &entries) || rows < 0 || columns < 0 || entries < 0) {
    return FileError(path, number, "the size line must be 'rows columns entries'");
  }
  if (rows != columns) {
    return FileError(path, number,
                     absl::StrCat("the matrix is ", rows, " x ", columns, "; an adjacency matrix must be square"));
  }
  return Size{rows, entries};
}

// One entry, its indices counted from 0.
struct Entry {
  int64_t row = 0;
  int64_t column = 0;
  float value = 1;
};

absl::Status ParseEntry(const std::vector<std::string_view>& words, bool pattern, int64_t nodes, int64_t number,
                        const std::string& path, Entry* entry) {
  const size_t columns = pattern ? 2 : 3;
  if (words.size() != columns || !ParseInt(words[0], &entry->row) || !ParseInt(words[1], &entry->column)) {
    return FileError(path, number, pattern ? "an entry must be 'row column'" : "an entry must be 'row column value'");
  }
  if (entry->row < 1 || entry->row > nodes || entry->column < 1 || entry->column > nodes) {
    return FileError(path, number,
                     absl::StrCat("the entry (", entry->row, ", ", entry->column, ") is outside 1..", nodes));
  }
  --entry->row;
  --entry->column;
  if (pattern) return absl::OkStatus();
  if (!ParseFloat(words[2], &entry->value) || !std::isfinite(entry->value)) {
    return FileError(path, number, absl::StrCat("the value ", Shown(words[2]), " is not a finite number"));
  }
  return absl::OkStatus();
}

}  // namespace

bool HasMatrixMarketBanner(std::string_view text) {
  LineReader lines(text);
  std::string_view line;
  while (lines.Next(&line) && Trim(line).empty()) {
  }
  const std::string lower = Lower(line);
  const size_t begin = lower.find_first_not_of("%# \t");
  if (begin == std::string::npos) return false;
  std::vector<std::string_view> words;
  SplitAtSpaces(std::string_view(lower).substr(begin), &words);
  if (words[0].substr(0, 12) == "matrixmarket") return true;
  constexpr std::string_view kMatrix = "matrix", kCoordinate = "coordinate";
  const auto matrix = std::find(words.begin() + 1, words.end(), kMatrix);
  return matrix != words.end() && matrix + 1 != words.end() && *(matrix + 1) == kCoordinate;
}

absl::StatusOr<EdgeFile> ParseMatrixMarket(std::string_view text, const std::string& path, MatrixRows rows) {
  CLIENT_RETURN_IF_ERROR(CheckText(text, path));
  LineReader lines(text);
  std::string_view line;
  if (!lines.Next(&line)) return FileError(path, 0, "is empty");
  CLIENT_ASSIGN_OR_RETURN(const Banner banner, ParseBanner(line, path));
  if (!NextContent(&lines, &line)) return FileError(path, 0, "ends before the size line");
  CLIENT_ASSIGN_OR_RETURN(const Size size, ParseSize(line, lines.number(), path));

  EdgeFile file;
  file.node_count = size.nodes;
  const auto expected = static_cast<size_t>(std::min<uint64_t>(static_cast<uint64_t>(size.entries), text.size() / 4));
  file.edges.sources.reserve(expected);
  file.edges.targets.reserve(expected);
  const auto add = [&](int64_t row, int64_t column, float value) {
    file.edges.sources.push_back(rows == MatrixRows::kTarget ? column : row);
    file.edges.targets.push_back(rows == MatrixRows::kTarget ? row : column);
    if (!banner.pattern) file.edges.weights.push_back(value);
  };
  std::vector<std::string_view> words;
  int64_t count = 0;
  for (; NextContent(&lines, &line); ++count) {
    if (count == size.entries) {
      return FileError(path, lines.number(), absl::StrCat("more entries than the ", size.entries, " of the size line"));
    }
    SplitAtSpaces(line, &words);
    Entry entry;
    CLIENT_RETURN_IF_ERROR(ParseEntry(words, banner.pattern, size.nodes, lines.number(), path, &entry));
    add(entry.row, entry.column, entry.value);
    if (banner.symmetric && entry.row != entry.column) add(entry.column, entry.row, entry.value);
  }
  if (count < size.entries) {
    return FileError(path, lines.number(),
                     absl::StrCat("ends after ", count, " of the ", size.entries, " entries of the size line"));
  }
  file.notes.push_back(
      rows == MatrixRows::kTarget
          ? "MatrixMarket rows were read as targets: entry (i, j) is an edge j -> i (--mtx_rows source reverses this)"
          : "MatrixMarket rows were read as sources: entry (i, j) is an edge i -> j");
  if (banner.symmetric) file.notes.push_back("the matrix is symmetric: each off-diagonal entry became two edges");
  return file;
}

}  // namespace vicinal::client
