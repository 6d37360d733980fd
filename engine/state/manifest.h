// SPDX-License-Identifier: Apache-2.0
// The manifest of a version: which files it has, with size and checksum, and what the engine wants to know before it
// reads them. It is published last (state_directory.h): a version exists if and only if its manifest does.
#ifndef VICINAL_ENGINE_STATE_MANIFEST_H_
#define VICINAL_ENGINE_STATE_MANIFEST_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/state/names.h"
#include "engine/state/section_file.h"

namespace vicinal::state {

struct ManifestFile {
  std::string name;  // [a-z0-9_]{1,60}.vsec
  FileSummary summary;

  friend bool operator==(const ManifestFile&, const ManifestFile&) = default;
};

struct Manifest {
  VersionId id;
  std::vector<ManifestFile> files;
  std::string metadata = "{}";  // a JSON object, strict; its meaning is the engine's

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

inline constexpr char kManifestName[] = "manifest.json";
// Of the directory and of manifests. Data files count for themselves (section_header.h).
inline constexpr int64_t kFormatMajor = 1, kFormatMinor = 1;

// INVALID_ARGUMENT (BAD_METADATA) unless the metadata is a JSON object.
StatusOr<std::string> EncodeManifest(const Manifest& manifest);
// DATA_LOSS naming `path`; FAILED_PRECONDITION (STATE_FORMAT_TOO_NEW) for a newer major format. Members of a newer
// minor format are ignored.
StatusOr<Manifest> ParseManifest(const std::string& path, std::string_view text);

// Whether a data file may have that name.
bool IsDataFileName(std::string_view name);

}  // namespace vicinal::state

#endif  // VICINAL_ENGINE_STATE_MANIFEST_H_
