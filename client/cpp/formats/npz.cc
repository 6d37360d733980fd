// SPDX-License-Identifier: Apache-2.0
// .npz through libzip. Entries are read in pieces and grow as bytes really come, so an entry that claims gigabytes
// costs what it holds; libzip checks each entry's CRC-32 at its end.
#include <zip.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/npy.h"
#include "client/cpp/formats/status_macros.h"
#include "client/cpp/formats/text.h"

namespace vicinal::client {
namespace {

constexpr std::string_view kSuffix = ".npy";

std::string ZipError(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

// The first few of the names, for a message.
std::string Listed(const std::vector<std::string>& names) {
  constexpr size_t kMax = 8;
  std::string list;
  for (size_t i = 0; i < names.size() && i < kMax; ++i) absl::StrAppend(&list, i == 0 ? "" : ", ", Shown(names[i]));
  return names.size() > kMax ? absl::StrCat(list, " and ", names.size() - kMax, " more") : list;
}

}  // namespace

struct Npz::Archive {
  ~Archive() {
    if (zip != nullptr) zip_discard(zip);
  }
  std::string path;
  zip_t* zip = nullptr;
  std::vector<std::string> names;
  std::map<std::string, zip_uint64_t, std::less<>> index;
};

Npz::Npz(std::unique_ptr<Archive> archive) : archive_(std::move(archive)) {}
Npz::Npz(Npz&&) noexcept = default;
Npz& Npz::operator=(Npz&&) noexcept = default;
Npz::~Npz() = default;

absl::StatusOr<Npz> Npz::Open(const std::string& path) {
  CLIENT_RETURN_IF_ERROR(CheckReadable(path));
  auto archive = std::make_unique<Archive>();
  archive->path = path;
  int error = 0;
  archive->zip = zip_open(path.c_str(), ZIP_RDONLY, &error);
  if (archive->zip == nullptr) {
    const bool other = error == ZIP_ER_NOZIP;
    const std::string message = other ? absl::StrCat(path,
                                                     ": is not a complete .npz file (numpy.savez writes one; a single "
                                                     "array needs a name that ends in .npy)")
                                      : absl::StrCat(path, ": cannot read as npz: ", ZipError(error));
    return error == ZIP_ER_NOENT ? absl::NotFoundError(message) : absl::InvalidArgumentError(message);
  }
  const zip_int64_t count = zip_get_num_entries(archive->zip, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const char* raw = zip_get_name(archive->zip, static_cast<zip_uint64_t>(i), 0);
    std::string name = raw == nullptr ? "" : raw;
    if (name.size() <= kSuffix.size() || name.substr(name.size() - kSuffix.size()) != kSuffix) continue;
    name.resize(name.size() - kSuffix.size());
    if (archive->index.emplace(name, static_cast<zip_uint64_t>(i)).second) archive->names.push_back(name);
  }
  if (archive->names.empty()) return FileError(path, 0, "contains no npy array");
  return Npz(std::move(archive));
}

const std::vector<std::string>& Npz::names() const { return archive_->names; }

bool Npz::Has(std::string_view name) const { return archive_->index.find(name) != archive_->index.end(); }

absl::StatusOr<Array> Npz::Read(std::string_view name) const {
  const auto found = archive_->index.find(name);
  const std::string label = absl::StrCat("array '", absl::string_view(name.data(), name.size()), "'");
  if (found == archive_->index.end()) {
    return absl::NotFoundError(
        absl::StrCat(archive_->path, ": contains no ", label, ", but ", Listed(archive_->names)));
  }
  const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(zip_fopen_index(archive_->zip, found->second, 0),
                                                               zip_fclose);
  if (file == nullptr) return FileError(archive_->path, 0, absl::StrCat(label, ": ", zip_strerror(archive_->zip)));
  constexpr size_t kPiece = size_t{1} << 20;
  std::string bytes;
  while (true) {
    const size_t before = bytes.size();
    bytes.resize(before + kPiece);
    const zip_int64_t got = zip_fread(file.get(), &bytes[before], kPiece);
    if (got < 0) return FileError(archive_->path, 0, absl::StrCat(label, ": ", zip_file_strerror(file.get())));
    bytes.resize(before + static_cast<size_t>(got));
    if (got == 0) break;
  }
  absl::StatusOr<Array> array = ParseNpy(bytes);
  if (!array.ok()) return FileError(archive_->path, 0, absl::StrCat(label, ": ", array.status().message()));
  return array;
}

absl::Status WriteNpz(const std::string& path, const std::map<std::string, Array>& arrays) {
  int error = 0;
  std::unique_ptr<zip_t, void (*)(zip_t*)> zip(zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error), zip_discard);
  if (zip == nullptr) return FileError(path, 0, absl::StrCat("cannot write: ", ZipError(error)));
  std::vector<std::string> contents;  // libzip reads them when it closes
  contents.reserve(arrays.size());
  for (const auto& [name, array] : arrays) {
    contents.push_back(SerializeNpy(array));
    zip_source_t* source = zip_source_buffer(zip.get(), contents.back().data(), contents.back().size(), 0);
    const std::string entry = name + std::string(kSuffix);
    if (source == nullptr || zip_file_add(zip.get(), entry.c_str(), source, ZIP_FL_ENC_UTF_8) < 0) {
      if (source != nullptr) zip_source_free(source);
      return FileError(path, 0, absl::StrCat("cannot write: ", zip_strerror(zip.get())));
    }
  }
  if (zip_close(zip.get()) != 0) return FileError(path, 0, absl::StrCat("cannot write: ", zip_strerror(zip.get())));
  zip.release();  // zip_close freed it
  return absl::OkStatus();
}

}  // namespace vicinal::client
