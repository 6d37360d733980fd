// SPDX-License-Identifier: Apache-2.0
// What is kept of the calls of a load: histograms by step and method, errors by code and reason. Each thread has its
// own Record; they are merged at the end. Times are in nanoseconds. Not thread-safe.
#ifndef VICINAL_CLIENT_CPP_LOAD_RECORD_H_
#define VICINAL_CLIENT_CPP_LOAD_RECORD_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cpp/load/histogram.h"
#include "client/cpp/load/requests.h"

namespace vicinal::client::load {

// Calls of one kind that started in one step.
struct Tally {
  // Successful calls: from the intended start to the end of the call. A call that waited to be sent because others were
  // late has waited from its intended start on, which corrects coordinated omission.
  Histogram latency;
  // Successful calls, from the moment they were sent.
  Histogram service;
  // Timing.total_seconds of the replies, where there is one.
  Histogram server;
  // Failed calls, from the intended start.
  Histogram failed;
  int64_t reply_bytes = 0;

  void Merge(const Tally& other);
};

struct CallOutcome {
  Method method = Method::kClassify;
  int step = 0;
  int64_t intended = 0;
  int64_t sent = 0;
  int64_t ended = 0;
  int64_t deadline = 0;
  int64_t server = -1;  // nanoseconds on the server; below 0: not told
  int64_t reply_bytes = 0;
  std::string error;  // "CODE" or "CODE REASON"; empty: success
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string message;

  void Fail(absl::StatusCode with, const std::string& reason, std::string text);
};

class Record {
 public:
  // Ignores calls of the warm-up (step below 0).
  void Add(const CallOutcome& outcome);
  // A successful call ended at a time that lies in `step`, whenever it began.
  void AddEnd(int step);
  void Merge(const Record& other);

  struct Step {
    std::map<Method, Tally> methods;
    // Between intended and actual start, of all calls: how far behind the load generator was.
    Histogram late;
    // Successful calls that ended during the step.
    int64_t ended = 0;
    // End of the last call that started in the step, in nanoseconds since the start of the load.
    int64_t last_end = 0;

    Tally Total() const;
  };
  struct Error {
    int64_t count = 0;
    absl::StatusCode code = absl::StatusCode::kOk;
    std::string message;  // of the first one
  };
  // Steps up to the last one with a call.
  const std::vector<Step>& steps() const { return steps_; }
  const std::map<std::string, Error>& errors() const { return errors_; }

 private:
  Step& StepAt(int step);

  std::vector<Step> steps_;
  std::map<std::string, Error> errors_;
};

}  // namespace vicinal::client::load

#endif  // VICINAL_CLIENT_CPP_LOAD_RECORD_H_
