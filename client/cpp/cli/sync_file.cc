// SPDX-License-Identifier: Apache-2.0
// A table says which keys each kind of resource may have; one function reads all three kinds by it. yaml-cpp reports
// syntax errors by exceptions, which end in Load.
#include "client/cpp/cli/sync_file.h"

#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/address.h"
#include "client/cpp/cli/arguments.h"
#include "client/cpp/cli/graph_options.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/status_macros.h"
#include "client/cpp/formats/text.h"
#include "proto/wire/names.h"

namespace vicinal::client::cli {
namespace {

enum class KeyKind { kFile, kWord, kFlag, kCount, kNumber, kName, kSets };

struct Key {
  std::string name;
  KeyKind kind = KeyKind::kFile;
  bool required = false;
  std::vector<std::string> words = {};  // of kWord; the first is the default
};
using Keys = std::vector<Key>;

// Entries of maps and lists, where an alias counts as what it stands for: a short file of aliases could mean any
// number.
constexpr size_t kMostEntries = 100'000;

const Keys& GraphKeys() {
  static const auto* const keys = new Keys{{"file", KeyKind::kFile, true},
                                           {"x", KeyKind::kFile},
                                           {"edge_attr", KeyKind::kFile},
                                           {"ids", KeyKind::kFile},
                                           {"ids_out", KeyKind::kFile},
                                           {"features", KeyKind::kSets},
                                           {"edge_features", KeyKind::kSets},
                                           {"format", KeyKind::kWord, false, FormatWords()},
                                           {"reorder", KeyKind::kWord, false, ReorderWords()},
                                           {"titles", KeyKind::kWord, false, ChoiceWords()},
                                           {"ids_title", KeyKind::kWord, false, ChoiceWords()},
                                           {"comments", KeyKind::kWord, false, ChoiceWords()},
                                           {"mtx_rows", KeyKind::kWord, false, RowsWords()},
                                           {"num_nodes", KeyKind::kCount},
                                           {"undirected", KeyKind::kFlag},
                                           {"keep_edge_order", KeyKind::kFlag},
                                           {"pinned", KeyKind::kFlag}};
  return *keys;
}

const Keys& FeatureKeys() {
  static const auto* const keys = new Keys{{"file", KeyKind::kFile, true}};
  return *keys;
}

const Keys& ModelKeys() {
  static const auto* const keys =
      new Keys{{"architecture", KeyKind::kFile, true}, {"weights", KeyKind::kFile, true},
               {"reference", KeyKind::kFile},          {"reference_graph", KeyKind::kName},
               {"reference_features", KeyKind::kName}, {"reference_edge_features", KeyKind::kName},
               {"tolerance", KeyKind::kNumber}};
  return *keys;
}

class Reader {
 public:
  explicit Reader(std::string path)
      : path_(std::move(path)), folder_(std::filesystem::path(path_).parent_path().string()) {}

  absl::StatusOr<SyncFile> Read(const YAML::Node& root) const {
    SyncFile file;
    file.path = path_;
    if (root.IsNull()) return Bad(root, "is empty; it declares graphs and models");
    CLIENT_ASSIGN_OR_RETURN(const Members members, MembersOf(root, "the file", {"graphs", "models", "servers"}));
    for (const auto& [key, value] : members) {
      CLIENT_RETURN_IF_ERROR(key.Scalar() == "graphs"   ? ReadGraphs(value, &file.graphs)
                             : key.Scalar() == "models" ? ReadResources(value, "models", ModelKeys(), &file.models)
                                                        : ReadServers(value, &file.servers));
    }
    return file;
  }

  // At the line of `node`, or at none.
  absl::Status Bad(const YAML::Node& node, const std::string& message) const {
    return FileError(path_, node.Mark().line + 1, message);
  }

 private:
  using Members = std::vector<std::pair<YAML::Node, YAML::Node>>;

  absl::Status Count(const YAML::Node& node) const {
    entries_ += node.size();
    if (entries_ <= kMostEntries) return absl::OkStatus();
    return Bad(node, absl::StrCat("the file has more than ", kMostEntries,
                                  " entries, with what its aliases (*) stand for; declare less, or in several files"));
  }

  // The members of a map: scalar keys, none twice, each of `known` (empty: any).
  absl::StatusOr<Members> MembersOf(const YAML::Node& node, const std::string& what,
                                    const std::vector<std::string>& known) const {
    if (!node.IsMap()) return Bad(node, absl::StrCat(what, " must be a map, 'key: value' on lines of its own"));
    CLIENT_RETURN_IF_ERROR(Count(node));
    Members members;
    std::set<std::string> seen;
    for (const auto& member : node) {
      if (!member.first.IsScalar()) return Bad(member.first, absl::StrCat("a key of ", what, " is not a word"));
      const std::string& key = member.first.Scalar();
      if (!seen.insert(key).second) return Bad(member.first, absl::StrCat(Shown(key), " stands twice in ", what));
      bool found = known.empty();
      for (const std::string& one : known) found = found || one == key;
      if (!found) {
        const std::string nearest = Suggest(key, known);
        return Bad(member.first, absl::StrCat(what, " has no key ", Shown(key), "; ",
                                              nearest.empty() ? "there are " + absl::StrJoin(known, ", ")
                                                              : "did you mean '" + nearest + "'?"));
      }
      members.emplace_back(member.first, member.second);
    }
    return members;
  }

  absl::Status ReadServers(const YAML::Node& node, std::vector<std::string>* servers) const {
    if (!node.IsSequence()) return Bad(node, "servers must be a list of addresses, such as [\"a:8500\", \"b:8500\"]");
    CLIENT_RETURN_IF_ERROR(Count(node));
    for (const YAML::Node& one : node) {
      if (!one.IsScalar()) return Bad(one, "an address of a server is not a text");
      if (const absl::Status status = CheckAddress(one.Scalar()); !status.ok()) {
        return Bad(one, std::string(status.message()));
      }
      servers->push_back(one.Scalar());
    }
    return absl::OkStatus();
  }

  absl::Status ReadGraphs(const YAML::Node& node, std::vector<DeclaredGraph>* graphs) const {
    CLIENT_ASSIGN_OR_RETURN(const Members members, NamedMembers(node, "graphs"));
    for (const auto& [name, value] : members) {
      DeclaredGraph& graph = graphs->emplace_back();
      CLIENT_RETURN_IF_ERROR(ReadResource(name, value, "graph", GraphKeys(), &graph, &graph));
    }
    return absl::OkStatus();
  }

  absl::Status ReadResources(const YAML::Node& node, const std::string& what, const Keys& keys,
                             std::vector<DeclaredResource>* resources) const {
    CLIENT_ASSIGN_OR_RETURN(const Members members, NamedMembers(node, what));
    const std::string kind = what == "models" ? "model" : what == "features" ? "feature set" : "edge feature set";
    for (const auto& [name, value] : members) {
      CLIENT_RETURN_IF_ERROR(ReadResource(name, value, kind, keys, &resources->emplace_back(), nullptr));
    }
    return absl::OkStatus();
  }

  // The keys are names of resources.
  absl::StatusOr<Members> NamedMembers(const YAML::Node& node, const std::string& what) const {
    if (node.IsNull()) return Members();
    CLIENT_ASSIGN_OR_RETURN(Members members, MembersOf(node, what, {}));
    for (const auto& [name, value] : members) {
      if (!wire::IsValidName(name.Scalar())) {
        return Bad(name, absl::StrCat(Shown(name.Scalar()), " is no name; names match ", wire::kNameGrammar));
      }
    }
    return members;
  }

  // `graph`: `resource` as a graph, whose sets are read, too; null: it is none.
  absl::Status ReadResource(const YAML::Node& name, const YAML::Node& value, const std::string& kind, const Keys& keys,
                            DeclaredResource* resource, DeclaredGraph* graph) const {
    resource->name = name.Scalar();
    resource->line = name.Mark().line + 1;
    const std::string what = absl::StrCat(kind, " '", resource->name, "'");
    std::vector<std::string> known;
    for (const Key& key : keys) known.push_back(key.name);
    CLIENT_ASSIGN_OR_RETURN(const Members members, MembersOf(value, what, known));
    for (const auto& [word, content] : members) {
      const Key* key = nullptr;
      for (const Key& one : keys) key = one.name == word.Scalar() ? &one : key;
      if (key->kind == KeyKind::kSets) {
        auto& sets = key->name == "features" ? graph->feature_sets : graph->edge_feature_sets;
        CLIENT_RETURN_IF_ERROR(ReadResources(content, key->name, FeatureKeys(), &sets));
      } else {
        CLIENT_RETURN_IF_ERROR(ReadValue(*key, content, resource));
      }
    }
    for (const Key& key : keys) {
      if (key.required && resource->File(key.name).empty()) {
        return Bad(name, absl::StrCat(what, " needs ", key.name, ": FILE"));
      }
    }
    return CheckTogether(name, what, *resource);
  }

  absl::Status CheckTogether(const YAML::Node& name, const std::string& what, const DeclaredResource& resource) const {
    for (const char* const key : {"reference_graph", "reference_features", "reference_edge_features", "tolerance"}) {
      if (!resource.Option(key, "").empty() && resource.File("reference").empty()) {
        return Bad(name, absl::StrCat(what, ": ", key, " needs reference: FILE.safetensors"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadValue(const Key& key, const YAML::Node& node, DeclaredResource* resource) const {
    if (!node.IsScalar() || node.Scalar().empty()) {
      return Bad(node, absl::StrCat(key.name, " must be ", Expected(key)));
    }
    const std::string& text = node.Scalar();
    if (key.kind == KeyKind::kFile) {
      if (text.find('\0') != std::string::npos) {
        return Bad(node, absl::StrCat(key.name, " is ", Shown(text), ", a path with a zero byte, which no file has"));
      }
      resource->files[key.name] = (std::filesystem::path(folder_) / text).string();
      return absl::OkStatus();
    }
    std::string value = text;
    bool flag = false;
    if (key.kind == KeyKind::kFlag && YAML::convert<bool>::decode(node, flag)) value = flag ? "true" : "";
    if (!IsOf(key, node)) return Bad(node, absl::StrCat(key.name, " is ", Shown(text), "; it must be ", Expected(key)));
    if (key.kind == KeyKind::kWord && text == key.words.front()) value.clear();
    if (!value.empty()) resource->options[key.name] = value;
    return absl::OkStatus();
  }

  static bool IsOf(const Key& key, const YAML::Node& node) {
    const std::string& text = node.Scalar();
    int64_t count = 0;
    double number = 0;
    bool flag = false;
    switch (key.kind) {
      case KeyKind::kWord: {
        for (const std::string& word : key.words) {
          // YAML reads a bare yes or no as a flag, but keeps the text.
          if (word == text) return true;
        }
        return false;
      }
      case KeyKind::kFlag:
        return YAML::convert<bool>::decode(node, flag);
      case KeyKind::kCount:
        return ParseInt(text, &count) && count > 0;
      case KeyKind::kNumber:
        return ParseDouble(text, &number) && number >= 0;
      case KeyKind::kName:
        return wire::IsValidName(text);
      default:
        return true;
    }
  }

  static std::string Expected(const Key& key) {
    switch (key.kind) {
      case KeyKind::kWord:
        return "one of " + absl::StrJoin(key.words, ", ");
      case KeyKind::kFlag:
        return "true or false";
      case KeyKind::kCount:
        return "an integer above 0";
      case KeyKind::kNumber:
        return "a number, at least 0";
      case KeyKind::kName:
        return absl::StrCat("a name: ", wire::kNameGrammar);
      default:
        return "the path of a file";
    }
  }

  const std::string path_;
  const std::string folder_;
  mutable size_t entries_ = 0;  // so far
};

}  // namespace

std::string DeclaredResource::File(const std::string& key) const {
  const auto found = files.find(key);
  return found == files.end() ? std::string() : found->second;
}

std::string DeclaredResource::Option(const std::string& key, const std::string& otherwise) const {
  const auto found = options.find(key);
  return found == options.end() ? otherwise : found->second;
}

absl::StatusOr<SyncFile> ParseSyncFile(const std::string& path, const std::string& text) {
  CLIENT_RETURN_IF_ERROR(CheckText(text, path));
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1)
      return Reader(path).Bad(documents[1], "a second document ('---'); one file declares one state");
    return Reader(path).Read(documents.empty() ? YAML::Node() : documents[0]);
  } catch (const YAML::Exception& error) {
    return FileError(path, error.mark.line + 1, absl::StrCat("this is not YAML: ", error.msg));
  }
}

absl::StatusOr<SyncFile> ReadSyncFile(const std::string& path) {
  CLIENT_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseSyncFile(path, text);
}

}  // namespace vicinal::client::cli
