// SPDX-License-Identifier: Apache-2.0
// How long runs of requests took, as the estimate for requests of the same kind: the same model, graph, options and
// order of magnitude of nodes. An estimate that is not renewed fades, so that a wrong one cannot refuse all requests
// for ever, although nothing runs that would correct it.
#ifndef VICINAL_ENGINE_EXECUTE_RUN_TIMES_H_
#define VICINAL_ENGINE_EXECUTE_RUN_TIMES_H_

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "engine/base/clock.h"
#include "engine/execute/queued_request.h"

namespace vicinal {

// The kind of a request. Different kinds may, rarely, have the same number.
using RunKind = uint64_t;
RunKind RunKindOf(const QueuedRequest& request);

// Thread-compatible: the caller locks.
class RunTimes {
 public:
  // In seconds; 0: unknown.
  struct Estimate {
    double run = 0.0;    // of the whole run that answers the request
    double share = 0.0;  // of the request's part of it: less where several requests share a run
  };
  Estimate Of(RunKind kind, MonotonicTime now) const;
  // A run that answered a request of that kind, and `requests` in all, took `seconds`.
  void Record(RunKind kind, double seconds, int64_t requests, MonotonicTime now);
  // A run was given up after `seconds`: it would have taken longer.
  void RecordAtLeast(RunKind kind, double seconds, MonotonicTime now);

 private:
  struct Measured {
    Estimate estimate;
    MonotonicTime last{};
  };
  // Clients choose graphs, models and options, so there is a bound; at the bound measuring begins anew.
  static constexpr size_t kMaxKinds = 4096;

  Measured& At(RunKind kind);

  std::unordered_map<RunKind, Measured> kinds_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_RUN_TIMES_H_
