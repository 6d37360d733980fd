// SPDX-License-Identifier: Apache-2.0
// Who has too many calls refused. gRPC 1.51 begins the calls of a connection faster than they can be refused, each of
// which takes some 16 KB meanwhile, and keeps answers that are not read: the connection's end frees all of it. Counted
// are calls that anyone can make: without a known token or certificate, of unknown methods, for health beyond its
// places.
#ifndef VICINAL_SERVER_REFUSALS_H_
#define VICINAL_SERVER_REFUSALS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "server/json_log.h"
#include "server/log_limiter.h"

namespace vicinal::server {

// Thread-safe.
class Refusals {
 public:
  // Of one address in one period; beyond, the connections on which they came are ended.
  static constexpr int64_t kMost = 1000;
  static constexpr std::chrono::seconds kPeriod{10};

  // `clock` and `log` must outlive it.
  Refusals(const Clock& clock, JsonLog* log) : clock_(clock), log_(*log), lines_(clock, kBetweenLines) {}

  // Ends connections, by their peers' names. Called with a lock held: it must be quick, and call nothing of this
  // object.
  using HangUp = std::function<void(const std::vector<std::string>& peers)>;
  // Until then, and where `hang_up` is empty, nothing is ended.
  void Ends(HangUp hang_up);

  // A call was refused whose peer has that name (PeerName). Proxies of this machine do not count, at a unix socket or
  // on 127.0.0.1 and [::1]: their connections carry the calls of many clients.
  void Count(const std::string& peer);

 private:
  static constexpr std::chrono::seconds kBetweenLines{10};
  struct Address {
    int64_t refused = 0;
    std::unordered_set<std::string> peers;  // whose calls were refused; not yet ended
  };

  const Clock& clock_;
  JsonLog& log_;
  LogLimiter lines_;
  Mutex mutex_;
  HangUp hang_up_ VICINAL_GUARDED_BY(mutex_);
  MonotonicTime begin_ VICINAL_GUARDED_BY(mutex_){};  // of the period
  std::unordered_map<std::string, Address> addresses_ VICINAL_GUARDED_BY(mutex_);
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_REFUSALS_H_
