// SPDX-License-Identifier: Apache-2.0
#include "server/status/html.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace vicinal::server {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";

// Length of the UTF-8 sequence that begins at `at`; 0: none does. Two bytes and more only.
size_t SequenceAt(std::string_view text, size_t at) {
  const auto byte = static_cast<unsigned char>(text[at]);
  const size_t length = byte >= 0xF0 && byte <= 0xF4  ? 4
                        : byte >= 0xE0 && byte < 0xF0 ? 3
                        : byte >= 0xC2 && byte < 0xE0 ? 2
                                                      : 0;
  if (length == 0 || at + length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[at + i]) & 0xC0) != 0x80) return 0;
  }
  const auto second = static_cast<unsigned char>(text[at + 1]);
  // Overlong forms, surrogates, and what lies beyond Unicode.
  const bool wrong = (byte == 0xE0 && second < 0xA0) || (byte == 0xED && second >= 0xA0) ||
                     (byte == 0xF0 && second < 0x90) || (byte == 0xF4 && second >= 0x90);
  return wrong ? 0 : length;
}

}  // namespace

std::string Escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x80) {
      const size_t length = SequenceAt(text, i);
      absl::StrAppend(&out, length == 0 ? absl::string_view(kReplacement) : absl::string_view(text.data() + i, length));
      i += length == 0 ? 1 : length;
      continue;
    }
    ++i;
    switch (text[i - 1]) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        if (byte < 0x20 || byte == 0x7F) {
          out += kReplacement;
        } else {
          out += text[i - 1];
        }
    }
  }
  return out;
}

std::string CountText(int64_t count) {
  std::string digits = absl::StrCat(count);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > (count < 0 ? 1 : 0); at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return digits;
}

std::string BytesText(int64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) value /= 1024, ++unit;
  return unit == 0 ? absl::StrCat(bytes, " B") : absl::StrFormat("%.1f %s", value, units[unit]);
}

std::string SecondsText(double seconds) {
  if (!(seconds > 0)) return "-";
  if (seconds < 1e-3) return absl::StrFormat("%.3g us", seconds * 1e6);
  if (seconds < 1) return absl::StrFormat("%.3g ms", seconds * 1e3);
  return absl::StrFormat("%.3g s", seconds);
}

HtmlTable::HtmlTable(const std::vector<std::string>& titles) {
  for (const std::string& title : titles) absl::StrAppend(&head_, "<th>", Escaped(title), "</th>");
}

void HtmlTable::Add(const std::vector<std::string>& cells) {
  absl::StrAppend(&rows_, "<tr>");
  for (const std::string& cell : cells) absl::StrAppend(&rows_, "<td>", Escaped(cell), "</td>");
  absl::StrAppend(&rows_, "</tr>\n");
}

void HtmlTable::AddLinked(const std::string& path, const std::vector<std::string>& cells) {
  absl::StrAppend(&rows_, "<tr>");
  for (size_t i = 0; i < cells.size(); ++i) {
    absl::StrAppend(&rows_, "<td>",
                    i == 0 ? absl::StrCat("<a href=\"", path, "\">", Escaped(cells[i]), "</a>") : Escaped(cells[i]),
                    "</td>");
  }
  absl::StrAppend(&rows_, "</tr>\n");
}

std::string HtmlTable::Text(std::string_view otherwise) const {
  if (rows_.empty()) return absl::StrCat("<p>", Escaped(otherwise), "</p>\n");
  return absl::StrCat("<table><thead><tr>", head_, "</tr></thead><tbody>\n", rows_, "</tbody></table>\n");
}

}  // namespace vicinal::server
