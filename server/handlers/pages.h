// SPDX-License-Identifier: Apache-2.0
// Pages of lists that are ordered by name. The token is the last name seen, so that a list that changes between two
// pages neither repeats nor skips what stays.
#ifndef VICINAL_SERVER_HANDLERS_PAGES_H_
#define VICINAL_SERVER_HANDLERS_PAGES_H_

#include <google/protobuf/repeated_field.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"

namespace vicinal::server {

// The half-open range of `names` (ascending) that the page holds, and the token of the next page (empty at the end).
// INVALID_ARGUMENT: page_size outside 0..1000, an invalid token.
struct Page {
  size_t begin = 0;
  size_t end = 0;
  std::string next_token;
};
StatusOr<Page> PageOf(const std::vector<std::string>& names, int32_t page_size, const std::string& page_token);
// The token of the page that begins after `name`.
std::string TokenAfter(const std::string& name);

// Adds the page's items, `make(i)` of each, and returns the token of the next page. The page ends early if more
// items would exceed `max_bytes`, which clients would reject; it has at least one item, if there are any.
template <class Item, class Make>
std::string FillPage(const Page& page, const std::vector<std::string>& names, int64_t max_bytes, const Make& make,
                     google::protobuf::RepeatedPtrField<Item>* items) {
  int64_t bytes = 0;
  for (size_t i = page.begin; i < page.end; ++i) {
    Item item = make(i);
    bytes += static_cast<int64_t>(item.ByteSizeLong());
    if (i > page.begin && bytes > max_bytes) return TokenAfter(names[i - 1]);
    *items->Add() = std::move(item);
  }
  return page.next_token;
}

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_HANDLERS_PAGES_H_
