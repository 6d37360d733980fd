// SPDX-License-Identifier: Apache-2.0
// Serves pages over HTTP/1.1, in plain text or over TLS, on one thread that waits for all connections at once. So
// nobody keeps others waiting: each connection has kRequestTime for its handshake and its whole request, however its
// bytes drip, and where there are too many the oldest one that has not asked yet makes room.
#ifndef VICINAL_SERVER_HTTP_LISTENER_H_
#define VICINAL_SERVER_HTTP_LISTENER_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "proto/tls/server_session.h"
#include "server/http/request.h"

namespace vicinal::server {

class HttpListener {
 public:
  static constexpr size_t kMostConnections = 64;
  static constexpr std::chrono::milliseconds kRequestTime{2000};  // until all of it has come
  static constexpr std::chrono::milliseconds kAnswerTime{10000};  // until all of it has been sent

  using Answer = std::function<HttpResponse(const HttpRequest&)>;
  // The certificate for a new connection.
  using Tls = std::function<std::shared_ptr<const tls::ServerContext>()>;

  // Listens on HOST:PORT (port 0: any); `flag` is for errors. Both functions are called on the listener's thread, until
  // the destructor returns. `tls` may be empty: plain text. FAILED_PRECONDITION (CANNOT_LISTEN).
  static StatusOr<std::unique_ptr<HttpListener>> Start(const std::string& host, int port, const char* flag,
                                                       Answer answer, Tls tls);
  // Ends connections where they are.
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  int port() const { return port_; }

 private:
  // A connection reads its request, writes the answer, and waits for the client to close its side.
  struct Connection {
    int fd = -1;
    MonotonicTime end;
    std::unique_ptr<tls::ServerSession> session;  // null: plain text
    std::string in;                               // the request so far
    std::string out;                              // bytes to send
    size_t sent = 0;
    bool answered = false, closing = false;
    bool IsSending() const { return sent < out.size(); }
  };

  HttpListener(std::vector<int> sockets, int port, int wake, Answer answer, Tls tls);
  void Run();
  void AcceptAll(int socket);
  void Admit(int fd);
  // What poll said of it. False: the connection is over.
  bool Serve(Connection* connection);
  bool Read(Connection* connection);
  bool Take(Connection* connection, std::string_view bytes);
  void Respond(Connection* connection, const HttpRequest& request);
  bool Write(Connection* connection);
  void Drop(std::list<Connection>::iterator connection);
  // Milliseconds until the first connection's time is over; -1: there is none.
  int Patience(MonotonicTime now) const;

  const std::vector<int> sockets_;
  const int port_, wake_;
  const Answer answer_;
  const Tls tls_;
  std::list<Connection> connections_;  // oldest first; of the thread
  MonotonicTime accept_again_{};       // after descriptors were exhausted
  std::thread thread_;                 // last: uses the others
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_HTTP_LISTENER_H_
