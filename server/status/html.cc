// SPDX-License-Identifier: Apache-2.0
#include "server/status/html.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/printable.h"

namespace vicinal::server {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";

}  // namespace

std::string Escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x80) {
      const size_t length = CharacterBytes(text.substr(i));
      absl::StrAppend(&out, length == 1 ? absl::string_view(kReplacement) : absl::string_view(text.data() + i, length));
      i += length;
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
