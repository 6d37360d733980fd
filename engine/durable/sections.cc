// SPDX-License-Identifier: Apache-2.0
#include "engine/durable/sections.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/state/file_error.h"

namespace vicinal::durable {
namespace {

// Whether `holds(begin, end)` is true of all parts of [0, count).
template <class Holds>
bool AllOf(int64_t count, ThreadPool* pool, const Holds& holds) {
  constexpr int64_t kPart = int64_t{1} << 18;
  const int64_t parts = (count + kPart - 1) / kPart;
  std::atomic<bool> all{true};
  const auto check = [&](int64_t part, int) {
    const int64_t begin = part * kPart;
    if (all.load(std::memory_order_relaxed) && !holds(begin, std::min(count, begin + kPart))) {
      all.store(false, std::memory_order_relaxed);
    }
  };
  if (pool != nullptr && parts > 1) {
    pool->ParallelFor(parts, check);
  } else {
    for (int64_t part = 0; part < parts; ++part) check(part, 0);
  }
  return all.load();
}

Status Unwanted() {
  ErrorDetail detail;
  detail.reason = "SUPERSEDED";
  return MakeError(StatusCode::kCancelled, "the version was replaced or deleted before it was written", detail);
}

}  // namespace

Status AppendInPieces(state::SectionFileWriter& file, size_t section, const void* data, int64_t bytes,
                      const std::function<bool()>& is_unwanted) {
  const char* const first = static_cast<const char*>(data);
  for (int64_t begin = 0; begin < bytes; begin += kPieceBytes) {
    if (is_unwanted && is_unwanted()) return Unwanted();
    const size_t count = static_cast<size_t>(std::min(bytes - begin, kPieceBytes));
    VICINAL_RETURN_IF_ERROR(file.Append(section, {first + begin, count}));
  }
  return OkStatus();
}

Status AppendFromDevice(state::SectionFileWriter& file, size_t section, const void* data, int64_t bytes, Device& device,
                        const std::function<bool()>& is_unwanted, double* copy_seconds) {
  if (device.kind() == DeviceKind::kCpu) return AppendInPieces(file, section, data, bytes, is_unwanted);
  std::vector<char> piece(static_cast<size_t>(std::min(bytes, kPieceBytes)));
  for (int64_t begin = 0; begin < bytes; begin += kPieceBytes) {
    const int64_t count = std::min(bytes - begin, kPieceBytes);
    const auto before = std::chrono::steady_clock::now();
    VICINAL_RETURN_IF_ERROR(
        device.CopyToHost(piece.data(), static_cast<const char*>(data) + begin, static_cast<size_t>(count)));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - before;
    if (copy_seconds != nullptr) *copy_seconds += seconds.count();
    VICINAL_RETURN_IF_ERROR(AppendInPieces(file, section, piece.data(), count, is_unwanted));
  }
  return OkStatus();
}

StatusOr<const state::Section*> SectionSet::Get(std::string_view name, DataType type,
                                                std::initializer_list<int64_t> shape) const {
  const state::Section* const section = file_.Find(name);
  if (section == nullptr) return Bad(name, "it is missing");
  const std::vector<int64_t> expected(shape);
  if (section->spec.type != type || section->spec.shape != expected) {
    return Bad(
        name, absl::StrCat("it is ", std::string(ToString(section->spec.type)), " ", ShapeToString(section->spec.shape),
                           ", ", std::string(ToString(type)), " ", ShapeToString(expected), " expected"));
  }
  return section;
}

Status SectionSet::Bad(std::string_view section, std::string_view problem) const {
  return state::Damaged(path_, absl::StrCat("section '", std::string(section), "': ", std::string(problem)));
}

bool AreOffsets(const std::vector<int64_t>& offsets, int64_t last, ThreadPool* pool) {
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != last) return false;
  return AllOf(static_cast<int64_t>(offsets.size()) - 1, pool, [&](int64_t begin, int64_t end) {
    bool rises = true;
    for (int64_t i = begin; i < end; ++i) rises &= offsets[i] <= offsets[i + 1];
    return rises;
  });
}

bool AreRows(const std::vector<int64_t>& row_ptr, const std::vector<int32_t>& col, int64_t cols, bool strictly,
             ThreadPool* pool) {
  const int32_t gap = strictly ? 1 : 0;
  return AllOf(static_cast<int64_t>(row_ptr.size()) - 1, pool, [&](int64_t begin, int64_t end) {
    bool good = true;
    for (int64_t row = begin; row < end; ++row) {
      int64_t least = 0;
      for (int64_t i = row_ptr[row]; i < row_ptr[row + 1]; ++i) {
        good &= col[i] >= least && col[i] < cols;
        least = int64_t{col[i]} + gap;
      }
    }
    return good;
  });
}

bool AreFinite(const float* values, int64_t count, ThreadPool* pool) {
  return AllOf(count, pool, [&](int64_t begin, int64_t end) {
    // The sum has its top bit if all bits of the exponent are set. In blocks of fixed length this is vectorised, and
    // three times as fast as std::isfinite.
    constexpr int64_t kBlock = 256;
    const auto top_bit_if_not_finite = [&](int64_t i) {
      return (std::bit_cast<uint32_t>(values[i]) & 0x7f800000) + 0x00800000;
    };
    uint32_t bits = 0;
    int64_t i = begin;
    for (; i + kBlock <= end; i += kBlock) {
      for (int64_t j = 0; j < kBlock; ++j) bits |= top_bit_if_not_finite(i + j);
    }
    for (; i < end; ++i) bits |= top_bit_if_not_finite(i);
    return (bits >> 31) == 0;
  });
}

namespace {

template <class T>
bool IsPermutationOfSize(const std::vector<T>& values) {
  const auto size = static_cast<int64_t>(values.size());
  std::vector<bool> seen(values.size());
  for (const int64_t value : values) {
    if (value < 0 || value >= size || seen[static_cast<size_t>(value)]) return false;
    seen[static_cast<size_t>(value)] = true;
  }
  return true;
}

}  // namespace

bool IsPermutation(const std::vector<int32_t>& values) { return IsPermutationOfSize(values); }
bool IsPermutation(const std::vector<int64_t>& values) { return IsPermutationOfSize(values); }

}  // namespace vicinal::durable
