// SPDX-License-Identifier: Apache-2.0
#include "server/status/site.h"

#include <new>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/config.h"

namespace vicinal::server {
namespace {

constexpr char kCookie[] = "vicinal_status";

HttpResponse PlainPage(int code, const std::string& title, const std::string& message) {
  HttpResponse response;
  response.code = code;
  response.body = MessagePage(title, message);
  return response;
}

HttpResponse Redirect(const char* path) {
  HttpResponse response = PlainPage(303, "See", path);
  response.headers.emplace_back("Location", path);
  return response;
}

std::string SessionOf(const std::string& cookies) {
  for (const absl::string_view one : absl::StrSplit(cookies, ';')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(absl::StripAsciiWhitespace(one), absl::MaxSplits('=', 1));
    if (parts.first == kCookie) return std::string(parts.second);
  }
  return {};
}

std::string SetCookie(const std::string& id, const char* more) {
  return absl::StrCat(kCookie, "=", id, "; Path=/; HttpOnly; SameSite=Strict", more);
}

int HexDigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Of application/x-www-form-urlencoded. Nothing: there is no such field, or it is not encoded so.
std::optional<std::string> FormField(const std::string& body, absl::string_view name) {
  for (const absl::string_view one : absl::StrSplit(body, '&')) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(one, absl::MaxSplits('=', 1));
    if (parts.first != name) continue;
    std::string value;
    for (size_t i = 0; i < parts.second.size(); ++i) {
      const char c = parts.second[i];
      if (c != '%') {
        value += c == '+' ? ' ' : c;
        continue;
      }
      if (i + 2 >= parts.second.size()) return std::nullopt;
      const int high = HexDigitOf(parts.second[i + 1]), low = HexDigitOf(parts.second[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      value += static_cast<char>(16 * high + low);
      i += 2;
    }
    return value;
  }
  return std::nullopt;
}

// The host of "HOST", "HOST:PORT", "[V6]:PORT".
std::string HostOf(const std::string& header) {
  if (!header.empty() && header.front() == '[') return header.substr(0, header.find(']') + 1);
  return header.substr(0, header.find(':'));
}

}  // namespace

bool StatusSite::MaySee(const std::string& authorization) const {
  Caller caller;
  caller.authorization = authorization;
  Identity identity;
  return auth_.Check(caller, Role::kInfer, &identity).ok();
}

HttpResponse StatusSite::SignIn(const HttpRequest& request) {
  if (!request.origin.empty() && request.origin != "http://" + request.host &&
      request.origin != "https://" + request.host) {
    return PlainPage(403, "Refused", "The form was sent from another site.");
  }
  if (!sessions_.MayTry()) return PlainPage(429, "Too many attempts", "Wrong tokens were sent; wait a minute.");
  const std::optional<std::string> token = FormField(request.body, "token");
  const std::string authorization = absl::StrCat("Bearer ", token.value_or(""));
  if (!token || token->empty() || !MaySee(authorization)) {
    HttpResponse response;
    response.code = 401;
    response.body = LoginPage("That is no token of this server.");
    return response;
  }
  sessions_.Forgive();
  HttpResponse response = Redirect("/");
  response.headers.emplace_back("Set-Cookie", SetCookie(sessions_.Begin(authorization), ""));
  return response;
}

HttpResponse StatusSite::Dispatch(const HttpRequest& request) {
  if (loopback_only_ && !IsLoopback(HostOf(request.host))) {
    return PlainPage(421, "Wrong name", "This page is for this machine only: open it as localhost.");
  }
  if (request.body.size() > kMostFormBytes) return PlainPage(413, "Too large", "The request is too large.");
  if (request.method == "GET" && request.path == "/style.css") {
    HttpResponse response;
    response.content_type = "text/css; charset=utf-8";
    response.body = StyleSheet();
    return response;
  }
  const std::string id = SessionOf(request.cookie);
  if (request.method == "POST" && request.path == "/login") return SignIn(request);
  if (request.method == "POST" && request.path == "/logout") {
    sessions_.End(id);
    HttpResponse response = Redirect("/login");
    response.headers.emplace_back("Set-Cookie", SetCookie("", "; Max-Age=0"));
    return response;
  }
  if (request.method != "GET") return PlainPage(405, "Refused", "This page only shows.");
  const std::optional<std::string> session = sessions_.Find(id);
  const bool known = MaySee(session.value_or(""));
  if (request.path == "/login") {
    if (known) return Redirect("/");
    HttpResponse response;
    response.body = LoginPage("");
    return response;
  }
  if (!known) return Redirect("/login");
  HttpResponse response;
  constexpr absl::string_view kGraphs = "/graphs/";
  if (request.path == "/") {
    response.body = OverviewPage(source_, session.has_value());
    return response;
  }
  if (!absl::StartsWith(request.path, kGraphs)) return PlainPage(404, "Not found", "There is no such page.");
  StatusOr<std::string> page = GraphPage(source_, request.path.substr(kGraphs.size()), session.has_value());
  if (!page.ok()) return PlainPage(404, "Not found", "There is no graph of that name.");
  response.body = *std::move(page);
  return response;
}

HttpResponse StatusSite::Answer(const HttpRequest& request) try {
  HttpResponse response = Dispatch(request);
  // No script runs, nothing comes from elsewhere, nobody frames it, nothing stays in a cache.
  response.headers.emplace_back(
      "Content-Security-Policy",
      "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'");
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  response.headers.emplace_back("X-Frame-Options", "DENY");
  response.headers.emplace_back("Referrer-Policy", "same-origin");
  response.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
  response.headers.emplace_back("Cache-Control", "no-store");
  return response;
} catch (const std::bad_alloc&) {
  HttpResponse response;
  response.code = 503;
  response.content_type = "text/plain";
  response.body = "out of memory\n";
  return response;
}

}  // namespace vicinal::server
