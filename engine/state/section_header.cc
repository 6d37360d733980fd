// SPDX-License-Identifier: Apache-2.0
#include "engine/state/section_header.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/state/crc32c.h"
#include "engine/state/file_error.h"

namespace vicinal::state::internal {
namespace {

static_assert(std::endian::native == std::endian::little, "state files are read and written as they lie in memory");

constexpr std::string_view kMagic = "VICSECT\n";

// The fixed part.
struct FixedHeader {
  char magic[8];
  uint32_t major, minor;
  uint64_t file_bytes;
  uint32_t header_bytes;  // fixed part, entries and checksum
  uint32_t entry_bytes;
  uint32_t section_count;
  uint32_t table_checksum;
  uint64_t table_offset;
  uint64_t table_count;
  uint64_t reserved;
};
static_assert(sizeof(FixedHeader) == kFixedHeaderBytes);

struct SectionEntry {
  char name[64];  // padded with zeros
  uint32_t type;
  uint32_t rank;
  uint64_t shape[kMaxSectionRank];
  uint64_t offset;
  uint64_t bytes;
  uint64_t first_chunk;
};
static_assert(sizeof(SectionEntry) == kSectionEntryBytes);

// On disk. Never renumbered.
constexpr std::pair<DataType, uint32_t> kTypeCodes[] = {
    {DataType::kUint8, 1},   {DataType::kInt32, 2},   {DataType::kInt64, 3},
    {DataType::kFloat32, 4}, {DataType::kFloat16, 5}, {DataType::kBFloat16, 6},
};

uint32_t CodeOf(DataType type) {
  for (const auto& [known, code] : kTypeCodes) {
    if (known == type) return code;
  }
  return 0;
}

std::optional<DataType> TypeOf(uint32_t code) {
  for (const auto& [type, known] : kTypeCodes) {
    if (known == code) return type;
  }
  return std::nullopt;
}

bool IsName(std::string_view name) {
  if (name.empty() || name.size() > kMaxSectionName) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.'; });
}

// Bytes of an array, if they are at most `most`.
std::optional<int64_t> BytesOf(const SectionSpec& spec, int64_t most) {
  if (std::any_of(spec.shape.begin(), spec.shape.end(), [](int64_t extent) { return extent < 0; })) return {};
  if (std::count(spec.shape.begin(), spec.shape.end(), 0) > 0) return 0;
  int64_t bytes = SizeOf(spec.type);
  for (const int64_t extent : spec.shape) {
    if (extent > most / bytes) return {};
    bytes *= extent;
  }
  return bytes;
}

int64_t AlignUp(int64_t offset) { return (offset + kSectionAlignment - 1) / kSectionAlignment * kSectionAlignment; }

Status BadSection(const SectionSpec& spec, const std::string& problem) {
  return InvalidArgument("BAD_SECTION", "", "section '" + Printable(spec.name) + "': " + problem);
}

std::string Numbers(std::string_view what, uint64_t found, std::string_view relation, uint64_t expected) {
  return std::string(what) + " is " + std::to_string(found) + ", " + std::string(relation) + " " +
         std::to_string(expected) + " expected";
}

StatusOr<SectionSpec> DecodeSpec(const std::string& path, const SectionEntry& entry) {
  SectionSpec spec;
  spec.name.assign(entry.name, strnlen(entry.name, sizeof(entry.name)));
  const bool padded =
      std::all_of(entry.name + spec.name.size(), entry.name + sizeof(entry.name), [](char c) { return c == '\0'; });
  if (!IsName(spec.name) || !padded) return Damaged(path, "section name '" + Printable(spec.name) + "' is not valid");
  const std::string where = "section '" + spec.name + "': ";
  const auto type = TypeOf(entry.type);
  if (!type) return Damaged(path, where + "element type " + std::to_string(entry.type) + " is unknown");
  if (entry.rank < 1 || entry.rank > kMaxSectionRank) {
    return Damaged(path, where + Numbers("rank", entry.rank, "1 to", kMaxSectionRank));
  }
  spec.type = *type;
  for (uint32_t i = 0; i < kMaxSectionRank; ++i) {
    if (i >= entry.rank && entry.shape[i] != 0) return Damaged(path, where + "shape has extents beyond its rank");
    if (entry.shape[i] > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Damaged(path, where + "extent " + std::to_string(entry.shape[i]) + " is too large");
    }
    if (i < entry.rank) spec.shape.push_back(static_cast<int64_t>(entry.shape[i]));
  }
  return spec;
}

// The section of an entry. `end`: where the section before it ends; they come in the order of the file.
StatusOr<Section> DecodeEntry(const std::string& path, const SectionEntry& entry, int64_t end, int64_t table_offset) {
  VICINAL_ASSIGN_OR_RETURN(SectionSpec spec, DecodeSpec(path, entry));
  const std::string where = "section '" + spec.name + "': ";
  const auto bytes = BytesOf(spec, table_offset);
  if (!bytes) return Damaged(path, where + "shape " + ShapeToString(spec.shape) + " is larger than the file");
  if (entry.bytes != static_cast<uint64_t>(*bytes)) {
    return Damaged(path, where + Numbers("size", entry.bytes, "by its shape", *bytes));
  }
  if (entry.offset % kSectionAlignment != 0) {
    return Damaged(path, where + Numbers("offset", entry.offset, "a multiple of", kSectionAlignment));
  }
  if (entry.offset < static_cast<uint64_t>(end)) {
    return Damaged(path, where + Numbers("offset", entry.offset, "at least", end));
  }
  if (entry.offset > static_cast<uint64_t>(table_offset) ||
      *bytes > table_offset - static_cast<int64_t>(entry.offset)) {
    return Damaged(path, where + "it reaches beyond the checksum table at " + std::to_string(table_offset));
  }
  return Section{std::move(spec), static_cast<int64_t>(entry.offset), *bytes, 0};
}

}  // namespace

int64_t ChunkCount(int64_t bytes) { return bytes / kChunkBytes + (bytes % kChunkBytes != 0 ? 1 : 0); }

StatusOr<std::vector<Section>> Place(std::vector<SectionSpec> specs) {
  if (static_cast<int64_t>(specs.size()) > kMaxSections) {
    return InvalidArgument("BAD_SECTION", "", "a file has at most " + std::to_string(kMaxSections) + " sections");
  }
  std::vector<Section> sections;
  std::set<std::string> names;
  int64_t end = kMaxHeaderBytes, chunk = 0;
  for (SectionSpec& spec : specs) {
    if (!IsName(spec.name)) return BadSection(spec, "names match [a-z0-9_.]{1,63}");
    if (!names.insert(spec.name).second) return BadSection(spec, "the name stands twice");
    if (spec.shape.empty() || static_cast<int64_t>(spec.shape.size()) > kMaxSectionRank) {
      return BadSection(spec, "a shape has 1 to 4 extents");
    }
    const int64_t offset = AlignUp(end);
    const auto bytes = BytesOf(spec, (int64_t{1} << 60) - offset);
    if (!bytes) return BadSection(spec, "shape " + ShapeToString(spec.shape) + " is negative or too large");
    sections.push_back({std::move(spec), offset, *bytes, chunk});
    end = offset + *bytes;
    chunk += ChunkCount(*bytes);
  }
  return sections;
}

std::string EncodeHeader(const Header& header) {
  FixedHeader fixed = {};
  std::memcpy(fixed.magic, kMagic.data(), sizeof(fixed.magic));
  fixed.major = kSectionFileMajor;
  fixed.minor = kSectionFileMinor;
  fixed.file_bytes = header.file_bytes;
  fixed.header_bytes = static_cast<uint32_t>(kFixedHeaderBytes + header.sections.size() * kSectionEntryBytes + 4);
  fixed.entry_bytes = kSectionEntryBytes;
  fixed.section_count = static_cast<uint32_t>(header.sections.size());
  fixed.table_checksum = header.table_checksum;
  fixed.table_offset = header.table_offset;
  fixed.table_count = header.table_count;
  std::string text(reinterpret_cast<const char*>(&fixed), sizeof(fixed));
  for (const Section& section : header.sections) {
    SectionEntry entry = {};
    std::memcpy(entry.name, section.spec.name.data(), section.spec.name.size());
    entry.type = CodeOf(section.spec.type);
    entry.rank = static_cast<uint32_t>(section.spec.shape.size());
    std::copy(section.spec.shape.begin(), section.spec.shape.end(), entry.shape);
    entry.offset = section.offset;
    entry.bytes = section.bytes;
    entry.first_chunk = section.first_chunk;
    text.append(reinterpret_cast<const char*>(&entry), sizeof(entry));
  }
  const uint32_t crc = Crc32c(text);
  text.append(reinterpret_cast<const char*>(&crc), sizeof(crc));
  return text;
}

StatusOr<int64_t> HeaderBytes(const std::string& path, std::string_view text, int64_t file_bytes) {
  FixedHeader fixed;
  std::memcpy(&fixed, text.data(), sizeof(fixed));
  if (std::string_view(fixed.magic, sizeof(fixed.magic)) != kMagic) {
    return Damaged(path, "it does not begin like a section file, or was never finished");
  }
  if (fixed.section_count > kMaxSections || fixed.entry_bytes < kSectionEntryBytes ||
      fixed.entry_bytes > kMaxEntryBytes) {
    return Damaged(path, "its header counts " + std::to_string(fixed.section_count) + " sections of " +
                             std::to_string(fixed.entry_bytes) + " bytes each, which is out of range");
  }
  const int64_t least = kFixedHeaderBytes + int64_t{fixed.section_count} * fixed.entry_bytes + 4;
  if (fixed.header_bytes != least || least > file_bytes) {
    return Damaged(path, Numbers("header size", fixed.header_bytes, "by its entries", least) + " in a file of " +
                             std::to_string(file_bytes) + " bytes");
  }
  return least;
}

StatusOr<Header> DecodeHeader(const std::string& path, std::string_view text, int64_t file_bytes) {
  uint32_t stored;
  std::memcpy(&stored, text.data() + text.size() - sizeof(stored), sizeof(stored));
  const uint32_t computed = Crc32c(text.substr(0, text.size() - sizeof(stored)));
  if (stored != computed) {
    return Damaged(path, "the header's checksum is " + CrcText(computed) + ", " + CrcText(stored) + " expected");
  }
  FixedHeader fixed;
  std::memcpy(&fixed, text.data(), sizeof(fixed));
  if (fixed.major != kSectionFileMajor) {
    return FailedPrecondition("STATE_FORMAT_TOO_NEW", "'" + path + "' has format " + std::to_string(fixed.major) + "." +
                                                          std::to_string(fixed.minor) + "; this build reads " +
                                                          std::to_string(kSectionFileMajor) + ".x: use a newer build");
  }
  if (fixed.file_bytes != static_cast<uint64_t>(file_bytes)) {
    return Damaged(path, Numbers("its size", file_bytes, "by its header", fixed.file_bytes) + " (truncated?)");
  }
  const auto size = static_cast<uint64_t>(file_bytes);
  if (fixed.table_offset > size || fixed.table_count > (size - fixed.table_offset) / sizeof(uint32_t)) {
    return Damaged(path, "the checksum table reaches beyond the end of the file");
  }
  Header header;
  header.file_bytes = file_bytes;
  header.table_offset = static_cast<int64_t>(fixed.table_offset);
  header.table_count = static_cast<int64_t>(fixed.table_count);
  header.table_checksum = fixed.table_checksum;
  std::set<std::string> names;
  int64_t end = static_cast<int64_t>(text.size()), chunk = 0;
  for (uint32_t i = 0; i < fixed.section_count; ++i) {
    SectionEntry entry;
    std::memcpy(&entry, text.data() + kFixedHeaderBytes + int64_t{i} * fixed.entry_bytes, sizeof(entry));
    VICINAL_ASSIGN_OR_RETURN(Section section, DecodeEntry(path, entry, end, header.table_offset));
    if (entry.first_chunk != static_cast<uint64_t>(chunk)) {
      return Damaged(
          path, "section '" + section.spec.name + "': " + Numbers("first checksum", entry.first_chunk, "index", chunk));
    }
    if (!names.insert(section.spec.name).second) return Damaged(path, "section '" + section.spec.name + "' twice");
    section.first_chunk = chunk;
    chunk += ChunkCount(section.bytes);
    end = section.offset + section.bytes;
    header.sections.push_back(std::move(section));
  }
  if (chunk != header.table_count) return Damaged(path, Numbers("number of checksums", header.table_count, "", chunk));
  if (header.table_offset < end)
    return Damaged(path, Numbers("offset of checksums", header.table_offset, "at least", end));
  return header;
}

}  // namespace vicinal::state::internal
