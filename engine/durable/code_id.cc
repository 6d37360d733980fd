// SPDX-License-Identifier: Apache-2.0
// The linker stores a hash of the code in a note of each library (GNU build id), which is mapped with it.
#include "engine/durable/code_id.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"

namespace vicinal::durable {
namespace {

// The build id among the notes of a segment; empty: none.
std::string FindBuildId(const char* notes, size_t bytes) {
  const auto padded = [](size_t size) { return (size + 3) & ~size_t{3}; };
  size_t at = 0;
  while (at + sizeof(ElfW(Nhdr)) <= bytes) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes + at, sizeof(note));
    const char* const name = notes + at + sizeof(note);
    const size_t next = at + sizeof(note) + padded(note.n_namesz) + padded(note.n_descsz);
    if (next > bytes) break;
    if (note.n_type == NT_GNU_BUILD_ID && std::string_view(name, note.n_namesz) == std::string_view("GNU\0", 4)) {
      return absl::BytesToHexString({name + padded(note.n_namesz), note.n_descsz});
    }
    at = next;
  }
  return {};
}

int AddBuildId(dl_phdr_info* library, size_t, void* ids) {
  const std::string_view path = library->dlpi_name;
  if (!path.substr(path.rfind('/') + 1).starts_with("libvicinal_")) return 0;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = library->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    // The loader gives addresses as numbers.
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    const auto* notes = reinterpret_cast<const char*>(library->dlpi_addr + segment.p_vaddr);
    std::string id = FindBuildId(notes, segment.p_memsz);
    if (!id.empty()) static_cast<std::vector<std::string>*>(ids)->push_back(std::move(id));
  }
  return 0;
}

}  // namespace

std::string CodeId() {
  std::vector<std::string> ids;
  dl_iterate_phdr(AddBuildId, &ids);
  std::sort(ids.begin(), ids.end());  // libraries may be loaded in any order
  return absl::StrJoin(ids, " ");
}

}  // namespace vicinal::durable
