// SPDX-License-Identifier: Apache-2.0
// Serves the status page over HTTP/1.1, in plain text, on one thread that waits for all connections at once. So nobody
// keeps others waiting: each connection has kRequestTime for its whole request, however its bytes drip, and where there
// are too many the oldest one that has not asked yet makes room.
#ifndef VICINAL_SERVER_STATUS_LISTENER_H_
#define VICINAL_SERVER_STATUS_LISTENER_H_

#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "server/status/site.h"

namespace vicinal::server {

class StatusListener {
 public:
  static constexpr size_t kMostConnections = 64;
  static constexpr std::chrono::milliseconds kRequestTime{2000};  // until all of it has come
  static constexpr std::chrono::milliseconds kAnswerTime{5000};   // until all of it has been sent

  // Listens on HOST:PORT (port 0: any). `site` must outlive it; it is called on the listener's thread.
  // FAILED_PRECONDITION (CANNOT_LISTEN).
  static StatusOr<std::unique_ptr<StatusListener>> Start(const std::string& host, int port, StatusSite& site);
  // Ends connections where they are.
  ~StatusListener();
  StatusListener(const StatusListener&) = delete;
  StatusListener& operator=(const StatusListener&) = delete;

  int port() const { return port_; }

 private:
  // A connection reads its request, writes the answer, and waits for the client to close its side.
  struct Connection {
    int fd = -1;
    MonotonicTime end;
    std::string in, out;
    size_t sent = 0;
    bool answered = false, closing = false;
  };

  StatusListener(std::vector<int> sockets, int port, int wake, StatusSite& site);
  void Run();
  void AcceptAll(int socket);
  // What poll said of it. False: the connection is over.
  bool Serve(Connection* connection);
  bool Read(Connection* connection);
  bool Write(Connection* connection);
  void Drop(std::list<Connection>::iterator connection);
  // Milliseconds until the first connection's time is over; -1: there is none.
  int Patience(MonotonicTime now) const;

  const std::vector<int> sockets_;
  const int port_, wake_;
  StatusSite& site_;
  std::list<Connection> connections_;  // oldest first; of the thread
  MonotonicTime accept_again_{};       // after descriptors were exhausted
  std::thread thread_;                 // last: uses the others
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_STATUS_LISTENER_H_
