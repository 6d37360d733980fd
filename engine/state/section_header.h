// SPDX-License-Identifier: Apache-2.0
// Header of a section file: 64 fixed bytes, one entry of 128 bytes per section, the header's CRC-32C. docs/state.md has
// the fields. Decoding checks every number, so that whoever uses a Header needs to check none.
#ifndef VICINAL_ENGINE_STATE_SECTION_HEADER_H_
#define VICINAL_ENGINE_STATE_SECTION_HEADER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/state/section_file.h"

namespace vicinal::state::internal {

inline constexpr uint32_t kSectionFileMajor = 1, kSectionFileMinor = 0;
inline constexpr int64_t kFixedHeaderBytes = 64;
inline constexpr int64_t kSectionEntryBytes = 128;
inline constexpr int64_t kMaxEntryBytes = 512;  // of a later minor format
inline constexpr int64_t kMaxHeaderBytes = kFixedHeaderBytes + kMaxSections * kMaxEntryBytes + 4;

struct Header {
  std::vector<Section> sections;
  int64_t file_bytes = 0;
  int64_t table_offset = 0;  // of the checksum table: one uint32 per chunk
  int64_t table_count = 0;
  uint32_t table_checksum = 0;
};

int64_t ChunkCount(int64_t bytes);

// Places the sections, after the header and in order. INVALID_ARGUMENT (BAD_SECTION).
StatusOr<std::vector<Section>> Place(std::vector<SectionSpec> specs);

// The header with its checksum in the last four bytes.
std::string EncodeHeader(const Header& header);

// Bytes of the whole header, from its first 64 in `text`. `file_bytes` is the file's real size. Errors:
// SectionFileReader.
StatusOr<int64_t> HeaderBytes(const std::string& path, std::string_view text, int64_t file_bytes);
// `text` is all of it.
StatusOr<Header> DecodeHeader(const std::string& path, std::string_view text, int64_t file_bytes);

}  // namespace vicinal::state::internal

#endif  // VICINAL_ENGINE_STATE_SECTION_HEADER_H_
