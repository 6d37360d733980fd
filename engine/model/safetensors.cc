// SPDX-License-Identifier: Apache-2.0
#include "engine/model/safetensors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/strict_json.h"
#include "engine/base/tensor.h"

namespace vicinal {
namespace {

using Json = nlohmann::json;

// Real headers take kilobytes; a parsed header takes many times its bytes.
constexpr uint64_t kMaxHeaderBytes = uint64_t{16} << 20;
constexpr size_t kMaxDimensions = 16;

struct TypeSize {
  const char* name;
  int64_t bytes;
};
constexpr std::array<TypeSize, 16> kTypes = {{{"BOOL", 1},
                                              {"U8", 1},
                                              {"I8", 1},
                                              {"F8_E5M2", 1},
                                              {"F8_E4M3", 1},
                                              {"I16", 2},
                                              {"U16", 2},
                                              {"F16", 2},
                                              {"BF16", 2},
                                              {"I32", 4},
                                              {"U32", 4},
                                              {"F32", 4},
                                              {"F64", 8},
                                              {"I64", 8},
                                              {"U64", 8},
                                              {"C64", 8}}};

Status Bad(const std::string& message) {
  return InvalidArgument("BAD_SAFETENSORS", "weights", "the safetensors file is not valid: " + message);
}

// A number in the header that is a size: an integer from 0 to 2^63 - 1.
bool IsSize(const Json& value) { return value.is_number_unsigned() && value.get<uint64_t>() <= uint64_t{INT64_MAX}; }

// -1 when the type is not known.
int64_t TypeBytes(const std::string& dtype) {
  for (const TypeSize& type : kTypes) {
    if (dtype == type.name) return type.bytes;
  }
  return -1;
}

struct Span {
  int64_t begin = 0;
  int64_t end = 0;
  std::string name;
};

// Checks one entry of the header against `data`, the bytes after it.
StatusOr<SafetensorsEntry> ReadEntry(const std::string& name, const Json& json, std::string_view data, Span* span) {
  const std::string tensor = "tensor '" + Printable(name) + "'";
  if (!json.is_object()) return Bad(tensor + " is not described by an object");
  for (const auto& item : json.items()) {
    if (item.key() != "dtype" && item.key() != "shape" && item.key() != "data_offsets") {
      return Bad(tensor + " has an unknown key '" + Printable(item.key()) + "'");
    }
  }
  const auto dtype = json.find("dtype"), shape = json.find("shape"), offsets = json.find("data_offsets");
  if (dtype == json.end() || !dtype->is_string()) return Bad(tensor + " has no dtype");
  if (shape == json.end() || !shape->is_array() || shape->size() > kMaxDimensions)
    return Bad(tensor + " has no usable shape");
  if (offsets == json.end() || !offsets->is_array() || offsets->size() != 2 || !IsSize((*offsets)[0]) ||
      !IsSize((*offsets)[1])) {
    return Bad(tensor + " has no usable data_offsets");
  }
  SafetensorsEntry entry;
  entry.dtype = dtype->get<std::string>();
  int64_t bytes = TypeBytes(entry.dtype);
  if (bytes < 0) return Bad(tensor + " has the unknown dtype '" + Printable(entry.dtype) + "'");
  for (const Json& extent : *shape) {
    if (!IsSize(extent)) return Bad(tensor + " has a shape with something other than sizes");
    entry.shape.push_back(extent.get<int64_t>());
    if (__builtin_mul_overflow(bytes, entry.shape.back(), &bytes))
      return Bad(tensor + " has a shape whose size overflows");
  }
  const int64_t begin = (*offsets)[0].get<int64_t>(), end = (*offsets)[1].get<int64_t>();
  if (begin > end || end > static_cast<int64_t>(data.size())) {
    return Bad(tensor + " lies at [" + std::to_string(begin) + ", " + std::to_string(end) + "), outside the " +
               std::to_string(data.size()) + " bytes of data; is the file truncated?");
  }
  if (end - begin != bytes) {
    return Bad(tensor + " " + entry.dtype + " " + ShapeToString(entry.shape) + " needs " + std::to_string(bytes) +
               " bytes, its offsets give " + std::to_string(end - begin));
  }
  entry.bytes = data.substr(begin, bytes);
  *span = {begin, end, name};
  return entry;
}

// The spans must fill [0, size) without overlap or gap: hidden bytes are as suspect as shared ones.
Status CheckSpans(std::vector<Span> spans, int64_t size) {
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  int64_t filled = 0;
  for (const Span& span : spans) {
    if (span.begin < filled) return Bad("tensor '" + Printable(span.name) + "' overlaps another");
    if (span.begin > filled) return Bad("there is a gap before tensor '" + Printable(span.name) + "'");
    filled = span.end;
  }
  if (filled != size) return Bad(std::to_string(size - filled) + " bytes after the last tensor belong to no tensor");
  return OkStatus();
}

Status CheckMetadata(const Json& metadata) {
  if (!metadata.is_object()) return Bad("__metadata__ is not an object");
  for (const Json& value : metadata) {
    if (!value.is_string()) return Bad("__metadata__ contains something that is not a string");
  }
  return OkStatus();
}

template <class T>
T LoadAt(std::string_view bytes, int64_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

template <class T, class Convert>
auto ConvertAll(std::string_view bytes, Convert convert) {
  const int64_t count = static_cast<int64_t>(bytes.size() / sizeof(T));
  std::vector<decltype(convert(T()))> out(count);
  for (int64_t i = 0; i < count; ++i) out[i] = convert(LoadAt<T>(bytes, i));
  return out;
}

}  // namespace

StatusOr<Safetensors> Safetensors::Parse(std::string_view file) {
  if (file.size() < 8)
    return Bad("it has " + std::to_string(file.size()) + " bytes, but needs 8 for the length of its header");
  const uint64_t header_bytes = LoadAt<uint64_t>(file, 0);
  if (header_bytes > kMaxHeaderBytes) {
    if (file.substr(0, 4) == "PK\x03\x04") {
      return Bad("it is a zip archive, as torch.save writes; save the weights with safetensors.torch.save_file");
    }
    if (file[0] == '{') return Bad("it begins like JSON; the weights must be a separate file");
    return Bad("its header claims " + std::to_string(header_bytes) + " bytes; at most " +
               std::to_string(kMaxHeaderBytes) + " are read");
  }
  if (header_bytes > file.size() - 8) {
    return Bad("its header claims " + std::to_string(header_bytes) + " bytes, the file has " +
               std::to_string(file.size() - 8) + " after the length; is it truncated?");
  }
  VICINAL_ASSIGN_OR_RETURN(Json header, internal::ParseStrictJson(file.substr(8, header_bytes), "BAD_SAFETENSORS",
                                                                  "the safetensors file's header"));
  if (!header.is_object()) return Bad("its header is not a JSON object");
  const std::string_view data = file.substr(8 + header_bytes);
  Safetensors result;
  std::vector<Span> spans;
  for (const auto& item : header.items()) {
    if (item.key() == "__metadata__") {
      VICINAL_RETURN_IF_ERROR(CheckMetadata(item.value()));
      continue;
    }
    Span span;
    VICINAL_ASSIGN_OR_RETURN(SafetensorsEntry entry, ReadEntry(item.key(), item.value(), data, &span));
    result.entries_.emplace(item.key(), std::move(entry));
    spans.push_back(std::move(span));
  }
  VICINAL_RETURN_IF_ERROR(CheckSpans(std::move(spans), static_cast<int64_t>(data.size())));
  return result;
}

const SafetensorsEntry* Safetensors::Find(std::string_view name) const {
  const auto it = entries_.find(std::string(name));
  return it == entries_.end() ? nullptr : &it->second;
}

StatusOr<std::vector<float>> Safetensors::ToFloats(const SafetensorsEntry& entry, std::string_view name) {
  std::vector<float> values;
  if (entry.dtype == "F32") {
    values = ConvertAll<float>(entry.bytes, [](float v) { return v; });
  } else if (entry.dtype == "F64") {
    values = ConvertAll<double>(entry.bytes, [](double v) { return static_cast<float>(v); });
  } else if (entry.dtype == "F16") {
    values = ConvertAll<uint16_t>(entry.bytes, HalfToFloat);
  } else if (entry.dtype == "BF16") {
    values = ConvertAll<uint16_t>(entry.bytes, BFloat16ToFloat);
  } else {
    return InvalidArgument(
        "BAD_SAFETENSORS", name,
        "tensor '" + Printable(name) + "' is " + entry.dtype + "; weights are F32, F16, BF16 or F64: convert it");
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      return InvalidArgument("NOT_FINITE", name,
                             "tensor '" + Printable(name) + "' " + ShapeToString(entry.shape) +
                                 " contains a value that is not finite as float32 (element " + std::to_string(i) +
                                 "); such a model cannot answer");
    }
  }
  return values;
}

StatusOr<std::vector<int64_t>> Safetensors::ToInts(const SafetensorsEntry& entry, std::string_view name) {
  if (entry.dtype == "I64") return ConvertAll<int64_t>(entry.bytes, [](int64_t v) { return v; });
  if (entry.dtype == "I32") return ConvertAll<int32_t>(entry.bytes, [](int32_t v) { return static_cast<int64_t>(v); });
  return InvalidArgument("BAD_SAFETENSORS", name,
                         "tensor '" + Printable(name) + "' is " + entry.dtype + "; it must be I32 or I64");
}

}  // namespace vicinal
