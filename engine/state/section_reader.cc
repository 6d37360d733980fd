// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/mutex.h"
#include "engine/state/crc32c.h"
#include "engine/state/file_error.h"
#include "engine/state/section_file.h"
#include "engine/state/section_header.h"

namespace vicinal::state {
namespace {

constexpr int64_t kTaskChunks = 4;                   // chunks per task: little enough that threads finish together
constexpr int64_t kPieceBytes = int64_t{256} << 10;  // read at once: stays in the L2 until its checksum is computed
// Of each thread: on its way from disk while it copies and computes. Less leaves the disk idle now and then.
constexpr int64_t kAheadBytes = int64_t{32} << 20;
// Of a section that is read later. More than a disk reads meanwhile would only take memory from others.
constexpr int64_t kMostEarlyBytes = int64_t{256} << 20;

// Chunks [first, first + count) of a target.
struct Task {
  size_t target;
  int64_t first, count;

  int64_t offset() const { return first * kChunkBytes; }  // in the section
};

std::vector<Task> TasksOf(const std::vector<SectionFileReader::Target>& targets) {
  std::vector<Task> tasks;
  for (size_t i = 0; i < targets.size(); ++i) {
    const SectionFileReader::Target& target = targets[i];
    const int64_t end = target.bytes ? target.begin + *target.bytes : target.section->bytes;
    VICINAL_CHECK(target.begin >= 0 && target.begin % kChunkBytes == 0 && end <= target.section->bytes);
    VICINAL_CHECK(end % kChunkBytes == 0 || end == target.section->bytes);
    const int64_t chunks = internal::ChunkCount(end);
    for (int64_t first = target.begin / kChunkBytes; first < chunks; first += kTaskChunks) {
      tasks.push_back({i, first, std::min(kTaskChunks, chunks - first)});
    }
  }
  return tasks;
}

}  // namespace

StatusOr<std::unique_ptr<SectionFileReader>> SectionFileReader::Open(const FileSystem& files, const std::string& path) {
  VICINAL_ASSIGN_OR_RETURN(auto file, files.Open(path));
  VICINAL_ASSIGN_OR_RETURN(const int64_t file_bytes, file->Size());
  if (file_bytes < internal::kFixedHeaderBytes) {
    return Damaged(path, "it has " + std::to_string(file_bytes) + " bytes, at least " +
                             std::to_string(internal::kFixedHeaderBytes) + " expected");
  }
  std::string text(internal::kFixedHeaderBytes, '\0');
  VICINAL_RETURN_IF_ERROR(file->ReadAt(0, text.data(), internal::kFixedHeaderBytes));
  VICINAL_ASSIGN_OR_RETURN(const int64_t header_bytes, internal::HeaderBytes(path, text, file_bytes));
  text.resize(header_bytes);
  VICINAL_RETURN_IF_ERROR(file->ReadAt(0, text.data(), header_bytes));
  VICINAL_ASSIGN_OR_RETURN(internal::Header header, internal::DecodeHeader(path, text, file_bytes));

  // At most 4 bytes per MiB of the file and section: DecodeHeader has checked that.
  std::vector<uint32_t> checksums(header.table_count);
  char* const table = reinterpret_cast<char*>(checksums.data());
  const int64_t table_bytes = header.table_count * static_cast<int64_t>(sizeof(uint32_t));
  VICINAL_RETURN_IF_ERROR(file->ReadAt(header.table_offset, table, table_bytes));
  const uint32_t checksum = Crc32c({table, static_cast<size_t>(table_bytes)});
  if (checksum != header.table_checksum) {
    return Damaged(path, "the checksum of the checksum table at offset " + std::to_string(header.table_offset) +
                             " is " + CrcText(checksum) + ", " + CrcText(header.table_checksum) + " expected");
  }
  return std::unique_ptr<SectionFileReader>(
      new SectionFileReader(std::move(file), std::move(header.sections), std::move(checksums),
                            {file_bytes, Crc32c(std::string_view(text).substr(0, text.size() - sizeof(uint32_t)))}));
}

void SectionFileReader::Prefetch(const Section& section) const {
  file_->Prefetch(section.offset, std::min(section.bytes, kMostEarlyBytes));
}

void SectionFileReader::WarmUp(const std::function<bool()>& stop) const {
  constexpr int64_t kPiece = int64_t{4} << 20;
  std::vector<char> unused(kPiece);
  for (const Section& section : sections_) {
    for (int64_t at = 0; at < section.bytes; at += kPiece) {
      if (stop()) return;
      const int64_t bytes = std::min(kPiece, section.bytes - at), offset = section.offset + at;
      if (file_->IsInMemory(offset) && file_->IsInMemory(offset + bytes - 1)) continue;
      if (!file_->ReadAt(offset, unused.data(), bytes).ok()) return;
    }
  }
}

const Section* SectionFileReader::Find(std::string_view name) const {
  for (const Section& section : sections_) {
    if (section.spec.name == name) return &section;
  }
  return nullptr;
}

Status SectionFileReader::ReadChunks(const Section& section, int64_t first, int64_t count, char* to,
                                     const OnPiece& on_piece) const {
  for (int64_t chunk = first; chunk < first + count; ++chunk) {
    const int64_t begin = chunk * kChunkBytes, end = std::min(section.bytes, begin + kChunkBytes);
    uint32_t checksum = 0;
    for (int64_t at = begin; at < end; at += kPieceBytes) {
      const int64_t bytes = std::min(kPieceBytes, end - at);
      VICINAL_RETURN_IF_ERROR(file_->ReadAt(section.offset + at, to, bytes));
      checksum = Crc32c({to, static_cast<size_t>(bytes)}, checksum);
      if (on_piece) on_piece(to, bytes);
      to += bytes;
    }
    const uint32_t expected = checksums_[section.first_chunk + chunk];
    if (checksum != expected) {
      return Damaged(file_->path(), "section '" + section.spec.name + "', bytes " + std::to_string(begin) + " to " +
                                        std::to_string(end) + " (offset " + std::to_string(section.offset + begin) +
                                        " in the file): checksum " + CrcText(checksum) + ", " + CrcText(expected) +
                                        " expected");
    }
  }
  return OkStatus();
}

Status SectionFileReader::Read(const std::vector<Target>& targets, ThreadPool* pool) const {
  const std::vector<Task> tasks = TasksOf(targets);
  Mutex mutex;
  Status error;
  int64_t error_at = 0;
  const int threads = pool == nullptr ? 1 : pool->num_threads();
  // Tasks that the disk was asked for: those before this index, of the run of tasks that each thread is in.
  constexpr int64_t kAheadTasks = kAheadBytes / (kTaskChunks * kChunkBytes);
  std::vector<int64_t> asked(threads, 0);
  const auto prefetch = [&](int64_t index, int thread) {
    const int64_t end = std::min(index + 1 + kAheadTasks, static_cast<int64_t>(tasks.size()));
    const bool goes_on = asked[thread] > index && asked[thread] <= end;
    for (int64_t next = goes_on ? asked[thread] : index + 1; next < end; ++next) {
      const Section& section = *targets[tasks[next].target].section;
      const int64_t at = tasks[next].offset();
      file_->Prefetch(section.offset + at, std::min(tasks[next].count * kChunkBytes, section.bytes - at));
    }
    asked[thread] = end;
  };
  const auto run = [&](int64_t index, int thread) {
    prefetch(index, thread);  // from the page cache this costs 1%
    const Task& task = tasks[index];
    const Target& target = targets[task.target];
    Status status = ReadChunks(*target.section, task.first, task.count,
                               static_cast<char*>(target.to) + (task.offset() - target.begin), target.on_piece);
    if (status.ok()) return;
    const int64_t at = target.section->offset + task.offset();
    MutexLock lock(&mutex);
    if (error.ok() || at < error_at) {
      error = std::move(status);
      error_at = at;
    }
  };
  if (threads > 1) {
    pool->ParallelFor(static_cast<int64_t>(tasks.size()), run);
  } else {
    for (int64_t i = 0; i < static_cast<int64_t>(tasks.size()); ++i) run(i, 0);
  }
  MutexLock lock(&mutex);
  return error;
}

Status SectionFileReader::Verify() const {
  std::vector<char> buffer(kTaskChunks * kChunkBytes);
  for (const Section& section : sections_) {
    const int64_t chunks = internal::ChunkCount(section.bytes);
    for (int64_t first = 0; first < chunks; first += kTaskChunks) {
      const int64_t next = first + kTaskChunks;
      if (next < chunks) file_->Prefetch(section.offset + next * kChunkBytes, kTaskChunks * kChunkBytes);
      VICINAL_RETURN_IF_ERROR(ReadChunks(section, first, std::min(kTaskChunks, chunks - first), buffer.data()));
    }
  }
  return OkStatus();
}

StatusOr<std::string> SectionFileReader::ReadBytes(const Section& section) const {
  std::string bytes(section.bytes, '\0');
  VICINAL_RETURN_IF_ERROR(Read({{&section, bytes.data()}}, nullptr));
  return bytes;
}

}  // namespace vicinal::state
