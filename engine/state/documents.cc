// SPDX-License-Identifier: Apache-2.0
// Documents beside a version: small, replaced as a whole, and not part of the manifest.
#include "engine/base/check.h"
#include "engine/state/crc32c.h"
#include "engine/state/sealed_json.h"
#include "engine/state/state_directory.h"

namespace vicinal::state {
namespace {

constexpr char kDirectory[] = "/documents";
constexpr char kJson[] = ".json";
constexpr std::string_view kTuning = "tuning-", kLayouts = "layouts-";

std::string PathIn(const std::string& version, const std::string& name) {
  return version + kDirectory + "/" + name + kJson;
}

}  // namespace

bool IsDocumentName(std::string_view name) {
  for (const std::string_view prefix : {kTuning, kLayouts}) {
    if (!name.starts_with(prefix) || name.size() != prefix.size() + 8) continue;
    return name.find_first_not_of("0123456789abcdef", prefix.size()) == std::string_view::npos;
  }
  return false;
}

std::string TuningDocumentName(std::string_view device) { return std::string(kTuning) + CrcText(Crc32c(device)); }
std::string LayoutsDocumentName(std::string_view device) { return std::string(kLayouts) + CrcText(Crc32c(device)); }

StatusOr<std::string> StateDirectory::GetDocument(const VersionId& id, const std::string& name) const {
  VICINAL_CHECK(IsDocumentName(name));
  VICINAL_ASSIGN_OR_RETURN(const std::string path, PathOf(id));
  return ReadSmallFile(*files_, PathIn(path, name), internal::kMaxDocumentBytes);
}

Status StateDirectory::PutDocument(const VersionId& id, const std::string& name, std::string_view text) {
  VICINAL_CHECK(!options_.read_only && IsDocumentName(name));
  VICINAL_ASSIGN_OR_RETURN(const std::string path, PathOf(id));
  MutexLock lock(&mutex_);
  VICINAL_RETURN_IF_ERROR(files_->Stat(path).status());
  Status made = files_->MakeDirectory(path + kDirectory);
  if (!made.ok() && made.code() != StatusCode::kAlreadyExists) return made;
  VICINAL_RETURN_IF_ERROR(files_->SyncDirectory(path));
  return ReplaceFile(*files_, PathIn(path, name), text);
}

Status StateDirectory::DropDocument(const VersionId& id, const std::string& name) {
  VICINAL_CHECK(!options_.read_only && IsDocumentName(name));
  VICINAL_ASSIGN_OR_RETURN(const std::string path, PathOf(id));
  MutexLock lock(&mutex_);
  VICINAL_RETURN_IF_ERROR(files_->Unlink(PathIn(path, name)));
  return files_->SyncDirectory(path + kDirectory);
}

}  // namespace vicinal::state
