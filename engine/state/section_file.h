// SPDX-License-Identifier: Apache-2.0
// The one kind of data file in the state directory: named arrays ("sections"), written once and never changed. All
// numbers are little-endian; docs/state.md has the layout byte by byte. Every MiB of contents has a CRC-32C; header
// and checksum table have their own, so that the header's checksum stands for the whole file.
//
// Sections begin at multiples of 2 MiB, for direct transfers and huge pages; the gaps are holes and take no space.
// Reading costs one copy from the page cache and a checksum over what is still in the processor's cache.
#ifndef VICINAL_ENGINE_STATE_SECTION_FILE_H_
#define VICINAL_ENGINE_STATE_SECTION_FILE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/tensor.h"
#include "engine/base/thread_pool.h"
#include "engine/state/file_system.h"

namespace vicinal::state {

inline constexpr int64_t kSectionAlignment = int64_t{2} << 20;
inline constexpr int64_t kChunkBytes = int64_t{1} << 20;  // of one checksum
inline constexpr int64_t kMaxSections = 1024;
inline constexpr int64_t kMaxSectionRank = 4;
inline constexpr size_t kMaxSectionName = 63;

// A named array. Names match [a-z0-9_.]{1,63}. A shape has 1 to 4 extents; an extent may be 0.
struct SectionSpec {
  std::string name;
  DataType type = DataType::kUint8;
  std::vector<int64_t> shape;

  friend bool operator==(const SectionSpec&, const SectionSpec&) = default;
};

// Where a section lies in its file.
struct Section {
  SectionSpec spec;
  int64_t offset = 0;       // in the file
  int64_t bytes = 0;        // of contents
  int64_t first_chunk = 0;  // index of its first checksum
};

// What identifies a file's contents, kept in the manifest. Two files with different contents have different checksums
// (but for 1 in 2^32).
struct FileSummary {
  int64_t bytes = 0;
  uint32_t checksum = 0;  // the header's, which it ends in

  friend bool operator==(const FileSummary&, const FileSummary&) = default;
};
// The checksum of any header with its own checksum at its end: what the first builds wrote of every file.
inline constexpr uint32_t kChecksumOfAll = 0x48674BC7;
// Whether a file is the one that was listed: also where nothing but its size is known.
inline bool IsListed(const FileSummary& file, const FileSummary& listed) {
  return file.bytes == listed.bytes && (file.checksum == listed.checksum || listed.checksum == kChecksumOfAll);
}

// Writes one file. One thread at a time. Destroying it unfinished leaves a file that no reader accepts.
class SectionFileWriter {
 public:
  // Creates `path` (ALREADY_EXISTS). INVALID_ARGUMENT (BAD_SECTION) for specs beyond the limits above, or a name twice.
  static StatusOr<std::unique_ptr<SectionFileWriter>> Create(FileSystem& files, const std::string& path,
                                                             std::vector<SectionSpec> specs);

  // Appends to the contents of the section of that index. Sections are written in the order of the specs, each to its
  // end before the next (VICINAL_CHECK). After an error every call returns that error.
  Status Append(size_t index, std::string_view bytes);
  // Writes checksums and header and syncs the file. OK means that the file's bytes, though not yet its name, survive
  // a power failure. REQUIRES: every section is complete (VICINAL_CHECK).
  Status Finish();

  const std::string& path() const { return file_->path(); }
  bool finished() const { return finished_; }
  const FileSummary& summary() const { return summary_; }  // REQUIRES: finished()

 private:
  SectionFileWriter(std::unique_ptr<WritableFile> file, std::vector<Section> sections)
      : file_(std::move(file)), sections_(std::move(sections)) {}

  const std::unique_ptr<WritableFile> file_;
  const std::vector<Section> sections_;
  std::vector<uint32_t> checksums_;  // of the chunks so far, the last one perhaps not complete
  size_t current_ = 0;
  int64_t written_ = 0;  // of the current section
  bool finished_ = false;
  FileSummary summary_;
};

// Reads one file. Thread-safe. Trusts nothing it reads: all sizes are checked against the file's real size before
// memory is allocated, all contents against their checksums. Errors are DATA_LOSS (STATE_DAMAGED) for a file that is
// not as it was written, naming file, section, offset and what was expected; FAILED_PRECONDITION
// (STATE_FORMAT_TOO_NEW) for a newer major format; else the file system's.
class SectionFileReader {
 public:
  // Reads and verifies header and checksum table, not the contents.
  static StatusOr<std::unique_ptr<SectionFileReader>> Open(const FileSystem& files, const std::string& path);

  const std::vector<Section>& sections() const { return sections_; }
  const Section* Find(std::string_view name) const;  // null if there is none
  // Brings the contents into the page cache, in the order of the file, on this thread alone: that is how a disk is
  // fastest. Skips what is there, ends early once `stop` is true, and tells no errors: who reads will see them.
  void WarmUp(const std::function<bool()>& stop) const;
  // A hint that the next read should come from the disk.
  void DropFromMemory() const { file_->DropFromMemory(); }
  // A hint that the section will be read soon: starts reading it, or the first part of a long one, and returns.
  void Prefetch(const Section& section) const;
  const FileSummary& summary() const { return summary_; }

  using OnPiece = std::function<void(const char* piece, int64_t bytes)>;
  struct Target {
    const Section* section;  // of sections()
    void* to;                // as many bytes as are read, which the caller owns
    // If not empty, called with each piece while it is in the cache, on several threads at once and before its checksum
    // is known: for a check of the contents. Pieces are multiples of 256 KiB, but for the last one.
    OnPiece on_piece = {};
    // The part of the section: whole chunks of 1 MiB, but for the section's last one. No `bytes`: up to its end.
    int64_t begin = 0;
    std::optional<int64_t> bytes = std::nullopt;
  };
  // Reads sections or parts of them and verifies these, in parallel over `pool` (null: on this thread). After an error
  // the contents of all targets are undefined; the error is that of the damaged place that comes first in the file.
  Status Read(const std::vector<Target>& targets, ThreadPool* pool) const;
  // Reads and verifies all sections, a few MiB of memory at a time. The first damaged place, as Read.
  Status Verify() const;
  // One section as a string, for small ones.
  StatusOr<std::string> ReadBytes(const Section& section) const;

 private:
  SectionFileReader(std::unique_ptr<ReadableFile> file, std::vector<Section> sections, std::vector<uint32_t> checksums,
                    FileSummary summary)
      : file_(std::move(file)), sections_(std::move(sections)), checksums_(std::move(checksums)), summary_(summary) {}

  // Reads and verifies `count` chunks of a section, to `to`.
  Status ReadChunks(const Section& section, int64_t first, int64_t count, char* to, const OnPiece& on_piece = {}) const;

  const std::unique_ptr<ReadableFile> file_;
  const std::vector<Section> sections_;
  const std::vector<uint32_t> checksums_;
  const FileSummary summary_;
};

}  // namespace vicinal::state

#endif  // VICINAL_ENGINE_STATE_SECTION_FILE_H_
