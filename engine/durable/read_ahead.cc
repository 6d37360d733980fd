// SPDX-License-Identifier: Apache-2.0
#include "engine/durable/read_ahead.h"

#include <algorithm>
#include <set>
#include <utility>

#include "engine/durable/version_ids.h"

namespace vicinal::durable {
namespace {

using state::Manifest;
using state::Store;
using state::VersionId;

// Keeps the highest version of each key.
template <class Key>
void KeepLatest(const Key& key, const VersionId& id, std::map<Key, VersionId>* latest) {
  const auto [known, is_new] = latest->try_emplace(key, id);
  if (!is_new && known->second.version < id.version) known->second = id;
}

}  // namespace

std::vector<std::string> LoadOrder(const state::StateDirectory& directory,
                                   const std::map<std::string, VersionId>& graphs) {
  std::vector<std::string> order = directory.GetRecent().value_or(std::vector<std::string>());
  std::erase_if(order, [&](const std::string& name) { return !graphs.contains(name); });
  const std::set<std::string> known(order.begin(), order.end());
  std::vector<std::pair<int64_t, std::string>> others;
  for (const auto& [name, id] : graphs) {
    if (!known.contains(name)) others.emplace_back(-id.version, name);
  }
  std::sort(others.begin(), others.end());
  for (auto& [version, name] : others) order.push_back(std::move(name));
  return order;
}

std::vector<FileToRead> FilesOfStart(const state::StateDirectory& directory, int64_t max_bytes) {
  std::map<std::string, VersionId> graphs;
  std::map<std::pair<VersionId, FeatureSetKey>, VersionId> sets;  // by graph version
  for (const VersionId& id : directory.ListPublished(nullptr).value_or(std::set<VersionId>())) {
    if (id.store == Store::kGraphs) KeepLatest(id.name, id, &graphs);
    if (state::BelongsToGraph(id.store)) KeepLatest(std::pair(state::GraphOf(id), KeyOf(id)), id, &sets);
  }
  std::vector<FileToRead> files;
  int64_t bytes = 0;
  const auto add = [&](const VersionId& id) {
    const StatusOr<Manifest> manifest = directory.GetManifest(id);
    if (!manifest.ok()) return;
    const auto add_file = [&](const state::ManifestFile& file, bool layout) {
      bytes += file.summary.bytes;
      if (bytes <= max_bytes) files.push_back({*manifest, file, layout});
    };
    for (const state::ManifestFile& file : manifest->files) add_file(file, false);
    if (id.store != Store::kGraphs) return;
    // Before the features: what is made of them goes on while those are read.
    for (const state::ManifestFile& file : directory.ListLayoutFiles(id).value_or(std::vector<state::ManifestFile>())) {
      add_file(file, true);
    }
  };
  for (const std::string& name : LoadOrder(directory, graphs)) {
    if (bytes > max_bytes) break;
    const VersionId& graph = graphs.at(name);
    add(graph);
    for (auto set = sets.lower_bound({graph, FeatureSetKey()}); set != sets.end() && set->first.first == graph; ++set) {
      add(set->second);
    }
  }
  return files;
}

ReadAhead::ReadAhead(const state::StateDirectory& directory, int64_t max_bytes)
    : thread_([this, &directory, max_bytes] {
        for (const FileToRead& file : FilesOfStart(directory, max_bytes)) {
          if (stop_) return;
          const auto reader = file.layout ? directory.OpenLayoutFile(file.manifest.id, file.file)
                                          : directory.OpenFile(file.manifest, file.file.name);
          if (reader.ok()) (*reader)->WarmUp([this] { return stop_.load(); });
        }
      }) {}

ReadAhead::~ReadAhead() {
  stop_ = true;
  thread_.join();
}

}  // namespace vicinal::durable
