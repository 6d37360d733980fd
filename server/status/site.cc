// SPDX-License-Identifier: Apache-2.0
#include "server/status/site.h"

#include <algorithm>
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

// Of application/x-www-form-urlencoded. Nothing: there is no such field, or it is not encoded so.
std::optional<std::string> FormField(const std::string& body, absl::string_view name) {
  for (const absl::string_view one : absl::StrSplit(body, '&')) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(one, absl::MaxSplits('=', 1));
    if (parts.first != name) continue;
    return PercentDecoded({parts.second.data(), parts.second.size()}, /*plus_is_blank=*/true);
  }
  return std::nullopt;
}

// The host of "HOST", "HOST:PORT", "[V6]", "[V6]:PORT". Empty: it is something else.
std::string HostOf(const std::string& header) {
  const bool bracketed = !header.empty() && header.front() == '[';
  const size_t bracket = bracketed ? header.find(']') : 0;
  if (bracket == std::string::npos) return {};
  const size_t end = bracketed ? bracket + 1 : std::min(header.find(':'), header.size());
  if (end == header.size()) return header;
  const bool port = header[end] == ':' && header.find_first_not_of("0123456789", end + 1) == std::string::npos;
  return port ? header.substr(0, end) : std::string();
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
  if (request.refused != 0) return PlainPage(request.refused, "Refused", "This server cannot read that request.");
  if (loopback_only_ && !IsLoopback(HostOf(request.host))) {
    return PlainPage(421, "Wrong name", "This page is for this machine only: open it as localhost.");
  }
  if (request.path.empty() || request.path.front() != '/')
    return PlainPage(400, "Refused", "There can be no such address.");
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (reads && request.path == "/style.css") {
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
  if (!reads) {
    HttpResponse response = PlainPage(405, "Refused", "This page only shows.");
    response.headers.emplace_back("Allow", "GET, HEAD");
    return response;
  }
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
