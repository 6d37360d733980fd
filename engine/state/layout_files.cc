// SPDX-License-Identifier: Apache-2.0
// Files of layouts beside a graph version: derived data, which can be made again. Their manifest is a document, which
// is replaced as a whole: a file counts if and only if a document lists it.
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/state/file_error.h"
#include "engine/state/sealed_json.h"
#include "engine/state/state_directory.h"

namespace vicinal::state {
namespace {

constexpr char kLayoutsDirectory[] = "/layouts";
// Of one graph version and kind of device; a server has one for each adjacency, kernel and setting in use.
constexpr size_t kMaxLayouts = 1024;

Status IgnoreMissing(const Status& status) { return status.code() == StatusCode::kNotFound ? OkStatus() : status; }

}  // namespace

StatusOr<std::vector<ManifestFile>> LayoutFilesIn(const std::string& path, std::string_view text) {
  VICINAL_ASSIGN_OR_RETURN(const auto json, internal::UnsealJson(path, text));
  VICINAL_RETURN_IF_ERROR(internal::CheckMajor(path, json, kLayoutsMajor));
  const auto layouts = json.find("layouts");
  if (layouts == json.end() || !layouts->is_array()) return Damaged(path, "layouts is not a list");
  std::vector<ManifestFile> files;
  std::set<std::string> names;
  if (layouts->size() > kMaxLayouts)
    return Damaged(path, "it lists more than " + std::to_string(kMaxLayouts) + " layouts");
  for (const auto& layout : *layouts) {
    if (!layout.is_object()) return Damaged(path, "a layout is not an object");
    ManifestFile file;
    VICINAL_ASSIGN_OR_RETURN(file.name, internal::StringMember(path, layout, "file"));
    if (!IsDataFileName(file.name) || !names.insert(file.name).second) {
      return Damaged(path, "'" + file.name + "' is no name of a data file, or is there twice");
    }
    VICINAL_ASSIGN_OR_RETURN(file.summary.bytes,
                             internal::IntegerMember(path, layout, "bytes", 0, std::numeric_limits<int64_t>::max()));
    VICINAL_ASSIGN_OR_RETURN(const int64_t checksum, internal::IntegerMember(path, layout, "checksum", 0,
                                                                             std::numeric_limits<uint32_t>::max()));
    file.summary.checksum = static_cast<uint32_t>(checksum);
    files.push_back(std::move(file));
  }
  return files;
}

StatusOr<std::unique_ptr<SectionFileWriter>> StateDirectory::CreateLayoutFile(const VersionId& graph,
                                                                              const std::string& name,
                                                                              std::vector<SectionSpec> sections) {
  VICINAL_CHECK(!options_.read_only && graph.store == Store::kGraphs && IsDataFileName(name));
  VICINAL_ASSIGN_OR_RETURN(const std::string path, PathOf(graph));
  MutexLock lock(&mutex_);
  VICINAL_RETURN_IF_ERROR(files_->Stat(path).status());
  const Status made = files_->MakeDirectory(path + kLayoutsDirectory);
  if (!made.ok() && made.code() != StatusCode::kAlreadyExists) return made;
  const std::string file = path + kLayoutsDirectory + "/" + name;
  VICINAL_RETURN_IF_ERROR(IgnoreMissing(files_->Unlink(file)));
  return SectionFileWriter::Create(*files_, file, std::move(sections));
}

Status StateDirectory::SyncLayoutFiles(const VersionId& graph) {
  VICINAL_ASSIGN_OR_RETURN(const std::string path, PathOf(graph));
  VICINAL_RETURN_IF_ERROR(files_->SyncDirectory(path + kLayoutsDirectory));
  return files_->SyncDirectory(path);
}

Status StateDirectory::DropLayoutFile(const VersionId& graph, const std::string& name) {
  VICINAL_CHECK(!options_.read_only && IsDataFileName(name));
  VICINAL_ASSIGN_OR_RETURN(const std::string path, PathOf(graph));
  MutexLock lock(&mutex_);
  return files_->Unlink(path + kLayoutsDirectory + "/" + name);
}

StatusOr<std::unique_ptr<SectionFileReader>> StateDirectory::OpenLayoutFile(const VersionId& graph,
                                                                            const ManifestFile& file) const {
  VICINAL_ASSIGN_OR_RETURN(const std::string version, PathOf(graph));
  if (!IsDataFileName(file.name)) return InvalidArgument("BAD_NAME", "", "this is no name of a data file");
  const std::string path = version + kLayoutsDirectory + "/" + file.name;
  VICINAL_ASSIGN_OR_RETURN(auto reader, SectionFileReader::Open(*files_, path));
  if (reader->summary() == file.summary) return reader;
  return Damaged(path, "it is another file than the document's");
}

StatusOr<std::vector<ManifestFile>> StateDirectory::ListLayoutFiles(const VersionId& graph) const {
  VICINAL_ASSIGN_OR_RETURN(const std::string version, PathOf(graph));
  const auto documents = files_->List(version + "/documents");
  std::vector<ManifestFile> all;
  if (documents.status().code() == StatusCode::kNotFound) return all;
  if (!documents.ok()) return documents.status();
  for (const DirectoryEntry& entry : *documents) {
    if (!entry.name.starts_with("layouts-") || !entry.name.ends_with(".json")) continue;
    const std::string path = version + "/documents/" + entry.name;
    const auto text = ReadSmallFile(*files_, path, internal::kMaxDocumentBytes);
    auto files = text.ok() ? LayoutFilesIn(path, *text) : text.status();
    if (files.status().code() == StatusCode::kDataLoss) continue;
    if (!files.ok()) return files.status();
    all.insert(all.end(), files->begin(), files->end());
  }
  return all;
}

void StateDirectory::SweepLayouts(const VersionId& graph, const std::string& version, WallTime since,
                                  SweepReport* report) {
  const auto entries = files_->List(version + kLayoutsDirectory);
  if (!entries.ok()) return;
  // A replica that has just read a list opens the files that it names.
  const auto documents = files_->Stat(version + "/documents");
  if (documents.ok() && documents->modify_time > since) return;
  // A list that cannot be read now, or only by another build, may name any of them.
  const auto files = ListLayoutFiles(graph);
  if (!files.ok()) return;
  std::set<std::string> listed;
  for (const ManifestFile& file : *files) listed.insert(file.name);
  for (const DirectoryEntry& entry : *entries) {
    if (entry.kind != FileKind::kFile || !IsDataFileName(entry.name) || listed.contains(entry.name)) continue;
    const std::string file = version + kLayoutsDirectory + "/" + entry.name;
    const auto info = files_->Stat(file);
    if (!info.ok() || info->modify_time > since || !files_->Unlink(file).ok()) continue;
    ++report->files;
    report->bytes += info->bytes;
  }
}

}  // namespace vicinal::state
