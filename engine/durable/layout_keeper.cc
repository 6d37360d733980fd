// SPDX-License-Identifier: Apache-2.0
#include "engine/durable/layout_keeper.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/durable/load_level.h"
#include "engine/durable/sections.h"
#include "engine/state/crc32c.h"
#include "engine/state/file_error.h"

namespace vicinal::durable {
namespace {

state::VersionId OwnerOf(const PreparedGraph& graph) {
  return {state::Store::kGraphs, graph.parts().name, graph.parts().version, "", 0};
}

// Of the disk, that layouts leave to versions.
constexpr int64_t kSpareBytes = int64_t{1} << 30;

std::string DescribeLayout(const PreparedGraph::LayoutKey& key) {
  return absl::StrCat(key.kernel, " (", key.name, ")");
}

// A stored layout as its codec sees it.
class FileInput final : public LayoutInput {
 public:
  FileInput(const state::SectionFileReader& file, const StoredLayout& layout, ThreadPool* pool)
      : file_(file), layout_(layout), pool_(pool) {}

  StatusOr<int64_t> BytesOf(std::string_view array) const override {
    VICINAL_ASSIGN_OR_RETURN(const state::Section* const section, Find(array));
    return section->bytes;
  }
  Status Read(std::string_view array, void* to) const override {
    VICINAL_ASSIGN_OR_RETURN(const state::Section* const section, Find(array));
    file_.Prefetch(*section);
    return file_.Read({{section, to}}, pool_);
  }
  StatusOr<int64_t> Number(std::string_view name) const override {
    const auto found = layout_.numbers.find(std::string(name));
    if (found == layout_.numbers.end()) return Bad(absl::StrCat("it has no number '", std::string(name), "'"));
    return found->second;
  }
  Status Bad(std::string_view problem) const override {
    return state::Damaged(layout_.file.name, absl::StrCat(DescribeLayout(layout_.key), ": ", std::string(problem)));
  }

 private:
  StatusOr<const state::Section*> Find(std::string_view array) const {
    const state::Section* const section = file_.Find(array);
    if (section == nullptr || section->spec.type != DataType::kUint8) {
      return Bad(absl::StrCat("it has no array '", std::string(array), "'"));
    }
    return section;
  }

  const state::SectionFileReader& file_;
  const StoredLayout& layout_;
  ThreadPool* const pool_;
};

bool HoldsLayout(const std::vector<PreparedGraph::KeptLayout>& layouts, const PreparedGraph::LayoutKey& key) {
  return std::any_of(layouts.begin(), layouts.end(), [&](const auto& kept) { return kept.key == key; });
}

// Not used by others of the list. The same for the same layout, so that what a crash left is replaced.
std::string LayoutFileName(const std::string& device, const PreparedGraph::LayoutKey& key, int64_t layout_version,
                           const std::vector<std::string>& used) {
  LayoutDocument one{"", 1, device, {}};
  one.layouts.emplace_back().key = key;
  const std::string text = EncodeLayoutDocument(one);
  for (int i = 0;; ++i) {
    std::string name = absl::StrCat(state::CrcText(state::Crc32c(text)), "_", layout_version, "_", i, ".vsec");
    if (std::find(used.begin(), used.end(), name) == used.end()) return name;
  }
}

}  // namespace

const LayoutCodec* LayoutKeeper::CodecOf(const std::string& kernel) const {
  for (const auto& entry : parts_.registry->aggregate.kernels()) {
    const AggregateKernel& known = entry->kernel();
    if (known.device() == parts_.device->kind() && known.name() == kernel) return LayoutCodecOf(known);
  }
  return nullptr;
}

void LayoutKeeper::LogDropped(const PreparedGraph& graph, const std::string& what, const Status& error) const {
  parts_.logger->Log(LogLevel::kWarning, "stored layouts cannot be used: made again when they are needed",
                     {{"graph", graph.parts().name},
                      {"version", absl::StrCat(graph.parts().version)},
                      {"layout", what},
                      {"error", std::string(error.message())}});
}

std::vector<StoredLayout> LayoutKeeper::Listed(const PreparedGraph& graph) const {
  const state::VersionId id = OwnerOf(graph);
  const std::string name = state::LayoutsDocumentName(parts_.device_kind);
  const StatusOr<std::string> text = parts_.directory->GetDocument(id, name);
  if (text.status().code() == StatusCode::kNotFound) return {};
  const std::string path = absl::StrCat(state::Describe(id), ", ", name);
  StatusOr<LayoutDocument> document = text.ok() ? ParseLayoutDocument(path, *text) : text.status();
  if (document.ok() && (document->graph != id.name || document->version != id.version)) {
    document = state::Damaged(path, absl::StrCat("it is of graph '", document->graph, "' version ", document->version));
  }
  if (!document.ok()) {
    LogDropped(graph, "all", document.status());
    const bool damaged = document.status().code() == StatusCode::kDataLoss;
    if (damaged && !parts_.read_only) parts_.directory->DropDocument(id, name).IgnoreError();
    return {};
  }
  if (document->device != parts_.device_kind) return {};  // the names of two devices' documents are equal, for once
  return std::move(document->layouts);
}

int64_t LayoutKeeper::BytesFor(const PreparedGraph& graph, const StoredLayout& layout) const {
  const int64_t adjacency = graph.Holds(layout.key.spec) ? 0 : graph.ShapeOf(layout.key.spec).bytes;
  // What it keeps, and meanwhile on the host what is read, and what checking that needs.
  return adjacency + layout.memory_bytes + std::min(layout.file.summary.bytes, int64_t{1} << 50) +
         16 * (graph.num_nodes() + 1);
}

Status LayoutKeeper::RestoreOne(const PreparedGraph& graph, const StoredLayout& layout, bool evict,
                                ThreadPool* pool) const {
  const LayoutCodec* const codec = CodecOf(layout.key.kernel);
  if (codec == nullptr || codec->layout_version() != layout.layout_version) {
    return FailedPrecondition("LAYOUT_VERSION",
                              codec == nullptr ? "this build has no such kernel, or does not store its layouts"
                                               : absl::StrCat("this build makes version ", codec->layout_version(),
                                                              " of it, version ", layout.layout_version, " is stored"));
  }
  VICINAL_ASSIGN_OR_RETURN(const auto file, parts_.directory->OpenLayoutFile(OwnerOf(graph), layout.file));
  ReserveOptions options;
  options.evict = evict;
  StatusOr<Reservation> memory =
      parts_.budget->Reserve(Account::kPreparing, BytesFor(graph, layout),
                             absl::StrCat("a layout of graph '", graph.parts().name, "'"), options);
  // Also what could never fit: another server, with more memory, may use it.
  if (!memory.ok()) return absl::ResourceExhaustedError(memory.status().message());
  const FileInput input(*file, layout, pool);
  const LayoutMaker make = [&](LayoutSource& source) { return codec->Unflatten(layout.key.name, input, source); };
  Status made = graph.Layout(layout.key.spec, layout.key.kernel, layout.key.name, make).status();
  graph.SettleReservation(&*memory);  // also of an adjacency without its layout
  return made;
}

void LayoutKeeper::Restore(const PreparedGraph& graph, std::vector<StoredLayout> listed, bool evict, ThreadPool* pool) {
  const auto begin = std::chrono::steady_clock::now();
  Known known;
  int64_t restored = 0;
  const size_t count = listed.size();
  for (StoredLayout& layout : listed) {
    const Status status = RestoreOne(graph, layout, evict, pool);
    restored += status.ok() ? 1 : 0;
    if (!status.ok()) LogDropped(graph, DescribeLayout(layout.key), status);
    // What there is no room for now may have some the next time.
    const bool stays = status.ok() || status.code() == StatusCode::kResourceExhausted;
    if (stays) known.entries.push_back({std::move(layout), status.ok()});
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  parts_.logger->Log(LoadLevel(evict), "layouts restored",
                     {{"graph", graph.parts().name},
                      {"layouts", absl::StrCat(restored)},
                      {"dropped", absl::StrCat(count - known.entries.size())},
                      {"seconds", absl::StrCat(seconds.count())}});
  if (parts_.read_only) return;
  if (known.entries.size() != count) {
    const Status written = WriteList(graph, known.entries);
    if (!written.ok()) LogDropped(graph, "list", written);
  }
  MutexLock lock(&mutex_);
  known_[{graph.parts().name, graph.parts().version}] = std::move(known);
}

Status LayoutKeeper::WriteList(const PreparedGraph& graph, const std::vector<Known::Entry>& entries) const {
  const state::VersionId id = OwnerOf(graph);
  const std::string name = state::LayoutsDocumentName(parts_.device_kind);
  if (entries.empty()) {
    const Status dropped = parts_.directory->DropDocument(id, name);
    return dropped.code() == StatusCode::kNotFound ? OkStatus() : dropped;
  }
  LayoutDocument document{id.name, id.version, parts_.device_kind, {}};
  for (const Known::Entry& entry : entries) document.layouts.push_back(entry.stored);
  return parts_.directory->PutDocument(id, name, EncodeLayoutDocument(document));
}

StatusOr<double> LayoutKeeper::SecondsToRead(const state::VersionId& id, const state::ManifestFile& file) const {
  {
    VICINAL_ASSIGN_OR_RETURN(const auto reader, parts_.directory->OpenLayoutFile(id, file));
    reader->DropFromMemory();
  }
  const auto begin = std::chrono::steady_clock::now();
  VICINAL_ASSIGN_OR_RETURN(const auto reader, parts_.directory->OpenLayoutFile(id, file));
  VICINAL_RETURN_IF_ERROR(reader->Verify());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

StatusOr<StoredLayout> LayoutKeeper::Store(const PreparedGraph& graph, const PreparedGraph::KeptLayout& kept,
                                           const LayoutCodec& codec, const std::vector<Known::Entry>& entries,
                                           const IsUnwanted& is_unwanted, bool* pays) const {
  const state::VersionId id = OwnerOf(graph);
  FlatLayout flat = codec.Flatten(*kept.layout);
  StoredLayout stored;
  stored.key = kept.key;
  stored.layout_version = codec.layout_version();
  stored.numbers = std::move(flat.numbers);
  stored.memory_bytes = kept.layout->size_bytes();
  stored.make_seconds = kept.make_seconds;
  std::vector<state::SectionSpec> sections;
  for (const LayoutArray& array : flat.arrays) sections.push_back({array.name, DataType::kUint8, {array.bytes}});
  std::vector<std::string> used;
  used.reserve(entries.size());
  for (const Known::Entry& other : entries) used.push_back(other.stored.file.name);
  stored.file.name = LayoutFileName(parts_.device_kind, stored.key, stored.layout_version, used);
  double copy_seconds = 0.0;
  const auto write = [&]() -> Status {
    VICINAL_ASSIGN_OR_RETURN(const auto file,
                             parts_.directory->CreateLayoutFile(id, stored.file.name, std::move(sections)));
    for (size_t i = 0; i < flat.arrays.size(); ++i) {
      VICINAL_RETURN_IF_ERROR(AppendFromDevice(*file, i, flat.arrays[i].data, flat.arrays[i].bytes, *parts_.device,
                                               is_unwanted, &copy_seconds));
    }
    VICINAL_RETURN_IF_ERROR(file->Finish());
    stored.file.summary = file->summary();
    VICINAL_ASSIGN_OR_RETURN(stored.read_seconds, SecondsToRead(id, stored.file));
    stored.read_seconds += copy_seconds;  // the same bytes go the other way
    return OkStatus();
  };
  const Status written = write();
  *pays = written.ok() && parts_.pays(stored);
  if (!*pays) parts_.directory->DropLayoutFile(id, stored.file.name).IgnoreError();
  VICINAL_RETURN_IF_ERROR(written);
  parts_.logger->Log(LogLevel::kInfo, *pays ? "layout stored" : "layout not stored: it is made as fast as it is read",
                     {{"graph", id.name},
                      {"layout", DescribeLayout(stored.key)},
                      {"bytes", absl::StrCat(stored.file.summary.bytes)},
                      {"make_seconds", absl::StrCat(stored.make_seconds)},
                      {"read_seconds", absl::StrCat(stored.read_seconds)}});
  return stored;
}

Status LayoutKeeper::Keep(const PreparedGraph& graph, const IsUnwanted& is_unwanted) {
  const Version version{graph.parts().name, graph.parts().version};
  Known known;
  {
    MutexLock lock(&mutex_);
    known = known_[version];
  }
  const std::vector<PreparedGraph::KeptLayout> layouts = graph.Layouts();
  const size_t before = known.entries.size();
  std::erase_if(known.entries,
                [&](const auto& entry) { return entry.held && !HoldsLayout(layouts, entry.stored.key); });
  bool changed = known.entries.size() != before;
  Status failed;
  for (const PreparedGraph::KeptLayout& kept : layouts) {
    const auto is_known = [&](const Known::Entry& entry) { return entry.stored.key == kept.key; };
    const auto entry = std::find_if(known.entries.begin(), known.entries.end(), is_known);
    if (entry != known.entries.end()) {
      entry->held = true;
      continue;
    }
    const LayoutCodec* const codec = CodecOf(kept.key.kernel);
    const bool tried = std::find(known.not_worth.begin(), known.not_worth.end(), kept.key) != known.not_worth.end();
    if (codec == nullptr || tried || kept.make_seconds < parts_.min_make_seconds) continue;
    // What can be made again must not fill the disk.
    if (parts_.directory->FreeBytes().value_or(0) < kept.layout->size_bytes() + kSpareBytes) continue;
    bool pays = false;
    StatusOr<StoredLayout> stored = Store(graph, kept, *codec, known.entries, is_unwanted, &pays);
    if (!stored.ok()) {
      failed = stored.status();
      break;
    }
    if (pays) {
      known.entries.push_back({*std::move(stored), true});
      changed = true;
    } else {
      known.not_worth.push_back(kept.key);
    }
  }
  if (changed) {
    VICINAL_RETURN_IF_ERROR(parts_.directory->SyncLayoutFiles(OwnerOf(graph)));
    VICINAL_RETURN_IF_ERROR(WriteList(graph, known.entries));
  }
  MutexLock lock(&mutex_);
  known_[version] = std::move(known);
  return failed;
}

void LayoutKeeper::Forget(const std::string& graph, int64_t version) {
  MutexLock lock(&mutex_);
  known_.erase({graph, version});
}

}  // namespace vicinal::durable
