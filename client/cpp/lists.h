// SPDX-License-Identifier: Apache-2.0
// Reads all pages of a list from a server that is not trusted: a page token must be new, a page may not be longer than
// asked for nor empty unless it is the last, and the list must end. Internal to the client library.
#ifndef VICINAL_CLIENT_CPP_LISTS_H_
#define VICINAL_CLIENT_CPP_LISTS_H_

#include <google/protobuf/repeated_field.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/errors.h"
#include "client/cpp/formats/status_macros.h"

namespace vicinal::client::internal {

inline constexpr int kPageSize = 100;
inline constexpr int64_t kMaxPages = 10'000;
// Memory of all pages, in bytes.
inline constexpr int64_t kMaxListBytes = int64_t{256} << 20;

// `call` makes one call, `items` is the reply's list: AllPages<v1::Graph, v1::ListGraphsRequest>(call,
// &v1::ListGraphsResponse::graphs).
template <class Item, class Request, class Response>
absl::StatusOr<std::vector<Item>> AllPages(const std::function<absl::StatusOr<Response>(const Request&)>& call,
                                           const google::protobuf::RepeatedPtrField<Item>& (Response::*items)() const) {
  const auto broken = [](const std::string& message) {
    return CallError(absl::StatusCode::kInternal, absl::StrCat("the server's list: ", message));
  };
  std::vector<Item> all;
  std::set<std::string> tokens;
  int64_t bytes = 0;
  Request request;
  request.set_page_size(kPageSize);
  for (int64_t page = 0; page < kMaxPages; ++page) {
    CLIENT_ASSIGN_OR_RETURN(Response response, call(request));
    const auto& found = (response.*items)();
    if (found.size() > kPageSize) {
      return broken(absl::StrCat("a page has ", found.size(), " entries, at most ", kPageSize, " were asked for"));
    }
    bytes += static_cast<int64_t>(response.SpaceUsedLong());
    if (bytes > kMaxListBytes) return broken(absl::StrCat("it exceeds ", kMaxListBytes, " bytes"));
    all.insert(all.end(), found.begin(), found.end());
    const std::string& next = response.next_page_token();
    if (next.empty()) return all;
    if (found.empty()) return broken("an empty page is followed by another");
    if (!tokens.insert(next).second) return broken("a page token repeats");
    request.set_page_token(next);
  }
  return broken(absl::StrCat("it has more than ", kMaxPages, " pages"));
}

}  // namespace vicinal::client::internal

#endif  // VICINAL_CLIENT_CPP_LISTS_H_
