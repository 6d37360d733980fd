// SPDX-License-Identifier: Apache-2.0
// Accepts connections and hands them to gRPC, whose own accept loop ends for good when descriptors run out. Bounds
// connections below the limit of open files, and per address; refuses the rest at once, so that clients go elsewhere;
// serves again as soon as some have closed. Free of gRPC.
//
// gRPC does not tell when a connection closes. Therefore each has a second descriptor, which only waits for the hang-up
// that gRPC's shutdown of the socket causes: two descriptors per connection.
#ifndef VICINAL_SERVER_ACCEPTOR_H_
#define VICINAL_SERVER_ACCEPTOR_H_

#include <sys/socket.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "server/connection_counts.h"
#include "server/json_log.h"

namespace vicinal::server {

class Acceptor {
 public:
  struct Listener {
    int socket = -1;  // listening, not blocking; closed by the acceptor
    // Takes over a connected socket. Called on the acceptor's thread.
    std::function<void(int fd)> take;
    // Of a unix socket: the users (SO_PEERCRED) who may connect; they are not counted per address.
    bool is_unix = false;
    std::vector<uid_t> users = {};
  };
  struct Options {
    int64_t max_connections = 1024;
    int64_t max_per_address = 0;  // 0: no bound
    // A connection beyond a bound is not refused, but takes the place of the oldest one (of its address, at that
    // bound), which is ended, if that is at least 50 ms old. For listeners whose clients stay for a moment only.
    bool replaces = false;
  };

  // `log` must outlive it. `on_full(true)` is called when a connection was refused for want of room, `on_full(false)`
  // when there is room again; on the acceptor's thread.
  Acceptor(std::vector<Listener> listeners, const Options& options, JsonLog* log, std::function<void(bool)> on_full);
  // Stops.
  ~Acceptor();

  // No connection is accepted before Start and after Stop. Those that were handed over continue.
  void Start();
  void Stop();

  ConnectionCounts Counts() const;

  // Ends connections by the names of their peers, "HOST:PORT" or "[HOST]:PORT" as PeerName has them, soon. Others, and
  // names of none, are left alone. Thread-safe.
  void HangUp(const std::vector<std::string>& peers);

 private:
  struct Watched {
    std::string from;  // the address as a key; empty: not counted
    std::string peer;  // the name; empty: a unix socket's
    MonotonicTime since{};
    bool counted = true;  // not ended yet for another one
  };
  void Run();
  void HangUpAsAsked();
  void AcceptFrom(const Listener& listener);
  void Admit(const Listener& listener, int fd, const sockaddr_storage& address);
  bool Watch(int fd, const Watched& connection);
  // Whether there is room for one more of that address (empty: not counted), where need be by ending another one.
  bool MakeRoom(const std::string& from);
  // False: none is old enough. `from` empty: of any address.
  bool EndOldest(const std::string& from);
  bool IsCrowded(const std::string& from) const;
  void Uncount(Watched* connection);
  void Closed(int watcher);
  // accept failed for want of a descriptor: uses the reserve to refuse one connection. False if that failed, too.
  bool RefuseOne(const Listener& listener);
  void Refuse(int fd, std::atomic<int64_t>* count);
  void NoteFull();
  void NoteRoom();

  const std::vector<Listener> listeners_;
  const Options options_;
  JsonLog& log_;
  const std::function<void(bool)> on_full_;
  int epoll_ = -1, wake_ = -1, reserve_ = -1;
  bool full_ = false;
  MonotonicTime refused_at_{};
  std::map<std::string, int64_t> per_address_;
  std::unordered_map<int, Watched> watched_;      // by watching descriptor
  std::unordered_map<std::string, int> by_peer_;  // watching descriptors
  Mutex mutex_;
  std::vector<std::string> asked_ VICINAL_GUARDED_BY(mutex_);  // to be ended
  std::atomic<int64_t> open_{0}, refused_full_{0}, refused_address_{0}, refused_peer_{0}, hung_up_{0};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

// How many connections fit if the process may open `files` descriptors: two for each, and some for all else.
int64_t ConnectionsFor(int64_t files);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_ACCEPTOR_H_
