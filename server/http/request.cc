// SPDX-License-Identifier: Apache-2.0
#include "server/http/request.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace vicinal::server {
namespace {

int HexDigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool IsTokenCharacter(char c) {
  const auto u = static_cast<unsigned char>(c);
  return u > 0x20 && u < 0x7f && std::string_view("\"(),/:;<=>?@[\\]{}").find(c) == std::string_view::npos;
}

bool IsToken(std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), IsTokenCharacter); }

// Of a line; a tab may stand in a header.
bool HasControls(std::string_view line) {
  return std::any_of(line.begin(), line.end(), [](char c) { return (c >= 0 && c < 0x20 && c != '\t') || c == 0x7f; });
}

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

// What the headers say that we look at.
struct Headers {
  std::optional<std::string> host, cookie, origin, length;
  bool encoded = false;
};

// The field for a header's name; null: we do not look at it.
std::optional<std::string>* FieldOf(std::string_view name, Headers* headers) {
  if (absl::EqualsIgnoreCase(Absl(name), "host")) return &headers->host;
  if (absl::EqualsIgnoreCase(Absl(name), "cookie")) return &headers->cookie;
  if (absl::EqualsIgnoreCase(Absl(name), "origin")) return &headers->origin;
  if (absl::EqualsIgnoreCase(Absl(name), "content-length")) return &headers->length;
  return nullptr;
}

// False: it is no header, or one that must not be there twice is.
bool TakeHeader(std::string_view line, Headers* headers) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || HasControls(line)) return false;
  const std::string_view name = line.substr(0, colon);
  if (!IsToken(name)) return false;
  if (absl::EqualsIgnoreCase(Absl(name), "transfer-encoding")) headers->encoded = true;
  std::optional<std::string>* const field = FieldOf(name, headers);
  if (field == nullptr) return true;
  if (field->has_value()) return false;
  *field = std::string(Trimmed(line.substr(colon + 1)));
  return true;
}

// 0, or the status of its refusal.
int TakeRequestLine(std::string_view line, HttpRequest* request) {
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (HasControls(line) || first == std::string_view::npos || first == last) return 400;
  const std::string_view method = line.substr(0, first), target = line.substr(first + 1, last - first - 1),
                         version = line.substr(last + 1);
  if (!IsToken(method) || target.empty() || target.find(' ') != std::string_view::npos) return 400;
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return 505;
  request->method = std::string(method);
  request->path = PercentDecoded(target.substr(0, target.find('?')), /*plus_is_blank=*/false).value_or("");
  return 0;
}

// Bytes of the body; nothing: the header is no number.
std::optional<size_t> LengthOf(const Headers& headers) {
  if (!headers.length) return 0;
  const bool digits = !headers.length->empty() && headers.length->find_first_not_of("0123456789") == std::string::npos;
  uint64_t length = 0;
  if (!digits) return std::nullopt;
  // Too long for a number is too large, too.
  return absl::SimpleAtoi(*headers.length, &length) ? length : SIZE_MAX;
}

HttpRequest Refused(int status) {
  HttpRequest request;
  request.refused = status;
  return request;
}

const char* Phrase(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 303:
      return "See Other";
    default:
      return code < 500 ? "Refused" : "Error";
  }
}

}  // namespace

std::optional<std::string> PercentDecoded(std::string_view text, bool plus_is_blank) {
  std::string value;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      value += text[i] == '+' && plus_is_blank ? ' ' : text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = HexDigitOf(text[i + 1]), low = HexDigitOf(text[i + 2]);
    if (high < 0 || low < 0 || (high == 0 && low == 0)) return std::nullopt;
    value += static_cast<char>(16 * high + low);
    i += 2;
  }
  return value;
}

std::optional<HttpRequest> ParseRequest(std::string_view bytes) {
  constexpr std::string_view kLineEnd = "\r\n", kHeadEnd = "\r\n\r\n";
  const size_t end = bytes.substr(0, kMostHeadBytes).find(kHeadEnd);
  if (end == std::string_view::npos) {
    if (bytes.size() >= kMostHeadBytes) return Refused(431);
    return std::nullopt;
  }
  std::string_view head = bytes.substr(0, end + kLineEnd.size());
  HttpRequest request;
  Headers headers;
  for (bool first = true; !head.empty(); first = false) {
    const size_t line_end = head.find(kLineEnd);
    const std::string_view line = head.substr(0, line_end);
    head.remove_prefix(line_end + kLineEnd.size());
    const int status = first ? TakeRequestLine(line, &request) : TakeHeader(line, &headers) ? 0 : 400;
    if (status != 0) return Refused(status);
  }
  if (headers.encoded) return Refused(501);
  const std::optional<size_t> length = LengthOf(headers);
  if (!length) return Refused(400);
  if (*length > kMostFormBytes) return Refused(413);
  const std::string_view body = bytes.substr(end + kHeadEnd.size());
  if (body.size() < *length) return std::nullopt;
  request.host = headers.host.value_or("");
  request.cookie = headers.cookie.value_or("");
  request.origin = headers.origin.value_or("");
  request.body = std::string(body.substr(0, *length));
  return request;
}

std::string Serialized(const HttpResponse& response, bool with_body) {
  std::string text =
      absl::StrCat("HTTP/1.1 ", response.code, " ", Phrase(response.code), "\r\nContent-Type: ", response.content_type,
                   "\r\nContent-Length: ", response.body.size(), "\r\nConnection: close\r\n");
  for (const auto& [name, value] : response.headers) absl::StrAppend(&text, name, ": ", value, "\r\n");
  absl::StrAppend(&text, "\r\n");
  if (with_body) text += response.body;
  return text;
}

}  // namespace vicinal::server
