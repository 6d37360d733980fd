// SPDX-License-Identifier: Apache-2.0
#include "server/open_calls.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/out_of_memory.h"

namespace vicinal::server {
namespace {

constexpr std::chrono::milliseconds kRetryAfter{1000};
constexpr std::chrono::seconds kBetweenLines{10};

Status TooMany(int64_t most) {
  return OrOutOfMemory([&] {
    return Unavailable("TOO_MANY_CALLS",
                       absl::StrCat("this server has ", most, " calls open, its limit (--max_open_calls); try again"),
                       kRetryAfter);
  });
}

Status TooManyStreams(const std::string& principal, int64_t most) {
  return OrOutOfMemory([&] {
    return ResourceExhausted(
        "CLIENT_STREAMS_FULL",
        absl::StrCat("'", principal, "' has ", most, " streams of requests open; one client may have ", most,
                     ", half of --max_open_calls: send more requests on each, or close those "
                     "that are idle"),
        kRetryAfter);
  });
}

// Of a call that made room.
Status MadeRoom() {
  return OrOutOfMemory([] {
    return Unavailable("TOO_MANY_CALLS",
                       "the call's message had not arrived when its place was needed (--max_open_calls); try again",
                       kRetryAfter);
  });
}

Status TooSlow(std::chrono::milliseconds timeout) {
  return OrOutOfMemory([&] {
    return DeadlineExceeded("MESSAGE_TIMEOUT",
                            absl::StrCat("the call's message had not arrived after ", timeout.count() / 1000,
                                         " s (--message_timeout); send less at once on a slow connection"));
  });
}

}  // namespace

OpenCalls::OpenCalls(const Options& options, const Clock& clock, JsonLog* log)
    : options_(options), clock_(clock), log_(*log), full_lines_(clock, kBetweenLines) {}

Status OpenCalls::Enter() {
  const int64_t before = open_.fetch_add(kUnanswered);
  const int64_t taken = UnansweredIn(before) + std::max<int64_t>(AnsweredIn(before) - kReleasing, 0);
  if (taken < options_.most) return OkStatus();
  bool room = false;
  {
    const Status why = MadeRoom();
    MutexLock lock(&mutex_);
    room = EndOlderThan(kPatience, 1, why) > 0;
  }
  if (const std::optional<int64_t> left_out = full_lines_.Admit()) {
    log_.Log(LogLevel::kError, "calls refused: too many are open",
             {{"max_open_calls", absl::StrCat(options_.most)},
              {"left_out", absl::StrCat(*left_out)},
              {"hint", "calls that wait for their message are ended first; see --max_open_calls"}});
  }
  if (room) return OkStatus();
  Leave();
  return TooMany(options_.most);
}

Status OpenCalls::EnterStream(const std::string& principal) {
  const int64_t most = std::max<int64_t>(options_.most / 2, 1);
  {
    MutexLock lock(&mutex_);
    int64_t& open = streams_[principal];
    if (open < most) {
      ++open;
      return OkStatus();
    }
  }
  return TooManyStreams(principal, most);
}

void OpenCalls::LeaveStream(const std::string& principal) {
  MutexLock lock(&mutex_);
  const auto found = streams_.find(principal);
  if (--found->second == 0) streams_.erase(found);
}

OpenCalls::Ticket OpenCalls::Await(End end) {
  MutexLock lock(&mutex_);
  if (closed_) {
    end(*closed_);
    return ended_.insert(ended_.end(), {clock_.Now(), {}});
  }
  return waiting_.insert(waiting_.end(), {clock_.Now(), std::move(end)});
}

bool OpenCalls::Arrived(Ticket ticket) {
  std::list<Waiting> done;  // destroyed without the lock
  MutexLock lock(&mutex_);
  const bool in_time = static_cast<bool>(ticket->end);
  done.splice(done.begin(), in_time ? waiting_ : ended_, ticket);
  return in_time;
}

int64_t OpenCalls::EndOlderThan(std::chrono::milliseconds age, int64_t most, const Status& why) {
  const MonotonicTime now = clock_.Now();
  int64_t count = 0;
  while (count < most && !waiting_.empty() && now - waiting_.front().since >= age) {
    const End end = std::exchange(waiting_.front().end, {});
    ended_.splice(ended_.end(), waiting_, waiting_.begin());
    end(why);
    ++count;
  }
  return count;
}

void OpenCalls::Sweep() {
  const Status why = TooSlow(options_.message_timeout);
  MutexLock lock(&mutex_);
  EndOlderThan(options_.message_timeout, std::numeric_limits<int64_t>::max(), why);
}

void OpenCalls::EndWaits(const Status& why) {
  MutexLock lock(&mutex_);
  closed_ = why;
  EndOlderThan(std::chrono::milliseconds::zero(), std::numeric_limits<int64_t>::max(), why);
}

}  // namespace vicinal::server
