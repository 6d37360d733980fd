// SPDX-License-Identifier: Apache-2.0
#include "server/listen.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal::server {
namespace {

// Connections that wait to be accepted; the kernel's own bound (somaxconn) may be less.
constexpr int kBacklog = 1024;

Status CannotListen(const char* flag, const std::string& address, const std::string& why) {
  return FailedPrecondition("CANNOT_LISTEN",
                            absl::StrCat("--", flag, ": cannot listen on ", address, ": ", why,
                                         "; is the port in use, or the address not this machine's? Use another one"));
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

// Returns the socket, or minus the error number. `path`: of a unix socket, whose mode is set before anybody can
// connect.
int Listen(const sockaddr* address, socklen_t size, bool both_versions, const char* path = nullptr, mode_t mode = 0) {
  const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  const int on = 1, only = both_versions ? 0 : 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address->sa_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
  if (bind(fd, address, size) == 0 && (path == nullptr || chmod(path, mode) == 0) && listen(fd, kBacklog) == 0) {
    return fd;
  }
  const int error = errno;
  close(fd);
  return -error;
}

int PortOf(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  // The port stands at the same place in both kinds.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

void SetPort(int port, sockaddr* address) {
  reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(static_cast<uint16_t>(port));
}

bool IsAnyAddress(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr == htonl(INADDR_ANY);
  }
  return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

// Of "0.0.0.0" and "[::]": one socket for both versions, if the machine has IPv6. Otherwise as written.
int ListenOnOne(sockaddr* address, socklen_t size, int port) {
  if (IsAnyAddress(address)) {
    sockaddr_in6 both = {};
    both.sin6_family = AF_INET6;
    both.sin6_port = htons(static_cast<uint16_t>(port));
    const int fd = Listen(reinterpret_cast<const sockaddr*>(&both), sizeof(both), /*both_versions=*/true);
    if (fd >= 0 || (fd != -EAFNOSUPPORT && fd != -EADDRNOTAVAIL)) return fd;
  }
  SetPort(port, address);
  return Listen(address, size, /*both_versions=*/false);
}

}  // namespace

StatusOr<Listening> ListenOnTcp(const std::string& host, int port, const char* flag) {
  const bool bracketed = host.size() > 2 && host.front() == '[';
  const std::string bare = bracketed ? host.substr(1, host.size() - 2) : host;
  const std::string shown = absl::StrCat(host, ":", port);
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(bare.c_str(), nullptr, &hints, &list); error != 0) {
    return CannotListen(flag, shown, gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, FreeAddresses> addresses(list);
  Listening listening;
  listening.port = port;
  int error = 0;
  for (addrinfo* one = list; one != nullptr; one = one->ai_next) {
    const int fd = ListenOnOne(one->ai_addr, one->ai_addrlen, listening.port);
    if (fd < 0) {
      error = -fd;
      continue;
    }
    listening.sockets.push_back(fd);
    listening.port = PortOf(fd);
  }
  // A name may have an address of a version of IP that this machine lacks.
  const bool only_missing = error == EAFNOSUPPORT || error == EADDRNOTAVAIL;
  if (error == 0 || (only_missing && !listening.sockets.empty())) return listening;
  for (const int fd : listening.sockets) close(fd);
  return CannotListen(flag, shown, std::strerror(error));
}

StatusOr<int> ListenOnUnix(const std::string& path, unsigned mode, const char* flag) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return CannotListen(flag, path, absl::StrCat("a path has at most ", sizeof(address.sun_path) - 1, " bytes"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  struct stat about;
  if (lstat(path.c_str(), &about) == 0 && S_ISSOCK(about.st_mode)) unlink(path.c_str());
  const int fd = Listen(reinterpret_cast<const sockaddr*>(&address), sizeof(address), false, path.c_str(), mode);
  if (fd < 0) return CannotListen(flag, path, std::strerror(-fd));
  return fd;
}

}  // namespace vicinal::server
