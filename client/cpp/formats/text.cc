// SPDX-License-Identifier: Apache-2.0
// from_chars throughout: it needs no terminator, knows no locale, and says where it stopped.
#include "client/cpp/formats/text.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/str_cat.h"
#include "client/cpp/formats/status_macros.h"

namespace vicinal::client {
namespace {

constexpr size_t kLongestShown = 40;

bool IsSpace(char c) { return c == ' ' || c == '\t'; }

absl::Status NotClosed(std::string_view field) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the field that begins with ", Shown(field),
      " has no closing double quote on this line: add it; if the field contains a line break, replace that with "
      "a space, because ids contain no line breaks"));
}

absl::Status TextAfterQuote(std::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("a field in double quotes is followed by ", Shown(text),
                   " instead of a comma: write quotes within such a field twice (\"say \"\"hi\"\"\")"));
}

// Takes the field that begins with a quote off the line, up to the comma after it.
absl::Status TakeQuoted(std::string_view* line, LineFields* fields) {
  const std::string_view whole = *line;
  std::string_view value = line->substr(1);
  std::string* unquoted = nullptr;
  size_t end = value.find('"');
  while (end != std::string_view::npos && value.substr(end, 2) == "\"\"") {
    if (unquoted == nullptr) unquoted = &fields->unquoted.emplace_back();
    unquoted->append(value.substr(0, end + 1));
    value.remove_prefix(end + 2);
    end = value.find('"');
  }
  if (end == std::string_view::npos) return NotClosed(whole);
  if (unquoted != nullptr) unquoted->append(value.substr(0, end));
  fields->values.push_back(unquoted != nullptr ? std::string_view(*unquoted) : value.substr(0, end));
  *line = Trim(value.substr(end + 1));
  return line->empty() || line->front() == ',' ? absl::OkStatus() : TextAfterQuote(*line);
}

template <class T>
bool ParseWhole(std::string_view field, T* value) {
  if (!field.empty() && field.front() == '+') field.remove_prefix(1);
  const char* end = field.data() + field.size();
  const auto [stop, error] = std::from_chars(field.data(), end, *value);
  return error == std::errc() && stop == end;
}

}  // namespace

std::string_view SkipByteOrderMark(std::string_view text) {
  constexpr std::string_view kMark("\xEF\xBB\xBF");
  if (text.substr(0, kMark.size()) == kMark) text.remove_prefix(kMark.size());
  return text;
}

bool LineReader::Next(std::string_view* line) {
  if (rest_.empty()) return false;
  ++number_;
  const size_t end = rest_.find('\n');
  *line = rest_.substr(0, end);
  rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
  if (!line->empty() && line->back() == '\r') line->remove_suffix(1);
  return true;
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

void SplitAtSpaces(std::string_view line, std::vector<std::string_view>* fields) {
  fields->clear();
  for (size_t at = 0; at < line.size();) {
    if (IsSpace(line[at])) {
      ++at;
      continue;
    }
    const size_t begin = at;
    while (at < line.size() && !IsSpace(line[at])) ++at;
    fields->push_back(line.substr(begin, at - begin));
  }
}

absl::Status SplitFields(std::string_view line, char separator, LineFields* fields) {
  fields->values.clear();
  fields->unquoted.clear();
  if (separator == ' ') {
    SplitAtSpaces(line, &fields->values);
    return absl::OkStatus();
  }
  while (true) {
    const std::string_view trimmed = Trim(line);
    if (!trimmed.empty() && trimmed.front() == '"') {
      line = trimmed;
      CLIENT_RETURN_IF_ERROR(TakeQuoted(&line, fields));
    } else {
      const size_t end = std::min(line.find(separator), line.size());
      fields->values.push_back(Trim(line.substr(0, end)));
      line.remove_prefix(end);
    }
    if (line.empty()) return absl::OkStatus();
    line.remove_prefix(1);
  }
}

std::string QuoteField(std::string_view field) {
  const bool bare = !field.empty() && field.front() != '"' && !IsSpace(field.front()) && !IsSpace(field.back()) &&
                    field.find(',') == std::string_view::npos;
  if (bare) return std::string(field);
  std::string quoted = "\"";
  for (const char c : field) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

std::string Shown(std::string_view word) {
  size_t end = std::min(word.size(), kLongestShown);
  while (end < word.size() && end > 0 && (word[end] & 0xC0) == 0x80) --end;  // not within a character
  std::string shown = "'";
  for (const char c : word.substr(0, end)) shown += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  return shown + (end < word.size() ? "...'" : "'");
}

bool ParseInt(std::string_view field, int64_t* value) { return ParseWhole(field, value); }
bool ParseFloat(std::string_view field, float* value) {
  double wide;
  if (!ParseDouble(field, &wide)) return false;
  *value = static_cast<float>(wide);
  return true;
}
bool ParseDouble(std::string_view field, double* value) { return ParseWhole(field, value); }

bool IsCanonicalInt(std::string_view field, int64_t* value) {
  if (field.empty() || field.front() == '+') return false;
  const std::string_view digits = field.front() == '-' ? field.substr(1) : field;
  if (digits.empty() || (digits.front() == '0' && field.size() > 1)) return false;
  return ParseWhole(field, value);
}

bool IsUtf8(std::string_view text) {
  constexpr uint32_t kMin[] = {0, 0x80, 0x800, 0x10000};  // by number of continuation bytes
  for (size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at++]);
    if (lead < 0x80) continue;
    const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    if (lead < 0xC0 || lead > 0xF7 || text.size() - at < static_cast<size_t>(more)) return false;
    uint32_t code = lead & (0x3F >> more);
    for (int i = 0; i < more; ++i, ++at) {
      const auto next = static_cast<unsigned char>(text[at]);
      if ((next & 0xC0) != 0x80) return false;
      code = code << 6 | (next & 0x3F);
    }
    if (code < kMin[more] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return false;
  }
  return true;
}

}  // namespace vicinal::client
