// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/pages.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "proto/wire/names.h"

namespace vicinal::server {
namespace {

constexpr int32_t kDefaultSize = 100, kMaxSize = 1000;
constexpr char kTokenPrefix[] = "after:";

}  // namespace

StatusOr<Page> PageOf(const std::vector<std::string>& names, int32_t page_size, const std::string& page_token) {
  if (page_size < 0 || page_size > kMaxSize) {
    return InvalidArgument("BAD_PAGE", "page_size",
                           absl::StrCat("page_size is ", page_size, "; it must be within 0..", kMaxSize));
  }
  Page page;
  if (!page_token.empty()) {
    const std::string prefix = kTokenPrefix;
    if (page_token.rfind(prefix, 0) != 0 || !wire::IsValidName(page_token.substr(prefix.size()))) {
      return InvalidArgument(
          "BAD_PAGE", "page_token",
          "page_token does not come from an earlier page; send that page's next_page_token, or leave it empty to "
          "start again");
    }
    const std::string last = page_token.substr(prefix.size());
    page.begin = static_cast<size_t>(std::upper_bound(names.begin(), names.end(), last) - names.begin());
  }
  const size_t size = page_size == 0 ? kDefaultSize : page_size;
  page.end = std::min(names.size(), page.begin + size);
  if (page.end < names.size()) page.next_token = TokenAfter(names[page.end - 1]);
  return page;
}

std::string TokenAfter(const std::string& name) { return kTokenPrefix + name; }

}  // namespace vicinal::server
