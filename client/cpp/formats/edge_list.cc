// SPDX-License-Identifier: Apache-2.0
// Ids are read as numbers as long as they all are; the first that is not starts the pass again with texts, which costs
// a hash look-up an id.
#include "client/cpp/formats/edge_list.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/formats/edge_lines.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/status_macros.h"
#include "client/cpp/formats/text.h"

namespace vicinal::client {
namespace {

// Reads ids as numbers. `numeric` turns false at the first that is none.
absl::Status ReadNumbers(EdgeLines* lines, Edges* edges, bool* numeric) {
  *numeric = true;
  const absl::Status status =
      lines->ForEach(&edges->weights, [&](int64_t, std::string_view source, std::string_view target) {
        int64_t from, to;
        if (!IsCanonicalInt(source, &from) || !IsCanonicalInt(target, &to)) {
          *numeric = false;
          return absl::CancelledError();
        }
        edges->sources.push_back(from);
        edges->targets.push_back(to);
        return absl::OkStatus();
      });
  return *numeric ? status : absl::OkStatus();
}

// Where ids are texts, titles look like an edge between two nodes that nothing else is said of.
absl::Status CheckFirstEdge(const EdgeFile& file, const std::vector<std::string>& ids, const EdgeLines& lines) {
  const EdgeLayout& layout = lines.layout();
  const int64_t source = file.edges.sources[0], target = file.edges.targets[0];
  int64_t number;
  const std::string &first = ids[static_cast<size_t>(source)], &second = ids[static_cast<size_t>(target)];
  // Titles are no numbers, but for those that pandas counts where there were none.
  const bool counted = first == "0" && second == "1";
  const bool numbers = layout.columns == 3 || ParseInt(first, &number) || ParseInt(second, &number);
  if (layout.title_line != 0 || file.edges.size() == 1 || (numbers && !counted)) return absl::OkStatus();
  for (const std::vector<int64_t>* side : {&file.edges.sources, &file.edges.targets}) {
    for (size_t i = 1; i < side->size(); ++i) {
      if ((*side)[i] == source || (*side)[i] == target) return absl::OkStatus();
    }
  }
  return FileError(lines.path(), layout.first_line,
                   absl::StrCat("is it column titles or an edge? ", Shown(first), " and ", Shown(second),
                                " occur nowhere else: --titles yes skips the line, --titles no reads it as an edge"));
}

// Reads ids as texts, numbered in order of first appearance.
absl::Status ReadTexts(EdgeLines* lines, const EdgeListOptions& options, EdgeFile* file) {
  std::deque<std::string> seen;  // that `nodes` looks at
  absl::flat_hash_map<absl::string_view, int64_t> nodes;
  const auto node_of = [&](std::string_view id) {
    const auto known = nodes.find(absl::string_view(id.data(), id.size()));
    if (known != nodes.end()) return known->second;
    const auto node = static_cast<int64_t>(seen.size());
    nodes.emplace(seen.emplace_back(id), node);
    return node;
  };
  CLIENT_RETURN_IF_ERROR(
      lines->ForEach(&file->edges.weights, [&](int64_t, std::string_view source, std::string_view target) {
        file->edges.sources.push_back(node_of(source));
        file->edges.targets.push_back(node_of(target));
        return absl::OkStatus();
      }));
  if (seen.empty()) return FileError(lines->path(), 0, "contains no edges");
  const auto is_known = [&](std::string_view id) { return nodes.contains(absl::string_view(id.data(), id.size())); };
  CLIENT_RETURN_IF_ERROR(lines->CheckFirstComments(
      [&](std::string_view first, std::string_view second) { return is_known(first) || is_known(second); }));
  std::vector<std::string> ids(std::make_move_iterator(seen.begin()), std::make_move_iterator(seen.end()));
  if (options.titles == Titles::kAuto) CLIENT_RETURN_IF_ERROR(CheckFirstEdge(*file, ids, *lines));
  if (options.feature_rows) {
    return FileError(lines->path(), 0,
                     absl::StrCat("the file's ids are text (the first is ", Shown(ids[0]),
                                  "), so the order of the features' rows is unknown: pass --ids FILE with the ids, one "
                                  "per line, in the order of the rows"));
  }
  file->node_count = static_cast<int64_t>(ids.size());
  file->notes.push_back(absl::StrCat("the file's ids are text: ", ids.size(),
                                     " of them became nodes 0.. in order of first appearance (the first is ",
                                     Shown(ids[0]), ")"));
  CLIENT_ASSIGN_OR_RETURN(file->ids, IdMap::FromIds(std::move(ids)));
  return absl::OkStatus();
}

// Every id of the file must be among the given ones.
absl::Status ReadWithGivenIds(EdgeLines* lines, const IdMap& ids, EdgeFile* file) {
  CLIENT_RETURN_IF_ERROR(
      lines->ForEach(&file->edges.weights, [&](int64_t line, std::string_view source, std::string_view target) {
        const std::optional<int64_t> from = ids.NodeOf(source), to = ids.NodeOf(target);
        if (!from || !to) {
          // Titles are no ids, neither of them.
          const bool titles = line == lines->layout().first_line && !from && !to;
          return FileError(lines->path(), line,
                           absl::StrCat("the id ", Shown(from ? target : source), " is not in the ids file",
                                        titles ? "; if this line is titles, --titles yes skips it" : ""));
        }
        file->edges.sources.push_back(*from);
        file->edges.targets.push_back(*to);
        return absl::OkStatus();
      }));
  CLIENT_RETURN_IF_ERROR(lines->CheckFirstComments(
      [&](std::string_view first, std::string_view second) { return ids.NodeOf(first) && ids.NodeOf(second); }));
  file->node_count = ids.size();
  file->ids = ids;
  return absl::OkStatus();
}

// The distinct ids, ascending.
std::vector<int64_t> DistinctIds(const Edges& edges) {
  std::vector<int64_t> ids = edges.sources;
  ids.insert(ids.end(), edges.targets.begin(), edges.targets.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

absl::Status MapNumbers(const std::vector<int64_t>& distinct, EdgeFile* file) {
  const auto node_of = [&](int64_t id) {
    return static_cast<int64_t>(std::lower_bound(distinct.begin(), distinct.end(), id) - distinct.begin());
  };
  for (int64_t& id : file->edges.sources) id = node_of(id);
  for (int64_t& id : file->edges.targets) id = node_of(id);
  std::vector<std::string> texts;
  texts.reserve(distinct.size());
  for (const int64_t id : distinct) texts.push_back(absl::StrCat(id));
  file->node_count = static_cast<int64_t>(distinct.size());
  file->notes.push_back(absl::StrCat("the file's ids are not 0..N-1: ", distinct.size(), " ids from ", distinct.front(),
                                     " to ", distinct.back(), " became nodes 0..", distinct.size() - 1,
                                     " in ascending order (if they are 0..N-1 and some nodes have no edge, pass "
                                     "--num_nodes N)"));
  CLIENT_ASSIGN_OR_RETURN(file->ids, IdMap::FromIds(std::move(texts)));
  return absl::OkStatus();
}

// The line that an id outside 0..node_count-1 stands on, for the message.
absl::Status OutOfRange(EdgeLines* lines, int64_t node_count) {
  std::vector<float> weights;
  return lines->ForEach(&weights, [&](int64_t line, std::string_view source, std::string_view target) {
    for (const std::string_view id : {source, target}) {
      int64_t number;
      if (IsCanonicalInt(id, &number) && number >= 0 && number < node_count) continue;
      return FileError(lines->path(), line,
                       absl::StrCat("the id ", Shown(id), " is not in 0..", node_count - 1, " (--num_nodes ",
                                    node_count, "); without --num_nodes ids of any kind are mapped"));
    }
    return absl::OkStatus();
  });
}

absl::Status ReadEdges(const EdgeListOptions& options, EdgeLines* lines, EdgeFile* file) {
  if (options.ids != nullptr) return ReadWithGivenIds(lines, *options.ids, file);
  bool numeric;
  CLIENT_RETURN_IF_ERROR(ReadNumbers(lines, &file->edges, &numeric));
  if (numeric && file->edges.size() == 0) return FileError(lines->path(), 0, "contains no edges");
  if (!numeric) {
    if (options.node_count) return OutOfRange(lines, *options.node_count);
    file->edges = Edges();
    return ReadTexts(lines, options, file);
  }
  const std::vector<int64_t> distinct = DistinctIds(file->edges);
  const int64_t largest = distinct.back();
  if (options.node_count) {
    if (distinct.front() < 0 || largest >= *options.node_count) return OutOfRange(lines, *options.node_count);
    file->node_count = *options.node_count;
  } else if (distinct.front() >= 0 && options.feature_rows && largest < *options.feature_rows) {
    file->node_count = *options.feature_rows;
  } else if (distinct.front() == 0 && largest == static_cast<int64_t>(distinct.size()) - 1) {
    file->node_count = largest + 1;
  } else {
    return MapNumbers(distinct, file);
  }
  return absl::OkStatus();
}

// Notes for the user: a comment may be meant as an edge, and so may titles.
std::vector<std::string> SkippedLines(const EdgeLines& lines) {
  std::vector<std::string> notes;
  if (const int64_t comments = lines.comment_count(); comments > 0) {
    const std::vector<int64_t>& named = lines.first_comments();
    const bool all = comments == static_cast<int64_t>(named.size());
    notes.push_back(absl::StrCat(comments, comments == 1 ? " line that begins" : " lines that begin",
                                 " with '#' or '%' ",
                                 comments == 1 ? "was skipped as a comment (" : "were skipped as comments (",
                                 comments == 1 ? "line " : "lines ", absl::StrJoin(named, ", "), all ? "" : ", ...",
                                 "; --comments no reads ", comments == 1 ? "it as an edge)" : "them as edges)"));
  }
  if (const int64_t titles = lines.layout().title_line; titles != 0) {
    notes.push_back(absl::StrCat("line ", titles, " was taken as column titles",
                                 lines.layout().target_first ? ", with the target first" : "",
                                 " (--titles no reads it as an edge)"));
  }
  return notes;
}

}  // namespace

absl::StatusOr<EdgeFile> ParseEdgeList(std::string_view text, const std::string& path, const EdgeListOptions& options) {
  CLIENT_RETURN_IF_ERROR(CheckText(text, path));
  CLIENT_ASSIGN_OR_RETURN(EdgeLines lines, EdgeLines::Open(text, path, options.titles, options.comments));
  EdgeFile file;
  CLIENT_RETURN_IF_ERROR(ReadEdges(options, &lines, &file));
  const std::vector<std::string> skipped = SkippedLines(lines);
  file.notes.insert(file.notes.begin(), skipped.begin(), skipped.end());
  return file;
}

}  // namespace vicinal::client
