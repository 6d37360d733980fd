// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 as the status page and the metrics speak it: one request a connection, read by a function of the bytes that
// have come. What is not plainly a request of ours is refused; nothing is repaired.
#ifndef VICINAL_SERVER_HTTP_REQUEST_H_
#define VICINAL_SERVER_HTTP_REQUEST_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vicinal::server {

struct HttpRequest {
  // Not 0: what came is no request that can be served, and this is the status of the answer (400, 413, 431, 501, 505).
  int refused = 0;
  std::string method;  // "GET"
  std::string path;    // decoded, without the query; empty: it cannot be decoded
  std::string host;    // the header, or empty
  std::string cookie;  // likewise
  std::string origin;  // likewise
  std::string body;
};

struct HttpResponse {
  int code = 200;
  std::string content_type = "text/html; charset=utf-8";
  std::vector<std::pair<std::string, std::string>> headers;  // besides content type and length
  std::string body;                                          // of HEAD, too, although it is not sent
};

// Bytes of a request's line and headers, and of its body.
inline constexpr size_t kMostHeadBytes = 16384;
inline constexpr size_t kMostFormBytes = 8192;

// Of application/x-www-form-urlencoded or of a path (`plus_is_blank` false). Nothing: it is not encoded so, or has a
// NUL.
std::optional<std::string> PercentDecoded(std::string_view text, bool plus_is_blank);

// The request that `bytes` begin with; nothing: more must come.
std::optional<HttpRequest> ParseRequest(std::string_view bytes);

// The answer as it is sent, after which the connection ends.
std::string Serialized(const HttpResponse& response, bool with_body);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_HTTP_REQUEST_H_
