// SPDX-License-Identifier: Apache-2.0
// Arrays to sections of a data file and back.
#ifndef VICINAL_ENGINE_DURABLE_SECTIONS_H_
#define VICINAL_ENGINE_DURABLE_SECTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/tensor.h"
#include "engine/base/thread_pool.h"
#include "engine/device/device.h"
#include "engine/state/section_file.h"

namespace vicinal::durable {

// Between two of these many bytes a writer asks whether it is still wanted.
inline constexpr int64_t kPieceBytes = int64_t{8} << 20;

// Appends `bytes` of host memory in pieces. CANCELLED once `is_unwanted` (may be empty) says so.
Status AppendInPieces(state::SectionFileWriter& file, size_t section, const void* data, int64_t bytes,
                      const std::function<bool()>& is_unwanted);

// The same of memory of `device`: straight from it where that is host memory. Adds the seconds that copies between
// device and host took to `copy_seconds`, if not null.
Status AppendFromDevice(state::SectionFileWriter& file, size_t section, const void* data, int64_t bytes, Device& device,
                        const std::function<bool()>& is_unwanted, double* copy_seconds = nullptr);

template <class T>
std::string_view BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// The sections of one file, by name, checked for type and shape before anything is allocated for them.
class SectionSet {
 public:
  // `path` names the file in errors.
  SectionSet(std::string path, const state::SectionFileReader& file) : path_(std::move(path)), file_(file) {}

  // The section of that name, type and shape; DATA_LOSS (STATE_DAMAGED) if it is another one or missing.
  StatusOr<const state::Section*> Get(std::string_view name, DataType type, std::initializer_list<int64_t> shape) const;
  const state::Section* Find(std::string_view name) const { return file_.Find(name); }  // null if there is none
  bool Has(std::string_view name) const { return Find(name) != nullptr; }

  // Resizes `values` to hold the section and adds it to what ReadAll reads. The disk reads while memory is cleared.
  template <class T>
  Status Add(std::string_view name, DataType type, int64_t count, std::vector<T>* values) {
    VICINAL_ASSIGN_OR_RETURN(const state::Section* section, Get(name, type, {count}));
    return AddFound(*section, count, values);
  }
  // The same for a matrix. REQUIRES: rows * cols does not overflow.
  template <class T>
  Status Add(std::string_view name, DataType type, int64_t rows, int64_t cols, std::vector<T>* values) {
    VICINAL_ASSIGN_OR_RETURN(const state::Section* section, Get(name, type, {rows, cols}));
    return AddFound(*section, rows * cols, values);
  }
  // Reads and verifies all that was added.
  Status ReadAll(ThreadPool* pool) const { return file_.Read(targets_, pool); }

  // DATA_LOSS naming file and section.
  Status Bad(std::string_view section, std::string_view problem) const;

 private:
  template <class T>
  Status AddFound(const state::Section& section, int64_t count, std::vector<T>* values) {
    file_.Prefetch(section);
    values->resize(static_cast<size_t>(count));
    targets_.push_back({&section, values->data()});
    return OkStatus();
  }

  const std::string path_;
  const state::SectionFileReader& file_;
  std::vector<state::SectionFileReader::Target> targets_;
};

// --- checks of what was read; false if something is wrong. In parallel over `pool` (null: on this thread) ---

// Begins with 0, never falls, ends with `last`.
bool AreOffsets(const std::vector<int64_t>& offsets, int64_t last, ThreadPool* pool);
// Each row's columns lie in [0, cols), and never fall; with `strictly` they rise. REQUIRES: AreOffsets(row_ptr).
bool AreRows(const std::vector<int64_t>& row_ptr, const std::vector<int32_t>& col, int64_t cols, bool strictly,
             ThreadPool* pool);
bool AreFinite(const float* values, int64_t count, ThreadPool* pool);
// A permutation of [0, size).
bool IsPermutation(const std::vector<int32_t>& values);
bool IsPermutation(const std::vector<int64_t>& values);

}  // namespace vicinal::durable

#endif  // VICINAL_ENGINE_DURABLE_SECTIONS_H_
