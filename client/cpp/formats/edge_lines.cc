// SPDX-License-Identifier: Apache-2.0
// The layout comes from the first line that is no comment: its separator and columns, and whether it holds titles.
#include "client/cpp/formats/edge_lines.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/formats/files.h"

namespace vicinal::client {
namespace {

// How many comments a note names by their lines.
constexpr size_t kNamedComments = 3;

bool IsTitle(std::string_view field, std::initializer_list<const char*> words) {
  const std::string lower = absl::AsciiStrToLower(std::string(field));
  return std::any_of(words.begin(), words.end(), [&](const char* word) { return lower == word; });
}

bool IsSourceTitle(std::string_view field) {
  return IsTitle(field, {"source", "src", "from", "from_node", "node1", "u", "id1"});
}
bool IsTargetTitle(std::string_view field) {
  return IsTitle(field, {"target", "dst", "to", "to_node", "node2", "v", "id2", "dest", "destination"});
}
bool PutTargetFirst(const std::vector<std::string_view>& titles) {
  return IsTargetTitle(titles[0]) && IsSourceTitle(titles[1]);
}

// A first line is titles when its words say so, or when its ids are no numbers and those of the next line are, or when
// there is no number where a weight belongs.
bool LooksLikeTitles(const std::vector<std::string_view>& first, const std::vector<std::string_view>& second) {
  if ((IsSourceTitle(first[0]) && IsTargetTitle(first[1])) || PutTargetFirst(first)) return true;
  float weight;
  if (first.size() == 3 && !first[2].empty() && !ParseFloat(first[2], &weight)) {
    return second.size() == 3 && ParseFloat(second[2], &weight);
  }
  int64_t number;
  return second.size() == first.size() && !ParseInt(first[0], &number) && !ParseInt(first[1], &number) &&
         ParseInt(second[0], &number) && ParseInt(second[1], &number);
}

bool HasTitles(Titles titles, const std::vector<std::string_view>& first, const std::vector<std::string_view>& second) {
  return titles == Titles::kYes || (titles == Titles::kAuto && LooksLikeTitles(first, second));
}

// Why a line may have another number of columns than was meant.
std::string ColumnHint(std::string_view line, char separator, const std::vector<std::string_view>& fields) {
  if (separator == ',') {
    if (fields.size() == 1) return "; fields are separated by commas, as in the first line";
    return fields.back().empty() ? "; the comma at the end of the line adds an empty one: remove it" : "";
  }
  if (line.find('"') != std::string_view::npos || (fields.size() > 2 && line.find('\t') != std::string_view::npos)) {
    return "; spaces and tabs separate fields even within double quotes: if ids contain spaces, use commas";
  }
  return fields.size() == 1 ? "; fields are separated by spaces, tabs or commas" : "";
}

}  // namespace

bool IsEdgeTitle(std::string_view word) { return IsSourceTitle(word) || IsTargetTitle(word); }

absl::StatusOr<EdgeLines> EdgeLines::Open(std::string_view text, const std::string& path, Titles titles,
                                          Comments comments) {
  EdgeLines lines(text, path, comments);
  CLIENT_RETURN_IF_ERROR(lines.FindLayout(titles));
  return lines;
}

bool EdgeLines::IsComment(std::string_view trimmed) const {
  return comments_ != Comments::kNo && !trimmed.empty() && (trimmed.front() == '#' || trimmed.front() == '%');
}

absl::Status EdgeLines::Split(std::string_view line, int64_t number, LineFields* fields) const {
  const absl::Status status = SplitFields(line, layout_.separator, fields);
  return status.ok() ? status : FileError(path(), number, std::string(status.message()));
}

absl::Status EdgeLines::FindLayout(Titles titles) {
  LineReader lines(text_);
  std::string_view line;
  LineFields first, second;
  bool comments = false;  // there are some
  while (lines.Next(&line)) {
    const std::string_view trimmed = Trim(line);
    const bool comment = IsComment(trimmed);
    comments = comments || comment;
    if (comment || trimmed.empty()) continue;
    if (layout_.columns != 0) {
      // Faults in it are reported when edges are read.
      SplitFields(line, layout_.separator, &second).IgnoreError();
      break;
    }
    layout_.separator = line.find(',') != std::string_view::npos ? ',' : ' ';
    CLIENT_RETURN_IF_ERROR(Split(line, lines.number(), &first));
    layout_.columns = first.values.size();
    layout_.first_line = lines.number();
    if (layout_.columns != 2 && layout_.columns != 3) {
      return FileError(path(), lines.number(),
                       absl::StrCat(layout_.columns, layout_.columns == 1 ? " column" : " columns",
                                    "; an edge is 'source target' or 'source target weight'",
                                    ColumnHint(line, layout_.separator, first.values)));
    }
  }
  if (layout_.columns == 0) {
    return FileError(path(), 0,
                     comments ? "contains no edges: all lines begin with '#' or '%'; --comments no reads them as edges"
                              : "contains no edges");
  }
  if (HasTitles(titles, first.values, second.values)) {
    layout_.title_line = layout_.first_line;
    layout_.target_first = PutTargetFirst(first.values);
  }
  return absl::OkStatus();
}

absl::Status EdgeLines::PassOver(std::string_view line, int64_t number, bool* passed_over) {
  const std::string_view trimmed = Trim(line);
  *passed_over = trimmed.empty() || number == layout_.title_line;
  if (!IsComment(trimmed)) return absl::OkStatus();
  LineFields fields;
  if (comments_ == Comments::kAuto && number > layout_.first_line && HasColumnsOfAnEdge(line, &fields)) {
    return CommentOrEdge(fields.values, number);
  }
  *passed_over = true;
  ++comment_count_;
  if (first_comments_.size() < kNamedComments) first_comments_.push_back(number);
  return absl::OkStatus();
}

bool EdgeLines::HasColumnsOfAnEdge(std::string_view line, LineFields* fields) const {
  return SplitFields(line, layout_.separator, fields).ok() && fields->values.size() == layout_.columns;
}

absl::Status EdgeLines::CommentOrEdge(const std::vector<std::string_view>& fields, int64_t line) const {
  const bool commas = layout_.separator == ',';
  return FileError(path(), line,
                   absl::StrCat("is it a comment or an edge between ", Shown(fields[0]), " and ", Shown(fields[1]),
                                "? If it is an edge, ", commas ? "put such ids in double quotes, or pass " : "pass ",
                                "--comments no, with which no line is a comment; if it is a comment, pass "
                                "--comments yes"));
}

absl::Status EdgeLines::Check(std::string_view text, const std::vector<std::string_view>& fields, int64_t line,
                              std::vector<float>* weights) const {
  if (fields.size() != layout_.columns) {
    return FileError(path(), line,
                     absl::StrCat(fields.size(), fields.size() == 1 ? " column" : " columns", ", the first edge has ",
                                  layout_.columns, ColumnHint(text, layout_.separator, fields)));
  }
  if (fields[0].empty() || fields[1].empty()) return FileError(path(), line, "an id is empty");
  return layout_.columns == 3 ? AddWeight(fields[2], line, weights) : absl::OkStatus();
}

absl::Status EdgeLines::AddWeight(std::string_view field, int64_t line, std::vector<float>* weights) const {
  if (field.empty()) {
    return FileError(path(), line,
                     "the weight after the second comma is empty: write a weight on every line, or on none and without "
                     "that comma");
  }
  float weight;
  if (!ParseFloat(field, &weight)) {
    return FileError(path(), line, absl::StrCat("the weight ", Shown(field), " is not a number"));
  }
  if (!std::isfinite(weight)) {
    return FileError(path(), line, absl::StrCat("the weight ", Shown(field), " is not finite as a float32"));
  }
  weights->push_back(weight);
  return absl::OkStatus();
}

}  // namespace vicinal::client
