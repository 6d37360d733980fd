// SPDX-License-Identifier: Apache-2.0
// One pass over the code points. Text without anything to escape, nearly all text, is copied once.
#include "client/cpp/printable.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <vector>

namespace vicinal::client {
namespace {

struct CodePoint {
  uint32_t value = 0;
  size_t size = 1;     // in bytes
  bool valid = false;  // false: one byte that begins no UTF-8 sequence
};

// The first code point of `text`, which is not empty. Overlong forms, surrogates and values above U+10FFFF are invalid.
CodePoint First(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const size_t size = lead >= 0xF0 && lead < 0xF8   ? 4
                      : lead >= 0xE0 && lead < 0xF0 ? 3
                      : lead >= 0xC0 && lead < 0xE0 ? 2
                                                    : 0;
  if (size == 0 || size > text.size()) return {lead, 1, false};
  uint32_t value = lead & (0x7FU >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {lead, 1, false};
    value = value << 6 | (byte(i) & 0x3FU);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < kLeast[size] || surrogate || value > 0x10FFFF) return {lead, 1, false};
  return {value, size, true};
}

struct Range {
  uint32_t first;
  uint32_t last;
};

// Controls, and what is invisible or changes how the text around it is shown (Unicode's Cf, Zl and Zp, and the unused
// rest of their blocks). Ascending.
constexpr Range kUnprintable[] = {
    {0x0000, 0x001F},     // C0
    {0x007F, 0x009F},     // DEL, C1
    {0x00AD, 0x00AD},     // soft hyphen
    {0x061C, 0x061C},     // Arabic letter mark
    {0x115F, 0x1160},     // Hangul fillers
    {0x180E, 0x180E},     // Mongolian vowel separator
    {0x200B, 0x200F},     // zero-width characters, left-to-right and right-to-left marks
    {0x2028, 0x202E},     // line and paragraph separators, bidirectional embeddings and overrides
    {0x2060, 0x206F},     // invisible operators, bidirectional isolates
    {0x3164, 0x3164},     // Hangul filler
    {0xFEFF, 0xFEFF},     // byte order mark
    {0xFFA0, 0xFFA0},     // halfwidth Hangul filler
    {0xFFF0, 0xFFFB},     // specials, interlinear annotations
    {0xFFFE, 0xFFFF},     // no characters
    {0x1BCA0, 0x1BCA3},   // shorthand format controls
    {0x1D173, 0x1D17A},   // musical format controls
    {0xE0000, 0xE0FFF},   // tags, variation selectors
    {0xF0000, 0x10FFFF},  // private use planes
};

bool IsPrintable(uint32_t value) {
  const auto* const range = std::lower_bound(std::begin(kUnprintable), std::end(kUnprintable), value,
                                             [](const Range& item, uint32_t at) { return item.last < at; });
  return range == std::end(kUnprintable) || value < range->first;
}

std::string Format(const char* format, uint32_t value) {
  char buffer[16];
  std::snprintf(buffer, sizeof(buffer), format, value);
  return buffer;
}

std::string Escape(const CodePoint& point) {
  if (point.valid && point.value == '\n') return "\\n";
  if (point.valid && point.value == '\r') return "\\r";
  if (point.valid && point.value == '\t') return "\\t";
  if (!point.valid || point.value < 0x80) return Format("\\x%02x", point.value);
  return Format(point.value > 0xFFFF ? "\\U%08x" : "\\u%04x", point.value);
}

std::string EscapeJson(const CodePoint& point) {
  if (point.value <= 0xFFFF) return Format("\\u%04x", point.value);
  const uint32_t above = point.value - 0x10000;
  return Format("\\u%04x", 0xD800 + (above >> 10)) + Format("\\u%04x", 0xDC00 + (above & 0x3FF));
}

// Within JSON, these stand only between values: in strings they are escaped already.
bool IsJsonSpace(uint32_t value) { return value == '\n' || value == '\r' || value == '\t'; }

void MakeFieldPrintable(const google::protobuf::FieldDescriptor& field, google::protobuf::Message* message) {
  using google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& reflection = *message->GetReflection();
  const int count = field.is_repeated() ? reflection.FieldSize(*message, &field) : 1;
  for (int i = 0; i < count; ++i) {
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      MakePrintable(field.is_repeated() ? reflection.MutableRepeatedMessage(message, &field, i)
                                        : reflection.MutableMessage(message, &field));
    } else if (field.is_repeated()) {
      reflection.SetRepeatedString(message, &field, i, Printable(reflection.GetRepeatedString(*message, &field, i)));
    } else {
      reflection.SetString(message, &field, Printable(reflection.GetString(*message, &field)));
    }
  }
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = First(text);
    if (point.valid && IsPrintable(point.value)) {
      result.append(text.substr(0, point.size));
    } else {
      result += Escape(point);
    }
    text.remove_prefix(point.size);
  }
  return result;
}

std::string PrintableJson(std::string_view json) {
  std::string result;
  result.reserve(json.size());
  while (!json.empty()) {
    const CodePoint point = First(json);
    if (!point.valid) {
      result += "\\ufffd";
    } else if (IsJsonSpace(point.value) || IsPrintable(point.value)) {
      result.append(json.substr(0, point.size));
    } else {
      result += EscapeJson(point);
    }
    json.remove_prefix(point.size);
  }
  return result;
}

void MakePrintable(google::protobuf::Message* message) {
  using google::protobuf::FieldDescriptor;
  std::vector<const FieldDescriptor*> fields;
  message->GetReflection()->ListFields(*message, &fields);
  for (const FieldDescriptor* field : fields) {
    const bool text = field->type() == FieldDescriptor::TYPE_STRING;
    if (text || field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) MakeFieldPrintable(*field, message);
  }
}

}  // namespace vicinal::client
