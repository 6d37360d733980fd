// SPDX-License-Identifier: Apache-2.0
// One pass finds the layout (separator, columns, titles), one reads edges. Ids are read as numbers as long as they all
// are; the first that is not starts the pass again with texts, which costs a hash look-up an id.
#include "client/cpp/formats/edge_list.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/status_macros.h"
#include "client/cpp/formats/text.h"

namespace vicinal::client {
namespace {

// Of a line without the spaces around it; an empty one counts.
bool IsComment(std::string_view trimmed) { return trimmed.empty() || trimmed.front() == '#' || trimmed.front() == '%'; }

struct Layout {
  char separator = ' ';
  size_t columns = 0;
  int64_t first_line = 0;     // that is no comment
  int64_t title_line = 0;     // that line, or 0: none
  bool target_first = false;  // as the titles have it
};

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

// The fields of a line, and what is wrong with its quotes told by file and line.
absl::Status Split(std::string_view line, char separator, const std::string& path, int64_t number, LineFields* fields) {
  const absl::Status status = SplitFields(line, separator, fields);
  return status.ok() ? status : FileError(path, number, std::string(status.message()));
}

// Why a line may have another number of columns than was meant.
std::string ColumnHint(std::string_view line, char separator, const std::vector<std::string_view>& fields) {
  if (separator == ',') {
    if (fields.size() == 1) return "; fields are between commas, as the first line has it";
    return fields.back().empty() ? "; the comma at the line's end makes one that is empty: take it away" : "";
  }
  if (line.find('"') != std::string_view::npos || (fields.size() > 2 && line.find('\t') != std::string_view::npos)) {
    return "; spaces and tabs always separate, within double quotes too: where ids hold spaces, separate by commas";
  }
  return fields.size() == 1 ? "; fields are separated by spaces, tabs or commas" : "";
}

absl::StatusOr<Layout> FindLayout(std::string_view text, const std::string& path, Titles titles) {
  LineReader lines(text);
  std::string_view line;
  LineFields first, second;
  Layout layout;
  while (lines.Next(&line)) {
    if (IsComment(Trim(line))) continue;
    if (layout.columns != 0) {
      // A fault in it is told when edges are read.
      SplitFields(line, layout.separator, &second).IgnoreError();
      break;
    }
    layout.separator = line.find(',') != std::string_view::npos ? ',' : ' ';
    CLIENT_RETURN_IF_ERROR(Split(line, layout.separator, path, lines.number(), &first));
    layout.columns = first.values.size();
    layout.first_line = lines.number();
    if (layout.columns != 2 && layout.columns != 3) {
      return FileError(path, lines.number(),
                       absl::StrCat(layout.columns, layout.columns == 1 ? " column" : " columns",
                                    "; an edge is 'source target' or 'source target weight'",
                                    ColumnHint(line, layout.separator, first.values)));
    }
  }
  if (layout.columns == 0) return FileError(path, 0, "holds no edges");
  if (HasTitles(titles, first.values, second.values)) {
    layout.title_line = layout.first_line;
    layout.target_first = PutTargetFirst(first.values);
  }
  return layout;
}

// The lines of a file whose layout is known, as often as they are read. `text` and `path` must outlive it.
class EdgeLines {
 public:
  EdgeLines(std::string_view text, const std::string& path, const Layout& layout)
      : text_(text), path_(path), layout_(layout) {}

  const std::string& path() const { return path_; }
  const Layout& layout() const { return layout_; }
  // Passed over by the last ForEach, without empty lines.
  int64_t comments() const { return comments_; }

  // Calls visit(line, source, target) -> Status for each edge and collects the weights.
  template <class Visit>
  absl::Status ForEach(std::vector<float>* weights, Visit visit) {
    comments_ = 0;
    LineReader lines(text_);
    std::string_view line;
    LineFields split;
    const std::vector<std::string_view>& fields = split.values;
    while (lines.Next(&line)) {
      const std::string_view trimmed = Trim(line);
      if (IsComment(trimmed)) {
        if (!trimmed.empty()) ++comments_;
        continue;
      }
      if (lines.number() == layout_.title_line) continue;
      CLIENT_RETURN_IF_ERROR(Split(line, layout_.separator, path_, lines.number(), &split));
      CLIENT_RETURN_IF_ERROR(Check(line, fields, lines.number(), weights));
      const size_t source = layout_.target_first ? 1 : 0;
      CLIENT_RETURN_IF_ERROR(visit(lines.number(), fields[source], fields[1 - source]));
    }
    return absl::OkStatus();
  }

 private:
  // The shape of a line, and its weight.
  absl::Status Check(std::string_view text, const std::vector<std::string_view>& fields, int64_t line,
                     std::vector<float>* weights) const {
    if (fields.size() != layout_.columns) {
      return FileError(path_, line,
                       absl::StrCat(fields.size(), fields.size() == 1 ? " column" : " columns", ", the first edge has ",
                                    layout_.columns, ColumnHint(text, layout_.separator, fields)));
    }
    if (fields[0].empty() || fields[1].empty()) return FileError(path_, line, "an id is empty");
    return layout_.columns == 3 ? AddWeight(fields[2], line, weights) : absl::OkStatus();
  }

  absl::Status AddWeight(std::string_view field, int64_t line, std::vector<float>* weights) const {
    if (field.empty()) {
      return FileError(path_, line,
                       "the weight after the second comma is empty: write one on every line, or on none and without "
                       "that comma");
    }
    float weight;
    if (!ParseFloat(field, &weight)) {
      return FileError(path_, line, absl::StrCat("the weight ", Shown(field), " is not a number"));
    }
    if (!std::isfinite(weight)) {
      return FileError(path_, line, absl::StrCat("the weight ", Shown(field), " is not finite as a float32"));
    }
    weights->push_back(weight);
    return absl::OkStatus();
  }

  const std::string_view text_;
  const std::string& path_;
  const Layout layout_;
  int64_t comments_ = 0;
};

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
  const Layout& layout = lines.layout();
  const int64_t source = file.edges.sources[0], target = file.edges.targets[0];
  int64_t number;
  const bool weighted = layout.columns == 3;  // titles have no number there
  if (layout.title_line != 0 || weighted || file.edges.size() == 1 ||
      ParseInt(ids[static_cast<size_t>(source)], &number) || ParseInt(ids[static_cast<size_t>(target)], &number)) {
    return absl::OkStatus();
  }
  for (const std::vector<int64_t>* side : {&file.edges.sources, &file.edges.targets}) {
    for (size_t i = 1; i < side->size(); ++i) {
      if ((*side)[i] == source || (*side)[i] == target) return absl::OkStatus();
    }
  }
  return FileError(lines.path(), layout.first_line,
                   absl::StrCat("is it column titles or an edge? ", Shown(ids[static_cast<size_t>(source)]), " and ",
                                Shown(ids[static_cast<size_t>(target)]),
                                " stand nowhere else: --titles yes skips the line, --titles no takes it as an edge"));
}

// Reads ids as texts, numbered in order of first appearance.
absl::Status ReadTexts(EdgeLines* lines, const EdgeListOptions& options, EdgeFile* file) {
  absl::flat_hash_map<absl::string_view, int64_t> nodes;
  std::vector<std::string> ids;
  const auto node_of = [&](std::string_view id) {
    const auto [at, inserted] =
        nodes.emplace(absl::string_view(id.data(), id.size()), static_cast<int64_t>(ids.size()));
    if (inserted) ids.emplace_back(id);
    return at->second;
  };
  CLIENT_RETURN_IF_ERROR(
      lines->ForEach(&file->edges.weights, [&](int64_t, std::string_view source, std::string_view target) {
        file->edges.sources.push_back(node_of(source));
        file->edges.targets.push_back(node_of(target));
        return absl::OkStatus();
      }));
  if (ids.empty()) return FileError(lines->path(), 0, "holds no edges");
  if (options.titles == Titles::kAuto) CLIENT_RETURN_IF_ERROR(CheckFirstEdge(*file, ids, *lines));
  if (options.feature_rows) {
    return FileError(
        lines->path(), 0,
        absl::StrCat("the file's ids are texts (the first is ", Shown(ids[0]),
                     "), and nothing says which row of the features is whose: --ids FILE lists the ids, one "
                     "a line, in order of the rows"));
  }
  file->node_count = static_cast<int64_t>(ids.size());
  file->notes.push_back(absl::StrCat("the file's ids are texts: ", ids.size(),
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
                                        titles ? "; --titles yes skips this line, where it is titles" : ""));
        }
        file->edges.sources.push_back(*from);
        file->edges.targets.push_back(*to);
        return absl::OkStatus();
      }));
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
  file->notes.push_back(
      absl::StrCat("the file's ids are not 0..N-1: ", distinct.size(), " ids from ", distinct.front(), " to ",
                   distinct.back(), " became nodes 0..", distinct.size() - 1,
                   " in ascending order (where they are numbers 0..N-1 of which some have no edge, say "
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
                       absl::StrCat("the id ", Shown(id), " is not one of 0..", node_count - 1, " (--num_nodes ",
                                    node_count, "); without --num_nodes ids of any kind are mapped"));
    }
    return absl::OkStatus();
  });
}

absl::Status ReadEdges(const EdgeListOptions& options, EdgeLines* lines, EdgeFile* file) {
  if (options.ids != nullptr) return ReadWithGivenIds(lines, *options.ids, file);
  bool numeric;
  CLIENT_RETURN_IF_ERROR(ReadNumbers(lines, &file->edges, &numeric));
  if (numeric && file->edges.size() == 0) return FileError(lines->path(), 0, "holds no edges");
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
  } else if (distinct.front() == 0 && largest + 1 == static_cast<int64_t>(distinct.size())) {
    file->node_count = largest + 1;
  } else {
    return MapNumbers(distinct, file);
  }
  return absl::OkStatus();
}

// What begins like a comment may be meant as an id, and what was taken as titles as an edge: the user is told.
std::vector<std::string> SkippedLines(const EdgeLines& lines) {
  std::vector<std::string> notes;
  if (const int64_t comments = lines.comments(); comments > 0) {
    notes.push_back(absl::StrCat(comments, comments == 1 ? " line that begins" : " lines that begin",
                                 " with '#' or '%' ", comments == 1 ? "was" : "were", " skipped as comments"));
  }
  if (const int64_t titles = lines.layout().title_line; titles != 0) {
    notes.push_back(absl::StrCat("line ", titles, " was taken as column titles",
                                 lines.layout().target_first ? ", which put the target first" : "",
                                 " (--titles no takes it as an edge)"));
  }
  return notes;
}

}  // namespace

absl::StatusOr<EdgeFile> ParseEdgeList(std::string_view text, const std::string& path, const EdgeListOptions& options) {
  CLIENT_RETURN_IF_ERROR(CheckText(text, path));
  CLIENT_ASSIGN_OR_RETURN(const Layout layout, FindLayout(text, path, options.titles));
  EdgeLines lines(text, path, layout);
  EdgeFile file;
  CLIENT_RETURN_IF_ERROR(ReadEdges(options, &lines, &file));
  const std::vector<std::string> skipped = SkippedLines(lines);
  file.notes.insert(file.notes.begin(), skipped.begin(), skipped.end());
  return file;
}

}  // namespace vicinal::client
