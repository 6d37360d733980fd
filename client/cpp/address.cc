// SPDX-License-Identifier: Apache-2.0
// The schemes are those of gRPC's name resolvers; after each comes what gRPC's own parser expects there.
#include "client/cpp/address.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cpp/formats/status_macros.h"

namespace vicinal::client {
namespace {

constexpr char kForms[] = "HOST:PORT (such as localhost:8500 or [::1]:8500), dns:///HOST:PORT or unix:PATH is expected";
constexpr char kNameCharacters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

std::string Quoted(std::string_view text) { return absl::StrCat("'", absl::CHexEscape(Absl(text)), "'"); }

bool TakePrefix(std::string_view prefix, std::string_view* text) {
  if (text->substr(0, prefix.size()) != prefix) return false;
  text->remove_prefix(prefix.size());
  return true;
}

absl::Status Wrong(const std::string& what) { return absl::InvalidArgumentError(absl::StrCat(what, "; ", kForms)); }

bool IsIpv6(std::string_view text) {
  in6_addr ignored;
  return inet_pton(AF_INET6, std::string(text.substr(0, text.find('%'))).c_str(), &ignored) == 1;
}

absl::Status CheckPort(std::string_view port) {
  int32_t number;
  const bool digits = port.find_first_not_of("0123456789") == std::string_view::npos;
  if (digits && absl::SimpleAtoi(Absl(port), &number) && number >= 1 && number <= 65535) return absl::OkStatus();
  const size_t end = port.find('/');
  if (end != std::string_view::npos && CheckPort(port.substr(0, end)).ok()) {
    return Wrong(absl::StrCat(Quoted(port.substr(end)), " follows the port, where an address ends"));
  }
  return Wrong(absl::StrCat("the port ", Quoted(port), " is not a number from 1 to 65535"));
}

absl::Status NoPort() { return Wrong("the port is missing (the default port of a server is 8500)"); }

// HOST:PORT, the host in brackets where it is an IPv6 address.
absl::Status CheckHostPort(std::string_view text) {
  if (!text.empty() && text.front() == '[') {
    const size_t end = text.find(']');
    if (end == std::string_view::npos || !IsIpv6(text.substr(1, end - 1))) {
      return Wrong(absl::StrCat(Quoted(text.substr(0, end == std::string_view::npos ? end : end + 1)),
                                " is not an IPv6 address in brackets"));
    }
    const std::string_view rest = text.substr(end + 1);
    if (rest.empty()) return NoPort();
    if (rest.front() != ':') return Wrong(absl::StrCat("a colon and the port must follow ", Quoted(text)));
    return CheckPort(rest.substr(1));
  }
  if (IsIpv6(text)) return Wrong("an IPv6 address must be in brackets, followed by the port");
  const size_t colon = text.find(':');
  const std::string_view host = text.substr(0, colon);
  const size_t odd = host.find_first_not_of(kNameCharacters);
  if (odd != std::string_view::npos) {
    return Wrong(absl::StrCat("the host ", Quoted(host), " contains ", Quoted(host.substr(odd, 1)),
                              ", which is not allowed in host names"));
  }
  if (host.empty()) return Wrong("the host is missing");
  return colon == std::string_view::npos ? NoPort() : CheckPort(text.substr(colon + 1));
}

// Behind ipv4: and ipv6: come numbers, not names, and several may stand.
absl::Status CheckList(std::string_view text, bool ipv6) {
  for (const absl::string_view item : absl::StrSplit(Absl(text), ',')) {
    const std::string host(item.substr(0, item.rfind(':')));
    in_addr ignored;
    if (ipv6 ? host.substr(0, 1) != "[" : inet_pton(AF_INET, host.c_str(), &ignored) != 1) {
      return Wrong(absl::StrCat(Quoted(host), " is not an IPv", ipv6 ? "6 address in brackets" : "4 address"));
    }
    CLIENT_RETURN_IF_ERROR(CheckHostPort(std::string_view(item.data(), item.size())));
  }
  return absl::OkStatus();
}

// Behind dns: comes HOST:PORT, or //RESOLVER/HOST:PORT, the resolver mostly empty.
absl::Status CheckDns(std::string_view text) {
  if (TakePrefix("//", &text)) {
    const size_t slash = text.find('/');
    if (slash == std::string_view::npos) return Wrong("dns: must be followed by no slash or by three");
    text.remove_prefix(slash + 1);
  }
  return CheckHostPort(text);
}

absl::Status CheckSocket(std::string_view text) {
  if (TakePrefix("//", &text) && text.substr(0, 1) != "/")
    return Wrong("unix: must be followed by a path or by ///PATH");
  if (text.empty()) return Wrong("unix: needs the path of a socket");
  const size_t longest = sizeof(sockaddr_un::sun_path) - 1;
  if (text.size() <= longest) return absl::OkStatus();
  return Wrong(absl::StrCat("the path of a socket has at most ", longest, " bytes"));
}

// "http://host:8500/": the part between scheme and path.
absl::Status NoUrl(std::string_view address, size_t scheme_end) {
  std::string_view rest = address.substr(scheme_end + 3);
  rest = rest.substr(0, rest.find_first_of("/?#"));
  const std::string instead = rest.empty() ? "" : absl::StrCat(": write only ", std::string(rest));
  return Wrong(absl::StrCat("this is a URL, not an address", instead));
}

absl::Status Check(std::string_view address) {
  if (address.empty()) return Wrong("it is empty");
  if (address.find_first_of(" \t\r\n") != std::string_view::npos) return Wrong("it contains a space or a line break");
  std::string_view rest = address;
  if (TakePrefix("dns:", &rest)) return CheckDns(rest);
  if (TakePrefix("ipv4:", &rest)) return CheckList(rest, /*ipv6=*/false);
  if (TakePrefix("ipv6:", &rest)) return CheckList(rest, /*ipv6=*/true);
  if (TakePrefix("unix:", &rest) || TakePrefix("unix-abstract:", &rest)) return CheckSocket(rest);
  if (TakePrefix("xds:", &rest)) return absl::OkStatus();
  const size_t scheme = address.find("://");
  return scheme == std::string_view::npos ? CheckHostPort(address) : NoUrl(address, scheme);
}

}  // namespace

absl::Status CheckAddress(const std::string& address) {
  const absl::Status status = Check(address);
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat(Quoted(address), ": ", status.message()));
}

}  // namespace vicinal::client
