// SPDX-License-Identifier: Apache-2.0
// Pages of lists that are ordered by name. The token is the last name seen, so that a list that changes between two
// pages neither repeats nor skips what stays.
#ifndef VICINAL_SERVER_HANDLERS_PAGES_H_
#define VICINAL_SERVER_HANDLERS_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"

namespace vicinal::server {

// The half-open range of `names` (ascending) that the page holds, and the token of the next page (empty at the end).
// INVALID_ARGUMENT: page_size outside 0..1000, a token that is none of ours.
struct Page {
  size_t begin = 0;
  size_t end = 0;
  std::string next_token;
};
StatusOr<Page> PageOf(const std::vector<std::string>& names, int32_t page_size, const std::string& page_token);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_HANDLERS_PAGES_H_
