// SPDX-License-Identifier: Apache-2.0
// Text for the status page. Whatever was not written here goes through Escaped.
#ifndef VICINAL_SERVER_STATUS_HTML_H_
#define VICINAL_SERVER_STATUS_HTML_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vicinal::server {

// For content of elements and for attributes in double quotes: & < > " ' become entities, control characters and bytes
// that are not ASCII in valid UTF-8 become U+FFFD.
std::string Escaped(std::string_view text);

// "1,234"; "1.2 MiB"; "3.4 ms", "-" for 0.
std::string CountText(int64_t count);
std::string BytesText(int64_t bytes);
std::string SecondsText(double seconds);

// A table; cells are escaped unless they come from Link.
class HtmlTable {
 public:
  explicit HtmlTable(const std::vector<std::string>& titles);
  void Add(const std::vector<std::string>& cells);
  // Like Add, with the first cell as a link to `path`, which must be safe as an attribute.
  void AddLinked(const std::string& path, const std::vector<std::string>& cells);
  // The element, or `otherwise` (escaped) if there is no row.
  std::string Text(std::string_view otherwise) const;

 private:
  std::string head_, rows_;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_STATUS_HTML_H_
