// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/state/crc32c.h"
#include "engine/state/section_file.h"
#include "engine/state/section_header.h"

namespace vicinal::state {

StatusOr<std::unique_ptr<SectionFileWriter>> SectionFileWriter::Create(FileSystem& files, const std::string& path,
                                                                       std::vector<SectionSpec> specs) {
  VICINAL_ASSIGN_OR_RETURN(std::vector<Section> sections, internal::Place(std::move(specs)));
  VICINAL_ASSIGN_OR_RETURN(auto file, files.Create(path));
  return std::unique_ptr<SectionFileWriter>(new SectionFileWriter(std::move(file), std::move(sections)));
}

Status SectionFileWriter::Append(size_t index, std::string_view bytes) {
  VICINAL_CHECK(!finished_ && index < sections_.size() && index >= current_);
  while (current_ < index) {
    VICINAL_CHECK(written_ == sections_[current_].bytes);
    ++current_;
    written_ = 0;
  }
  const Section& section = sections_[index];
  VICINAL_CHECK(static_cast<int64_t>(bytes.size()) <= section.bytes - written_);
  // Chunk by chunk, so that what is written is still in the processor's cache from computing its checksum.
  while (!bytes.empty()) {
    const int64_t in_chunk = written_ % kChunkBytes;
    const std::string_view part = bytes.substr(0, kChunkBytes - in_chunk);
    if (in_chunk == 0) checksums_.push_back(0);
    checksums_.back() = Crc32c(part, checksums_.back());
    VICINAL_RETURN_IF_ERROR(file_->WriteAt(section.offset + written_, part));
    written_ += static_cast<int64_t>(part.size());
    bytes.remove_prefix(part.size());
  }
  return OkStatus();
}

Status SectionFileWriter::Finish() {
  VICINAL_CHECK(!finished_);
  if (!sections_.empty()) VICINAL_RETURN_IF_ERROR(Append(sections_.size() - 1, {}));
  VICINAL_CHECK(sections_.empty() || written_ == sections_.back().bytes);
  const std::string_view table(reinterpret_cast<const char*>(checksums_.data()), checksums_.size() * sizeof(uint32_t));
  internal::Header header;
  header.sections = sections_;
  // At a multiple of 8, after the largest header and the last section.
  const int64_t end = sections_.empty() ? 0 : sections_.back().offset + sections_.back().bytes;
  header.table_offset = (std::max(end, internal::kMaxHeaderBytes) + 7) / 8 * 8;
  header.table_count = static_cast<int64_t>(checksums_.size());
  header.table_checksum = Crc32c(table);
  header.file_bytes = header.table_offset + static_cast<int64_t>(table.size());
  // A byte at the end if there is no table, so that the file has the size that its header tells.
  if (table.empty()) header.file_bytes = header.table_offset + 8;
  VICINAL_RETURN_IF_ERROR(
      file_->WriteAt(header.table_offset, table.empty() ? std::string_view("\0\0\0\0\0\0\0\0", 8) : table));
  const std::string text = internal::EncodeHeader(header);
  VICINAL_RETURN_IF_ERROR(file_->WriteAt(0, text));
  VICINAL_RETURN_IF_ERROR(file_->Sync());
  summary_.bytes = header.file_bytes;
  summary_.checksum = Crc32c(std::string_view(text).substr(0, text.size() - sizeof(uint32_t)));
  finished_ = true;
  return OkStatus();
}

}  // namespace vicinal::state
