// SPDX-License-Identifier: Apache-2.0
#include "server/status/listener.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <new>
#include <optional>
#include <utility>

#include "engine/base/error.h"
#include "server/listen.h"

namespace vicinal::server {
namespace {

constexpr std::chrono::milliseconds kPauseWithoutDescriptors{100};

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

StatusOr<std::unique_ptr<StatusListener>> StatusListener::Start(const std::string& host, int port, StatusSite& site) {
  VICINAL_ASSIGN_OR_RETURN(Listening listening, ListenOnTcp(host, port, "status_listen"));
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) {
    for (const int socket : listening.sockets) close(socket);
    return FailedPrecondition("CANNOT_LISTEN", "--status_listen: no file descriptor is left; raise the limit");
  }
  return std::unique_ptr<StatusListener>(new StatusListener(std::move(listening.sockets), listening.port, wake, site));
}

StatusListener::StatusListener(std::vector<int> sockets, int port, int wake, StatusSite& site)
    : sockets_(std::move(sockets)), port_(port), wake_(wake), site_(site), thread_([this] { Run(); }) {}

StatusListener::~StatusListener() {
  const uint64_t one = 1;
  (void)!write(wake_, &one, sizeof(one));
  thread_.join();
  while (!connections_.empty()) Drop(connections_.begin());
  for (const int socket : sockets_) close(socket);
  close(wake_);
}

void StatusListener::Drop(std::list<Connection>::iterator connection) {
  close(connection->fd);
  connections_.erase(connection);
}

int StatusListener::Patience(MonotonicTime now) const {
  std::optional<MonotonicTime> first;
  if (accept_again_ > now) first = accept_again_;
  for (const Connection& connection : connections_) first = std::min(first.value_or(connection.end), connection.end);
  if (!first) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*first - now);
  return static_cast<int>(std::max<int64_t>(0, left.count()));
}

void StatusListener::Run() {
  std::vector<pollfd> waits;
  for (;;) {
    MonotonicTime now = Clock::Real().Now();
    waits.assign(1, {wake_, POLLIN, 0});
    const int16_t accepting = accept_again_ > now ? 0 : POLLIN;
    for (const int socket : sockets_) waits.push_back({socket, accepting, 0});
    for (const Connection& connection : connections_) {
      const bool writes = connection.answered && !connection.closing;
      waits.push_back({connection.fd, static_cast<int16_t>(writes ? POLLOUT : POLLIN), 0});
    }
    if (poll(waits.data(), waits.size(), Patience(now)) < 0 && errno != EINTR) return;
    if (waits[0].revents != 0) return;
    now = Clock::Real().Now();
    size_t at = 1 + sockets_.size();
    for (auto one = connections_.begin(); one != connections_.end(); ++at) {
      const auto connection = one++;
      const bool goes_on = now < connection->end && (waits[at].revents == 0 || Serve(&*connection));
      if (!goes_on) Drop(connection);
    }
    for (size_t i = 0; i < sockets_.size(); ++i) {
      if (waits[1 + i].revents != 0) AcceptAll(sockets_[i]);
    }
  }
}

void StatusListener::AcceptAll(int socket) {
  for (;;) {
    const int fd = accept4(socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
        accept_again_ = Clock::Real().Now() + kPauseWithoutDescriptors;
      return;
    }
    if (connections_.size() >= kMostConnections) {
      const auto silent = std::find_if(connections_.begin(), connections_.end(),
                                       [](const Connection& connection) { return !connection.answered; });
      Drop(silent != connections_.end() ? silent : connections_.begin());
    }
    Connection connection;
    connection.fd = fd;
    connection.end = Clock::Real().Now() + kRequestTime;
    connections_.push_back(std::move(connection));
  }
}

bool StatusListener::Serve(Connection* connection) try {
  if (connection->answered && !connection->closing) return Write(connection);
  return Read(connection);
} catch (const std::bad_alloc&) {
  return false;
}

bool StatusListener::Read(Connection* connection) {
  char buffer[4096];
  const ssize_t got = recv(connection->fd, buffer, sizeof(buffer), 0);
  if (got < 0) return WouldBlock();
  if (got == 0) return false;
  if (connection->closing) return true;  // what comes after the request is of no interest
  connection->in.append(buffer, static_cast<size_t>(got));
  const std::optional<HttpRequest> request = ParseRequest(connection->in);
  if (!request) return true;
  connection->in.clear();
  connection->out = Serialized(site_.Answer(*request), request->method != "HEAD");
  connection->answered = true;
  connection->end = Clock::Real().Now() + kAnswerTime;
  return Write(connection);
}

bool StatusListener::Write(Connection* connection) {
  while (connection->sent < connection->out.size()) {
    const ssize_t put = send(connection->fd, connection->out.data() + connection->sent,
                             connection->out.size() - connection->sent, MSG_NOSIGNAL);
    if (put < 0) return WouldBlock();
    connection->sent += static_cast<size_t>(put);
  }
  // Closing at once would throw away what the client has not read, if it has sent more than its request.
  shutdown(connection->fd, SHUT_WR);
  connection->closing = true;
  return true;
}

}  // namespace vicinal::server
