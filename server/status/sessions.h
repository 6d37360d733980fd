// SPDX-License-Identifier: Apache-2.0
// Who is signed in to the status page. A session remembers the authorization that was given, so that each request is
// checked as a call is: a token that is taken away ends its sessions. In memory only. Thread-safe.
#ifndef VICINAL_SERVER_STATUS_SESSIONS_H_
#define VICINAL_SERVER_STATUS_SESSIONS_H_

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "proto/tls/digest.h"

namespace vicinal::server {

class Sessions {
 public:
  static constexpr std::chrono::hours kLife{8};
  static constexpr size_t kMost = 64;  // the oldest ends when one more begins
  // Wrong tokens within a minute, over all clients; further sign-ins must wait.
  static constexpr int kWrongPerMinute = 10;

  explicit Sessions(const Clock& clock) : clock_(clock) {}

  // The id of a new session: 64 hexadecimal digits, unpredictable.
  std::string Begin(const std::string& authorization);
  // The authorization of a session, or nothing if there is none of that id.
  std::optional<std::string> Find(std::string_view id);
  void End(std::string_view id);

  // Whether one more sign-in may be tried now; counts it as wrong until Forgive.
  bool MayTry();
  void Forgive();

 private:
  struct Session {
    std::string authorization;
    MonotonicTime end{};
  };

  const Clock& clock_;
  Mutex mutex_;
  std::map<tls::Digest, Session> sessions_ VICINAL_GUARDED_BY(mutex_);  // by the digest of the id
  int wrong_ VICINAL_GUARDED_BY(mutex_) = 0;
  MonotonicTime minute_ VICINAL_GUARDED_BY(mutex_){};  // when `wrong_` was last 0
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_STATUS_SESSIONS_H_
