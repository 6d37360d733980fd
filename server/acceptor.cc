// SPDX-License-Identifier: Apache-2.0
#include "server/acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"

namespace vicinal::server {
namespace {

// For the engine, gRPC, metrics, files of the state directory, and libraries.
constexpr int64_t kOtherFiles = 256;
// While no descriptor is free, this long passes until the next try.
constexpr std::chrono::milliseconds kRetry{100};
// How long readiness stays off after the last refusal, so that it does not flicker.
constexpr std::chrono::seconds kCalm{1};
// A connection that is ended for another has had this long to send what it was made for.
constexpr std::chrono::milliseconds kLeastAge{50};
// From one listener in a row; others have their turn then.
constexpr int kAtOnce = 64;

int NewReserve() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

// No more descriptors or memory for one.
bool IsStarved(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS; }

// The address without the port, as a key; an IPv4 address is the same over IPv6.
std::string KeyOf(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address).sin_addr;
    return std::string(reinterpret_cast<const char*>(&four), sizeof(four));
  }
  if (address.ss_family == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    const auto* bytes = reinterpret_cast<const char*>(&six);
    return IN6_IS_ADDR_V4MAPPED(&six) ? std::string(bytes + 12, 4) : std::string(bytes, sizeof(six));
  }
  return {};
}

// The name of a peer as gRPC gives it, but for how that writes brackets.
std::string NameOf(const sockaddr_storage& address) {
  char host[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &four.sin_addr, host, sizeof(host));
    return absl::StrCat(host, ":", ntohs(four.sin_port));
  }
  if (address.ss_family != AF_INET6) return {};
  const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
  if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
    inet_ntop(AF_INET, six.sin6_addr.s6_addr + 12, host, sizeof(host));
    return absl::StrCat(host, ":", ntohs(six.sin6_port));
  }
  inet_ntop(AF_INET6, &six.sin6_addr, host, sizeof(host));
  return absl::StrCat("[", host, "]:", ntohs(six.sin6_port));
}

bool IsUser(int fd, const std::vector<uid_t>& users) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return std::find(users.begin(), users.end(), peer.uid) != users.end();
}

bool WatchFor(int epoll, int fd, uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.fd = fd;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

int64_t ConnectionsFor(int64_t files) { return std::max<int64_t>((files - kOtherFiles) / 2, 8); }

Acceptor::Acceptor(std::vector<Listener> listeners, const Options& options, JsonLog* log,
                   std::function<void(bool)> on_full)
    : listeners_(std::move(listeners)),
      options_(options),
      log_(*log),
      on_full_(std::move(on_full)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      reserve_(NewReserve()) {
  WatchFor(epoll_, wake_, EPOLLIN);
  for (const Listener& listener : listeners_) WatchFor(epoll_, listener.socket, EPOLLIN);
}

Acceptor::~Acceptor() {
  Stop();
  for (const auto& [watcher, from] : watched_) close(watcher);
  for (const int fd : {epoll_, wake_, reserve_}) {
    if (fd >= 0) close(fd);
  }
}

void Acceptor::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Acceptor::Stop() {
  if (stopping_.exchange(true)) return;
  const uint64_t one = 1;
  (void)!write(wake_, &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
  for (const Listener& listener : listeners_) close(listener.socket);
}

ConnectionCounts Acceptor::Counts() const {
  return {open_.load(),         options_.max_connections, refused_full_.load(), refused_address_.load(),
          refused_peer_.load(), hung_up_.load()};
}

void Acceptor::HangUp(const std::vector<std::string>& peers) {
  {
    MutexLock lock(&mutex_);
    asked_.insert(asked_.end(), peers.begin(), peers.end());
  }
  const uint64_t one = 1;
  (void)!write(wake_, &one, sizeof(one));
}

// On the acceptor's thread, so that no descriptor is one of a connection that has closed meanwhile.
void Acceptor::HangUpAsAsked() {
  uint64_t count = 0;
  (void)!read(wake_, &count, sizeof(count));
  std::vector<std::string> peers;
  {
    MutexLock lock(&mutex_);
    peers.swap(asked_);
  }
  for (const std::string& peer : peers) {
    const auto found = by_peer_.find(peer);
    // gRPC finds its own descriptor of the connection at an end, and closes it.
    if (found != by_peer_.end() && shutdown(found->second, SHUT_RDWR) == 0) hung_up_.fetch_add(1);
  }
}

void Acceptor::Run() {
  while (!stopping_.load()) {
    epoll_event events[64];
    const int count = epoll_wait(epoll_, events, 64, full_ ? static_cast<int>(kRetry.count()) : -1);
    // Closed connections first: they make room.
    for (int i = 0; i < count; ++i) {
      if (watched_.contains(events[i].data.fd)) Closed(events[i].data.fd);
      if (events[i].data.fd == wake_) HangUpAsAsked();
    }
    for (int i = 0; i < count; ++i) {
      for (const Listener& listener : listeners_) {
        if (listener.socket == events[i].data.fd) AcceptFrom(listener);
      }
    }
    if (full_) NoteRoom();
  }
}

void Acceptor::AcceptFrom(const Listener& listener) {
  for (int i = 0; i < kAtOnce; ++i) {
    sockaddr_storage address = {};
    socklen_t size = sizeof(address);
    const int fd = accept4(listener.socket, reinterpret_cast<sockaddr*>(&address), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      Admit(listener, fd, address);
      continue;
    }
    const int error = errno;
    if (error == EAGAIN || error == EWOULDBLOCK) return;
    if (!IsStarved(error)) continue;  // that connection failed (ECONNABORTED, EINTR, a network error)
    if (RefuseOne(listener)) continue;
    // Not even the reserve is there: no busy loop.
    pollfd nothing = {wake_, POLLIN, 0};
    poll(&nothing, 1, static_cast<int>(kRetry.count()));
    return;
  }
}

bool Acceptor::RefuseOne(const Listener& listener) {
  if (reserve_ >= 0) close(reserve_);
  const int fd = accept4(listener.socket, nullptr, nullptr, SOCK_CLOEXEC);
  const int error = fd < 0 ? errno : 0;
  if (fd >= 0) Refuse(fd, &refused_full_);
  NoteFull();
  reserve_ = NewReserve();
  return !IsStarved(error);
}

void Acceptor::Admit(const Listener& listener, int fd, const sockaddr_storage& address) {
  if (listener.is_unix && !IsUser(fd, listener.users)) return Refuse(fd, &refused_peer_);
  const std::string from = listener.is_unix ? std::string() : KeyOf(address);
  if (options_.replaces) {
    if (!MakeRoom(from)) return Refuse(fd, &refused_full_);
  } else if (open_.load() >= options_.max_connections) {
    Refuse(fd, &refused_full_);
    return NoteFull();
  } else if (IsCrowded(from)) {
    return Refuse(fd, &refused_address_);
  }
  // gRPC leaks a descriptor whose peer it cannot name.
  sockaddr_storage peer;
  socklen_t size = sizeof(peer);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) {
    close(fd);
    return;
  }
  if (!Watch(fd, {from, listener.is_unix ? std::string() : NameOf(address), std::chrono::steady_clock::now()})) {
    Refuse(fd, &refused_full_);
    return NoteFull();
  }
  const int on = 1;
  if (!listener.is_unix) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  listener.take(fd);
}

bool Acceptor::Watch(int fd, const Watched& connection) {
  const int watcher = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (watcher < 0) return false;
  // Hang-ups are always reported; once is enough.
  if (!WatchFor(epoll_, watcher, EPOLLET)) {
    close(watcher);
    return false;
  }
  watched_.emplace(watcher, connection);
  if (!connection.from.empty()) ++per_address_[connection.from];
  if (!connection.peer.empty()) by_peer_[connection.peer] = watcher;
  open_.fetch_add(1);
  return true;
}

bool Acceptor::IsCrowded(const std::string& from) const {
  if (from.empty() || options_.max_per_address <= 0) return false;
  const auto found = per_address_.find(from);
  return found != per_address_.end() && found->second >= options_.max_per_address;
}

bool Acceptor::MakeRoom(const std::string& from) {
  if (IsCrowded(from)) return EndOldest(from);
  return open_.load() < options_.max_connections || EndOldest({});
}

bool Acceptor::EndOldest(const std::string& from) {
  auto oldest = watched_.end();
  for (auto one = watched_.begin(); one != watched_.end(); ++one) {
    const Watched& connection = one->second;
    if (!connection.counted || (!from.empty() && connection.from != from)) continue;
    if (oldest == watched_.end() || connection.since < oldest->second.since) oldest = one;
  }
  if (oldest == watched_.end() || std::chrono::steady_clock::now() - oldest->second.since < kLeastAge) return false;
  // gRPC finds it at an end, and closes its own descriptor.
  shutdown(oldest->first, SHUT_RDWR);
  Uncount(&oldest->second);
  return true;
}

void Acceptor::Uncount(Watched* connection) {
  if (!std::exchange(connection->counted, false)) return;
  open_.fetch_sub(1);
  if (connection->from.empty()) return;
  const auto count = per_address_.find(connection->from);
  if (--count->second == 0) per_address_.erase(count);
}

void Acceptor::Closed(int watcher) {
  const auto found = watched_.find(watcher);
  Watched& connection = found->second;
  Uncount(&connection);
  // The same peer may have connected again before the end of this connection was seen.
  const auto named = by_peer_.find(connection.peer);
  if (named != by_peer_.end() && named->second == watcher) by_peer_.erase(named);
  watched_.erase(found);
  close(watcher);
}

void Acceptor::Refuse(int fd, std::atomic<int64_t>* count) {
  count->fetch_add(1);
  close(fd);
}

void Acceptor::NoteFull() {
  refused_at_ = std::chrono::steady_clock::now();
  if (std::exchange(full_, true)) return;
  log_.Log(LogLevel::kError, "connections refused: no room",
           {{"open", absl::StrCat(open_.load())},
            {"max_connections", absl::StrCat(options_.max_connections)},
            {"hint",
             "clients that connect now are sent away, and readiness is off, until connections close; see "
             "--max_connections, --max_connections_per_address and the limit of open files"}});
  on_full_(true);
}

void Acceptor::NoteRoom() {
  if (reserve_ < 0) reserve_ = NewReserve();
  if (reserve_ < 0 || open_.load() >= options_.max_connections) return;
  if (std::chrono::steady_clock::now() - refused_at_ < kCalm) return;
  full_ = false;
  log_.Log(LogLevel::kInfo, "connections accepted again", {{"open", absl::StrCat(open_.load())}});
  on_full_(false);
}

}  // namespace vicinal::server
