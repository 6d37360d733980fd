// SPDX-License-Identifier: Apache-2.0
#include "server/silence_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal::server {

int64_t SilenceWatch::Begin(std::function<void()> end) {
  const MonotonicTime now = clock_.Now();
  MutexLock lock(&mutex_);
  streams_[next_] = {now, /*paused=*/false, std::move(end)};
  return next_++;
}

void SilenceWatch::Heard(int64_t id) {
  const MonotonicTime now = clock_.Now();
  MutexLock lock(&mutex_);
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  found->second.heard = now;
  found->second.paused = false;
}

void SilenceWatch::Pause(int64_t id) {
  MutexLock lock(&mutex_);
  const auto found = streams_.find(id);
  if (found != streams_.end()) found->second.paused = true;
}

void SilenceWatch::Forget(int64_t id) {
  MutexLock lock(&mutex_);
  while (ending_ == id && id != 0) ended_.Wait(&mutex_);
  streams_.erase(id);
}

bool SilenceWatch::Next(std::function<void()>* end) {
  const MonotonicTime now = clock_.Now();
  MutexLock lock(&mutex_);
  ending_ = 0;
  ended_.NotifyAll();
  for (auto& [id, stream] : streams_) {
    if (stream.end == nullptr || stream.paused || now - stream.heard < longest_) continue;
    *end = std::exchange(stream.end, nullptr);
    ending_ = id;
    return true;
  }
  return false;
}

void SilenceWatch::Sweep() {
  std::function<void()> end;
  while (Next(&end)) end();
}

Status SendStalled(std::chrono::milliseconds timeout) {
  return DeadlineExceeded(
      "REPLY_NOT_READ",
      absl::StrCat("REPLY_NOT_READ: the stream ended because its client read nothing for ", timeout.count() / 1000,
                   " s (--send_timeout); read faster, or ask for less at a time"));
}

Status StreamSilent(std::chrono::milliseconds timeout) {
  return DeadlineExceeded("STREAM_SILENT",
                          absl::StrCat("no complete request came on the stream for ", timeout.count() / 1000,
                                       " s (--upload_ttl), neither a small one nor a large one that is still "
                                       "arriving; open another stream, and send smaller requests on a slow link"));
}

}  // namespace vicinal::server
