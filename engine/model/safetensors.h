// SPDX-License-Identifier: Apache-2.0
// Reads safetensors: 8 bytes little-endian header length, a JSON header, then the tensors' bytes. The file is
// untrusted: header length, JSON, types, shapes and offsets are checked; tensors must not overlap, leave gaps or exceed
// the file.
#ifndef VICINAL_ENGINE_MODEL_SAFETENSORS_H_
#define VICINAL_ENGINE_MODEL_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace vicinal {

// One tensor of a file; a view of the file's bytes. `dtype` as in the format: "F32", "F16", "BF16", "F64",
// "I64", ...
struct SafetensorsEntry {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string_view bytes;
};

class Safetensors {
 public:
  // `file` must outlive the result. INVALID_ARGUMENT (BAD_SAFETENSORS) with the reason: truncated, header too long
  // (over 16 MiB or the file), not JSON, unknown type, shape that overflows or does not match its bytes, offsets that
  // overlap, leave gaps or lie outside.
  static StatusOr<Safetensors> Parse(std::string_view file);

  const std::map<std::string, SafetensorsEntry>& entries() const { return entries_; }
  const SafetensorsEntry* Find(std::string_view name) const;

  // F32, F16, BF16 (exact) and F64 (rounded) as float. INVALID_ARGUMENT for other types or values that are not finite,
  // naming the tensor.
  static StatusOr<std::vector<float>> ToFloats(const SafetensorsEntry& entry, std::string_view name);
  // I32, I64 as int64.
  static StatusOr<std::vector<int64_t>> ToInts(const SafetensorsEntry& entry, std::string_view name);

 private:
  std::map<std::string, SafetensorsEntry> entries_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_MODEL_SAFETENSORS_H_
