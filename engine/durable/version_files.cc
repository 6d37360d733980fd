// SPDX-License-Identifier: Apache-2.0
#include "engine/durable/version_files.h"

#include <cstdint>

#include "engine/durable/sections.h"
#include "engine/state/file_error.h"
#include "engine/state/names.h"

namespace vicinal::durable {

Status WriteFile(state::VersionWriter& writer, const std::string& name,
                 const std::vector<std::pair<state::SectionSpec, std::string_view>>& sections,
                 const std::function<bool()>& is_unwanted) {
  std::vector<state::SectionSpec> specs;
  specs.reserve(sections.size());
  for (const auto& [spec, bytes] : sections) specs.push_back(spec);
  VICINAL_ASSIGN_OR_RETURN(state::SectionFileWriter* const file, writer.AddFile(name, std::move(specs)));
  for (size_t i = 0; i < sections.size(); ++i) {
    const std::string_view bytes = sections[i].second;
    VICINAL_RETURN_IF_ERROR(AppendInPieces(*file, i, bytes.data(), static_cast<int64_t>(bytes.size()), is_unwanted));
  }
  return file->Finish();
}

StatusOr<state::ManifestFile> OnlyFile(const state::Manifest& manifest, const std::string& name) {
  const std::string file_name = name + ".vsec";
  for (const state::ManifestFile& file : manifest.files) {
    if (file.name == file_name) return file;
  }
  return state::Damaged(state::Describe(manifest.id), "its manifest does not list '" + file_name + "'");
}

}  // namespace vicinal::durable
