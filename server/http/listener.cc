// SPDX-License-Identifier: Apache-2.0
#include "server/http/listener.h"

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

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "server/listen.h"

namespace vicinal::server {
namespace {

constexpr std::chrono::milliseconds kPauseWithoutDescriptors{100};
// From one listener in a row; those that are connected have their turn then.
constexpr int kAtOnce = 64;

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

StatusOr<std::unique_ptr<HttpListener>> HttpListener::Start(const std::string& host, int port, const char* flag,
                                                            Answer answer, Tls tls) {
  VICINAL_ASSIGN_OR_RETURN(Listening listening, ListenOnTcp(host, port, flag));
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) {
    for (const int socket : listening.sockets) close(socket);
    return FailedPrecondition("CANNOT_LISTEN",
                              absl::StrCat("--", flag, ": no file descriptor is left; raise the limit"));
  }
  return std::unique_ptr<HttpListener>(
      new HttpListener(std::move(listening.sockets), listening.port, wake, std::move(answer), std::move(tls)));
}

HttpListener::HttpListener(std::vector<int> sockets, int port, int wake, Answer answer, Tls tls)
    : sockets_(std::move(sockets)),
      port_(port),
      wake_(wake),
      answer_(std::move(answer)),
      tls_(std::move(tls)),
      thread_([this] { Run(); }) {}

HttpListener::~HttpListener() {
  const uint64_t one = 1;
  (void)!write(wake_, &one, sizeof(one));
  thread_.join();
  while (!connections_.empty()) Drop(connections_.begin());
  for (const int socket : sockets_) close(socket);
  close(wake_);
}

void HttpListener::Drop(std::list<Connection>::iterator connection) {
  close(connection->fd);
  connections_.erase(connection);
}

int HttpListener::Patience(MonotonicTime now) const {
  std::optional<MonotonicTime> first;
  if (accept_again_ > now) first = accept_again_;
  for (const Connection& connection : connections_) first = std::min(first.value_or(connection.end), connection.end);
  if (!first) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*first - now);
  return static_cast<int>(std::max<int64_t>(0, left.count()));
}

void HttpListener::Run() {
  std::vector<pollfd> waits;
  for (;;) {
    MonotonicTime now = Clock::Real().Now();
    waits.assign(1, {wake_, POLLIN, 0});
    const int16_t accepting = accept_again_ > now ? 0 : POLLIN;
    for (const int socket : sockets_) waits.push_back({socket, accepting, 0});
    for (const Connection& connection : connections_) {
      waits.push_back({connection.fd, static_cast<int16_t>(connection.IsSending() ? POLLOUT : POLLIN), 0});
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

void HttpListener::AcceptAll(int socket) {
  for (int i = 0; i < kAtOnce; ++i) {
    const int fd = accept4(socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
        accept_again_ = Clock::Real().Now() + kPauseWithoutDescriptors;
      return;
    }
    try {
      Admit(fd);
    } catch (const std::bad_alloc&) {
      close(fd);
    }
  }
}

void HttpListener::Admit(int fd) {
  if (connections_.size() >= kMostConnections) {
    const auto silent = std::find_if(connections_.begin(), connections_.end(),
                                     [](const Connection& connection) { return !connection.answered; });
    Drop(silent != connections_.end() ? silent : connections_.begin());
  }
  Connection connection;
  connection.end = Clock::Real().Now() + kRequestTime;
  if (tls_) connection.session = std::make_unique<tls::ServerSession>(tls_());
  connections_.push_back(std::move(connection));
  connections_.back().fd = fd;
}

bool HttpListener::Serve(Connection* connection) try {
  return connection->IsSending() ? Write(connection) : Read(connection);
} catch (const std::bad_alloc&) {
  return false;
}

bool HttpListener::Read(Connection* connection) {
  char buffer[4096];
  const ssize_t got = recv(connection->fd, buffer, sizeof(buffer), 0);
  if (got < 0) return WouldBlock();
  if (got == 0) return false;
  if (connection->closing) return true;  // what comes after the request is of no interest
  const bool goes_on = Take(connection, {buffer, static_cast<size_t>(got)});
  // Why a handshake failed is said, too, if it can be said at once.
  return Write(connection) && goes_on;
}

bool HttpListener::Take(Connection* connection, std::string_view bytes) {
  bool goes_on = true;
  if (connection->session == nullptr) {
    connection->in.append(bytes);
  } else {
    goes_on = connection->session->Decrypt(bytes, &connection->in);
    connection->out += connection->session->TakeOutput();
  }
  if (connection->in.empty()) return goes_on;
  const std::optional<HttpRequest> request = ParseRequest(connection->in);
  if (request) Respond(connection, *request);
  return goes_on;
}

void HttpListener::Respond(Connection* connection, const HttpRequest& request) {
  connection->in.clear();
  const std::string text = Serialized(answer_(request), request.method != "HEAD");
  if (connection->session == nullptr) {
    connection->out += text;
  } else {
    connection->session->EncryptLast(text);
    connection->out += connection->session->TakeOutput();
  }
  connection->answered = true;
  connection->end = Clock::Real().Now() + kAnswerTime;
}

bool HttpListener::Write(Connection* connection) {
  while (connection->IsSending()) {
    const ssize_t put = send(connection->fd, connection->out.data() + connection->sent,
                             connection->out.size() - connection->sent, MSG_NOSIGNAL);
    if (put < 0) return WouldBlock();
    connection->sent += static_cast<size_t>(put);
  }
  connection->out.clear();
  connection->sent = 0;
  if (!connection->answered) return true;
  // Closing at once would throw away what the client has not read, if it has sent more than its request.
  shutdown(connection->fd, SHUT_WR);
  connection->closing = true;
  return true;
}

}  // namespace vicinal::server
