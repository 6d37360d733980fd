// SPDX-License-Identifier: Apache-2.0
// Classifies the lines of a text edge list (edge, column titles, comment, empty) and splits edges into fields. A line
// that may be an edge is never skipped silently: ids that begin with '#' or '%' are common, and most CSV writers do not
// quote them.
#ifndef VICINAL_CLIENT_CPP_FORMATS_EDGE_LINES_H_
#define VICINAL_CLIENT_CPP_FORMATS_EDGE_LINES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/formats/edge_list.h"
#include "client/cpp/formats/status_macros.h"
#include "client/cpp/formats/text.h"

namespace vicinal::client {

struct EdgeLayout {
  char separator = ' ';
  size_t columns = 0;
  int64_t first_line = 0;     // the first line that is an edge or titles
  int64_t title_line = 0;     // 0: no titles
  bool target_first = false;  // according to the titles
};

// Whether the word is a known title of an edge list ("source", "dst", ...), in any case.
bool IsEdgeTitle(std::string_view word);

// The lines of a file; they can be read repeatedly. `text` and `path` must outlive it.
class EdgeLines {
 public:
  // Finds the layout from the first one or two lines. INVALID_ARGUMENT with file and line.
  static absl::StatusOr<EdgeLines> Open(std::string_view text, const std::string& path, Titles titles,
                                        Comments comments);

  const std::string& path() const { return *path_; }
  const EdgeLayout& layout() const { return layout_; }
  // The number of comment lines that the last ForEach skipped, and the first of them.
  int64_t comment_count() const { return comment_count_; }
  const std::vector<int64_t>& first_comments() const { return first_comments_; }

  // Calls visit(line, source, target) -> Status for each edge and collects the weights.
  template <class Visit>
  absl::Status ForEach(std::vector<float>* weights, Visit visit) {
    comment_count_ = 0;
    first_comments_.clear();
    LineReader lines(text_);
    std::string_view line;
    LineFields split;
    const std::vector<std::string_view>& fields = split.values;
    while (lines.Next(&line)) {
      bool passed_over;
      CLIENT_RETURN_IF_ERROR(PassOver(line, lines.number(), &passed_over));
      if (passed_over) continue;
      CLIENT_RETURN_IF_ERROR(Split(line, lines.number(), &split));
      CLIENT_RETURN_IF_ERROR(Check(line, fields, lines.number(), weights));
      const size_t source = layout_.target_first ? 1 : 0;
      CLIENT_RETURN_IF_ERROR(visit(lines.number(), fields[source], fields[1 - source]));
    }
    return absl::OkStatus();
  }

  // An error if a comment before the first edge has as many columns as an edge and is_edge(first, second) holds for its
  // first two fields. For Comments::kAuto only; otherwise the user has already decided.
  template <class IsEdge>
  absl::Status CheckFirstComments(IsEdge is_edge) const {
    LineReader lines(text_);
    std::string_view line;
    LineFields fields;
    while (comments_ == Comments::kAuto && lines.Next(&line) && lines.number() < layout_.first_line) {
      if (!HasColumnsOfAnEdge(line, &fields) || !is_edge(fields.values[0], fields.values[1])) continue;
      return CommentOrEdge(fields.values, lines.number());
    }
    return absl::OkStatus();
  }

 private:
  EdgeLines(std::string_view text, const std::string& path, Comments comments)
      : text_(text), path_(&path), comments_(comments) {}

  absl::Status FindLayout(Titles titles);
  // Whether to skip the line; records comments.
  absl::Status PassOver(std::string_view line, int64_t number, bool* passed_over);
  // Splits a line into fields. Errors about quotes name file and line.
  absl::Status Split(std::string_view line, int64_t number, LineFields* fields) const;
  // Checks the fields of a line and reads its weight.
  absl::Status Check(std::string_view text, const std::vector<std::string_view>& fields, int64_t line,
                     std::vector<float>* weights) const;
  absl::Status AddWeight(std::string_view field, int64_t line, std::vector<float>* weights) const;
  bool IsComment(std::string_view trimmed) const;
  bool HasColumnsOfAnEdge(std::string_view line, LineFields* fields) const;
  absl::Status CommentOrEdge(const std::vector<std::string_view>& fields, int64_t line) const;

  std::string_view text_;
  const std::string* path_;
  Comments comments_;
  EdgeLayout layout_;
  int64_t comment_count_ = 0;
  std::vector<int64_t> first_comments_;
};

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_FORMATS_EDGE_LINES_H_
