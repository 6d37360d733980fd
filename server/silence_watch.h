// SPDX-License-Identifier: Apache-2.0
// Streams that end when their client has said nothing for too long: one that stops in the middle of a message would
// keep what has come of it, and its place, for as long as its connection lives.
#ifndef VICINAL_SERVER_SILENCE_WATCH_H_
#define VICINAL_SERVER_SILENCE_WATCH_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>

#include "engine/base/clock.h"
#include "engine/base/mutex.h"

namespace vicinal::server {

// Thread-safe; Sweep is one thread's.
class SilenceWatch {
 public:
  // `clock` must outlive it.
  SilenceWatch(const Clock& clock, std::chrono::milliseconds longest) : clock_(clock), longest_(longest) {}

  // A stream begins: from now on it is silent until Heard says otherwise. `end` is called once at most, by Sweep and
  // without locks held; it must be quick and not call Forget. Returns the stream's number.
  int64_t Begin(std::function<void()> end);
  void Heard(int64_t id);
  // Waits for a running `end`. Of a number that is not there: does nothing.
  void Forget(int64_t id);

  // Ends those that have been silent for `longest`.
  void Sweep();

 private:
  struct Stream {
    MonotonicTime heard;
    std::function<void()> end;  // empty once it was called
  };

  // The next one that is to end, which then is `ending_`; false: there is none.
  bool Next(std::function<void()>* end);

  const Clock& clock_;
  const std::chrono::milliseconds longest_;
  Mutex mutex_;
  CondVar ended_;
  int64_t next_ VICINAL_GUARDED_BY(mutex_) = 1;
  int64_t ending_ VICINAL_GUARDED_BY(mutex_) = 0;  // whose `end` runs
  std::map<int64_t, Stream> streams_ VICINAL_GUARDED_BY(mutex_);
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_SILENCE_WATCH_H_
