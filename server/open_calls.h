// SPDX-License-Identifier: Apache-2.0
// Bounds the calls that are open at once, over all connections, and the time that a call may wait for its one message.
// Where all places are taken, the call that has waited longest for its message makes room: a client that sends headers
// and nothing else keeps nobody out. Answered calls that gRPC has not released yet take no place, up to kReleasing: at
// high rates they are many times what clients have in flight. Beyond that they do, so that replies which nobody reads
// are bounded.
#ifndef VICINAL_SERVER_OPEN_CALLS_H_
#define VICINAL_SERVER_OPEN_CALLS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>

#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "server/json_log.h"
#include "server/log_limiter.h"

namespace vicinal::server {

// Thread-safe.
class OpenCalls {
 private:
  struct Waiting;

 public:
  struct Options {
    int64_t most = 10'000;                                                // calls that are open at once
    std::chrono::milliseconds message_timeout = std::chrono::minutes(2);  // until a call's message has arrived
  };
  // A call is not ended to make room until it has waited this long for its message: most come with their headers, so
  // that not even thousands of silent calls a second keep others out.
  static constexpr std::chrono::milliseconds kPatience{50};

  // `clock` and `log` must outlive it.
  OpenCalls(const Options& options, const Clock& clock, JsonLog* log);

  // Answered calls that take no place; one is measured to hold 30 KB until its reply is read.
  static constexpr int64_t kReleasing = 1000;

  // A call begins. OK: it takes a place until Leave. UNAVAILABLE (TOO_MANY_CALLS): there is none.
  Status Enter();
  // Its answer goes to gRPC now: at most once, before Leave.
  void Answered() { open_.fetch_add(kAnswered - kUnanswered); }
  // `answered`: Answered was called.
  void Leave(bool answered = false) { open_.fetch_sub(answered ? kAnswered : kUnanswered); }
  // Answered ones, too.
  int64_t open() const {
    const int64_t both = open_.load();
    return UnansweredIn(both) + AnsweredIn(both);
  }

  // A stream of requests has sent its first one. OK: it takes one of the principal's places for streams, half of all,
  // until LeaveStream: a stream may be silent for long, and nobody's silent streams keep others out.
  // RESOURCE_EXHAUSTED (CLIENT_STREAMS_FULL): all of them are taken.
  Status EnterStream(const std::string& principal);
  void LeaveStream(const std::string& principal);

  // A call waits for its message. `end` is called at most once, with a lock held: it must end the call with that
  // status, return quickly, and call nothing of this object but Leave. It is called at once after EndWaits.
  using End = std::function<void(const Status& why)>;
  using Ticket = std::list<Waiting>::iterator;
  Ticket Await(End end);
  // The wait is over. False: `end` was called. Waits for a running `end`. Exactly once for each Await.
  bool Arrived(Ticket ticket);

  // Ends calls whose message has not arrived in time. DEADLINE_EXCEEDED (MESSAGE_TIMEOUT).
  void Sweep();
  // Ends all waits, and those to come.
  void EndWaits(const Status& why);

 private:
  // Both numbers are one atomic, so that a call that is answered is counted once at each moment.
  static constexpr int64_t kUnanswered = 1, kAnswered = int64_t{1} << 32;
  static constexpr int64_t UnansweredIn(int64_t open) { return open % kAnswered; }
  static constexpr int64_t AnsweredIn(int64_t open) { return open / kAnswered; }

  struct Waiting {
    MonotonicTime since;
    End end;  // empty after it was called
  };
  // Ends the waits that are older than `age`, at most `most` of them; how many.
  int64_t EndOlderThan(std::chrono::milliseconds age, int64_t most, const Status& why) VICINAL_REQUIRES(mutex_);

  const Options options_;
  const Clock& clock_;
  JsonLog& log_;
  LogLimiter full_lines_;
  std::atomic<int64_t> open_{0};  // sums of kUnanswered and kAnswered
  Mutex mutex_;
  std::map<std::string, int64_t> streams_ VICINAL_GUARDED_BY(mutex_);  // of each principal
  std::list<Waiting> waiting_ VICINAL_GUARDED_BY(mutex_);              // oldest first
  std::list<Waiting> ended_ VICINAL_GUARDED_BY(mutex_);                // `end` was called, Arrived was not
  std::optional<Status> closed_ VICINAL_GUARDED_BY(mutex_);
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_OPEN_CALLS_H_
