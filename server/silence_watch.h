// SPDX-License-Identifier: Apache-2.0
// Ends streams whose client has sent no complete message, or read none, for too long. Otherwise a client that stops in
// the middle of a message would keep its upload's memory and slot, or its reply's memory, for as long as its connection
// lives.
#ifndef VICINAL_SERVER_SILENCE_WATCH_H_
#define VICINAL_SERVER_SILENCE_WATCH_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>

#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"

namespace vicinal::server {

// Thread-safe, except that only one thread may call Sweep.
class SilenceWatch {
 public:
  // `clock` must outlive it.
  SilenceWatch(const Clock& clock, std::chrono::milliseconds longest) : clock_(clock), longest_(longest) {}

  // Registers a stream, which counts as silent until Heard is called. Sweep calls `end` at most once, without holding
  // locks; `end` must return quickly and must not call Forget. Returns the stream's id.
  int64_t Begin(std::function<void()> end);
  void Heard(int64_t id);
  // The stream does not count as silent until Heard is called: it is not the client's turn.
  void Pause(int64_t id);
  // Unregisters a stream, and waits for a running `end`. Unknown ids are ignored.
  void Forget(int64_t id);

  // Ends streams that have been silent for `longest`.
  void Sweep();

 private:
  struct Stream {
    MonotonicTime heard;
    bool paused = false;
    std::function<void()> end;  // empty after it was called
  };

  // Moves the next expired stream to `ending_`; false if there is none.
  bool Next(std::function<void()>* end);

  const Clock& clock_;
  const std::chrono::milliseconds longest_;
  Mutex mutex_;
  CondVar ended_;
  int64_t next_ VICINAL_GUARDED_BY(mutex_) = 1;
  int64_t ending_ VICINAL_GUARDED_BY(mutex_) = 0;  // the stream whose `end` is running
  std::map<int64_t, Stream> streams_ VICINAL_GUARDED_BY(mutex_);
};

// DEADLINE_EXCEEDED (REPLY_NOT_READ): the client of a stream of replies read none for `timeout`. The message begins
// with the reason.
Status SendStalled(std::chrono::milliseconds timeout);

// DEADLINE_EXCEEDED (STREAM_SILENT): no complete request came on a stream of requests for `timeout`.
Status StreamSilent(std::chrono::milliseconds timeout);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_SILENCE_WATCH_H_
