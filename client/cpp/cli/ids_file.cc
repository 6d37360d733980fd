// SPDX-License-Identifier: Apache-2.0
// A map's ids are its identity; the header's text is for users, and is compared as a whole if there is no digest.
#include "client/cpp/cli/ids_file.h"

#include <google/protobuf/util/time_util.h>
#include <sys/stat.h>

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/npy.h"
#include "client/cpp/formats/status_macros.h"
#include "client/cpp/formats/text.h"
#include "client/cpp/printable.h"

namespace vicinal::client::cli {
namespace {

bool Exists(const std::string& path) {
  struct stat about;
  return stat(path.c_str(), &about) == 0;
}

bool EndsWith(const std::string& text, std::string_view end) {
  return text.size() > end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

absl::StatusOr<int64_t> NodeOf(std::string_view word, const std::optional<IdMap>& ids, bool as_rows) {
  int64_t node;
  if (ids) {
    const std::optional<int64_t> known = ids->NodeOf(word);
    if (known) return *known;
    return absl::InvalidArgumentError(absl::StrCat(Shown(word), " is not among the ids of the graph"));
  }
  if (ParseInt(word, &node)) return node;
  return absl::InvalidArgumentError(absl::StrCat(
      Shown(word), " is not a 64-bit integer; ",
      as_rows ? "with --ids none nodes are row numbers"
              : "if the graph has ids of its own, pass --ids FILE with the map that 'graph upload' wrote"));
}

// Numbers between commas and spaces.
absl::Status AddNumbers(std::string_view line, bool as_rows, std::vector<int64_t>* nodes) {
  for (size_t at = 0; at <= line.size();) {
    const size_t end = std::min(line.find_first_of(",\r \t", at), line.size());
    const std::string_view word = line.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    CLIENT_ASSIGN_OR_RETURN(const int64_t node, NodeOf(word, std::nullopt, as_rows));
    nodes->push_back(node);
  }
  return absl::OkStatus();
}

// A line that is an id, or holds ids between commas, which may hold spaces and in double quotes commas.
absl::Status AddIds(std::string_view line, const std::optional<IdMap>& ids, std::vector<int64_t>* nodes) {
  if (const std::optional<int64_t> whole = ids->NodeOf(Trim(line))) {
    nodes->push_back(*whole);
    return absl::OkStatus();
  }
  LineFields fields;
  CLIENT_RETURN_IF_ERROR(SplitFields(line, ',', &fields));
  for (const std::string_view word : fields.values) {
    if (word.empty()) continue;
    const absl::StatusOr<int64_t> node = NodeOf(word, ids, false);
    if (!node.ok()) {
      const bool divided = fields.values.size() > 1 && line.find('"') == std::string_view::npos;
      return absl::InvalidArgumentError(
          absl::StrCat(node.status().message(),
                       divided ? "; put an id that contains a comma in double quotes, as in \"Doe, John\",ann" : ""));
    }
    nodes->push_back(*node);
  }
  return absl::OkStatus();
}

// `path` is for messages; empty: the text is the option's own.
absl::StatusOr<std::vector<int64_t>> ParseLines(std::string_view text, const std::string& path,
                                                const std::optional<IdMap>& ids, bool as_rows) {
  std::vector<int64_t> nodes;
  LineReader lines(text);
  std::string_view line;
  while (lines.Next(&line)) {
    const absl::Status added = ids ? AddIds(line, ids, &nodes) : AddNumbers(line, as_rows, &nodes);
    if (added.ok()) continue;
    const std::string where = path.empty() ? "" : absl::StrCat(path, ":", lines.number(), ": ");
    return absl::InvalidArgumentError(absl::StrCat(where, added.message()));
  }
  return nodes;
}

// What an .npy of nodes holds.
absl::StatusOr<std::vector<int64_t>> ReadNodes(const std::string& path, const std::optional<IdMap>& ids) {
  CLIENT_ASSIGN_OR_RETURN(const Array array, ReadNpy(path));
  absl::StatusOr<std::vector<int64_t>> nodes = ToInts(array);
  if (!nodes.ok()) return absl::InvalidArgumentError(absl::StrCat(path, ": ", nodes.status().message()));
  for (size_t i = 0; ids && i < nodes->size(); ++i) {
    const absl::StatusOr<int64_t> node = NodeOf(absl::StrCat((*nodes)[i]), ids, false);
    if (!node.ok()) return absl::InvalidArgumentError(absl::StrCat(path, ": ", node.status().message()));
    (*nodes)[i] = *node;
  }
  return nodes;
}

// Whether the map is that of the graph as the server has it: by the digest that the upload left there, or else (a graph
// without one has no ids of its own) by the header that names the very version.
bool IsOf(const IdMap& ids, const v1::Graph& about) {
  if (ids.size() != about.node_count()) return false;
  return about.ids_digest().empty() ? ids.header() == IdsHeader(about) : ids.Digest() == about.ids_digest();
}

// The map of --ids FILE.
absl::StatusOr<std::optional<IdMap>> LoadForced(const Context& context, const v1::Graph& about,
                                                std::vector<std::string>* notes) {
  const std::string path = context.args.Text("ids");
  CLIENT_ASSIGN_OR_RETURN(IdMap ids, IdMap::Load(path));
  const std::string named = absl::StrCat("graph ", about.name(), ", ");
  if (!ids.header().empty() && ids.header().compare(0, named.size(), named) != 0) {
    return FileError(path, 0, absl::StrCat("is the map of another graph than '", about.name(), "': ", ids.header()));
  }
  if (ids.size() != about.node_count()) {
    return FileError(path, 0,
                     absl::StrCat("contains ", ids.size(), " ids, but graph '", about.name(), "' has ",
                                  about.node_count(), " nodes"));
  }
  if (!IsOf(ids, about)) {
    if (!about.ids_digest().empty()) {
      return FileError(path, 0,
                       absl::StrCat("contains other ids, or another order, than graph '", about.name(),
                                    "' was uploaded with; --ids none uses row numbers"));
    }
    notes->push_back(absl::StrCat(path, " was not checked: the server has no digest of the ids of graph '",
                                  about.name(), "'; line i of the file (from 0) is used as node i"));
  }
  return std::optional<IdMap>(std::move(ids));
}

// No map fits. What an option names may be meant as ids or as row numbers: guessing would answer for other nodes.
absl::StatusOr<std::optional<IdMap>> WithoutMap(const Context& context, const std::string& why,
                                                std::vector<std::string>* notes) {
  for (const char* option : {"nodes", "sources", "targets", "partners"}) {
    if (context.args.Text(option, "all") == "all") continue;
    return absl::InvalidArgumentError(absl::StrCat(why, ", so --", option,
                                                   " could mean ids or row numbers: pass --ids FILE with the map, or "
                                                   "--ids none for row numbers"));
  }
  notes->push_back(absl::StrCat(why, "; the answer uses row numbers (--ids FILE names the map)"));
  return std::optional<IdMap>();
}

}  // namespace

std::string DefaultIdsPath(const std::string& graph) { return graph + ".ids.txt"; }

std::string IdsHeader(const v1::Graph& graph) {
  // It is one line of a file: the name is the server's.
  return absl::StrCat("graph ", Printable(graph.name()), ", version ", graph.version(), ", created ",
                      google::protobuf::util::TimeUtil::ToString(graph.create_time()), ", ", graph.node_count(),
                      " nodes; line i of what follows (from 0) is node i");
}

absl::Status CheckIdsPath(const std::string& path, bool is_default) {
  if (is_default && Exists(path)) {
    CLIENT_ASSIGN_OR_RETURN(const std::string there, ReadFile(path));
    if (std::string_view(there).substr(0, kIdMapHeader.size()) != kIdMapHeader) {
      return FileError(path, 0,
                       "exists and is not a map of ids: pass --ids_out FILE to write the graph's ids elsewhere");
    }
  }
  absl::Status writable = CheckWritable(path);
  if (writable.ok() || !is_default) return writable;
  return absl::InvalidArgumentError(
      absl::StrCat(writable.message(), "; pass --ids_out FILE to write the graph's ids elsewhere"));
}

absl::StatusOr<StagedIds> StagedIds::Write(const IdMap& ids, const std::string& path, const std::string& graph) {
  struct stat about;
  if (stat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode)) return StagedIds("");
  const std::string staged = path + ".new";
  CLIENT_RETURN_IF_ERROR(CheckIdsPath(staged, /*is_default=*/true));
  CLIENT_RETURN_IF_ERROR(ids.Save(staged, absl::StrCat("graph ", graph,
                                                       ", unfinished upload; line i of what follows "
                                                       "(from 0) is node i")));
  return StagedIds(staged);
}

StagedIds::~StagedIds() {
  if (!path_.empty()) std::remove(path_.c_str());
}

absl::Status StagedIds::Keep(const IdMap& ids, const std::string& path, const v1::Graph& graph) {
  absl::Status saved = ids.Save(path, IdsHeader(graph));
  if (saved.ok() || path_.empty()) return saved;
  return absl::InvalidArgumentError(absl::StrCat(saved.message(), "; graph '", graph.name(),
                                                 "' was uploaded, and its ids are in ", std::exchange(path_, ""),
                                                 ": move that file, or pass it with --ids"));
}

absl::StatusOr<std::optional<IdMap>> FindIds(const Context& context, const std::string& graph,
                                             std::vector<std::string>* notes) {
  if (context.args.Text("ids") == "none") return std::optional<IdMap>();
  CLIENT_ASSIGN_OR_RETURN(const v1::Graph about, context.client.GetGraph(graph));
  if (context.args.Has("ids")) return LoadForced(context, about, notes);
  const std::string path = DefaultIdsPath(graph);
  if (!Exists(path)) {
    if (about.ids_digest().empty()) return std::optional<IdMap>();
    return WithoutMap(
        context, absl::StrCat("graph '", graph, "' has ids of its own, but their map ", path, " is not in this folder"),
        notes);
  }
  absl::StatusOr<IdMap> ids = IdMap::Load(path);
  if (!ids.ok()) {
    return WithoutMap(context, absl::StrCat("the map of ids cannot be read (", ids.status().message(), ")"), notes);
  }
  if (!IsOf(*ids, about)) {
    return WithoutMap(context, absl::StrCat(path, " belongs to another version of the graph"), notes);
  }
  notes->push_back("ids are from " + path);
  return std::optional<IdMap>(*std::move(ids));
}

std::optional<IdMap> KnownIds(const Context& context, const std::string& graph) {
  const std::string path = context.args.Text("ids", DefaultIdsPath(graph));
  if (path == "none" || !Exists(path)) return std::nullopt;
  absl::StatusOr<IdMap> ids = IdMap::Load(path);
  const absl::StatusOr<v1::Graph> about = context.client.GetGraph(graph);
  if (!ids.ok() || !about.ok() || !IsOf(*ids, *about)) return std::nullopt;
  return *std::move(ids);
}

std::string NodeName(const std::optional<IdMap>& ids, int64_t node) {
  return ids && node >= 0 && node < ids->size() ? ids->IdOf(node) : absl::StrCat(node);
}

absl::StatusOr<std::optional<std::vector<int64_t>>> ParseNodes(const std::string& text, const std::optional<IdMap>& ids,
                                                               bool as_rows, std::string_view option) {
  const std::string name = "--" + std::string(option);
  const auto wrong = [&name](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", why));
  };
  if (text == "all") return std::optional<std::vector<int64_t>>();
  if (text == "@") return absl::InvalidArgumentError(absl::StrCat(name, " @FILE needs a file name"));
  std::vector<int64_t> nodes;
  if (text.rfind('@', 0) != 0) {
    absl::StatusOr<std::vector<int64_t>> words = ParseLines(text, "", ids, as_rows);
    if (!words.ok() && Exists(text)) {
      return wrong(absl::StrCat(Shown(text), " is a file: write ", name, " @", text));
    }
    if (!words.ok()) return wrong(std::string(words.status().message()));
    nodes = *std::move(words);
  } else if (EndsWith(text, ".npy")) {
    absl::StatusOr<std::vector<int64_t>> read = ReadNodes(text.substr(1), ids);
    if (!read.ok()) return wrong(std::string(read.status().message()));
    nodes = *std::move(read);
  } else {
    const std::string path = text.substr(1);
    CLIENT_ASSIGN_OR_RETURN(const std::string words, ReadFile(path));
    CLIENT_RETURN_IF_ERROR(CheckText(words, path));
    absl::StatusOr<std::vector<int64_t>> lines = ParseLines(words, path, ids, as_rows);
    if (!lines.ok()) return wrong(std::string(lines.status().message()));
    nodes = *std::move(lines);
  }
  if (nodes.empty()) return absl::InvalidArgumentError(name + " is empty");
  return std::optional<std::vector<int64_t>>(std::move(nodes));
}

}  // namespace vicinal::client::cli
