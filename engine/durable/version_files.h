// SPDX-License-Identifier: Apache-2.0
// Every version has one data file today. These write and find it.
#ifndef VICINAL_ENGINE_DURABLE_VERSION_FILES_H_
#define VICINAL_ENGINE_DURABLE_VERSION_FILES_H_

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/state/manifest.h"
#include "engine/state/section_file.h"
#include "engine/state/state_directory.h"

namespace vicinal::durable {

// Writes and finishes the file `name`.vsec, whose sections are in host memory.
Status WriteFile(state::VersionWriter& writer, const std::string& name,
                 const std::vector<std::pair<state::SectionSpec, std::string_view>>& sections,
                 const std::function<bool()>& is_unwanted);

// The entry of the file `name`.vsec; DATA_LOSS (STATE_DAMAGED) if the manifest does not list it.
StatusOr<state::ManifestFile> OnlyFile(const state::Manifest& manifest, const std::string& name);

}  // namespace vicinal::durable

#endif  // VICINAL_ENGINE_DURABLE_VERSION_FILES_H_
