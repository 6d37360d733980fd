// SPDX-License-Identifier: Apache-2.0
// How long runs of requests took, as the estimate for requests of the same kind: the same model, graph, options and
// order of magnitude of nodes. An estimate that is not renewed fades, so that a wrong one cannot refuse all requests
// for ever, although nothing runs that would correct it.
#ifndef VICINAL_ENGINE_EXECUTE_RUN_TIMES_H_
#define VICINAL_ENGINE_EXECUTE_RUN_TIMES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
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
  // How long a run for one request alone takes, in seconds. It counts half when it is 5 s old. 0: unknown.
  double Alone(RunKind kind, MonotonicTime now) const;
  // How much longer than that a run seldom takes, in seconds: twice the mean distance from the estimate. 0: unknown.
  double Late(RunKind kind) const;
  // How much longer a run takes with one more such request, in seconds, whatever its age: of shared runs the request's
  // part. 0: unknown.
  double Share(RunKind kind) const;
  // Alone, whatever its age: for what is paid, where an old estimate refuses nothing. 0: unknown.
  double Leading(RunKind kind) const;
  // What a request adds to a run that another one leads, in seconds; Share where that was never measured.
  double Joining(RunKind kind) const;

  // A run for one request of that kind took `seconds`.
  void RecordAlone(RunKind kind, double seconds, MonotonicTime now);
  // A request of that kind had a part of `seconds` in a run for several.
  void RecordShare(RunKind kind, double seconds);
  // A request of that kind added `seconds` to a run that another one led.
  void RecordJoining(RunKind kind, double seconds);
  // A run for one request was given up after `seconds`: it would have taken longer. One among runs that ended may have
  // been disturbed, and counts like a run that took so long; the next one in a row, or where none has ended yet, is a
  // lower bound.
  void RecordAtLeast(RunKind kind, double seconds, MonotonicTime now);

 private:
  // In seconds; 0: unknown.
  struct Measured {
    double alone = 0.0;
    double share = 0.0;
    std::optional<double> joining;
    double distance = 0.0;  // of runs for one request from `alone`
    bool ended = false;     // a run for one request has
    bool given_up = false;  // the last one was
    MonotonicTime last_alone{};
  };
  // Clients choose graphs, models and options, so there is a bound; at the bound measuring begins anew.
  static constexpr size_t kMaxKinds = 4096;

  Measured& At(RunKind kind);
  static void BlendAlone(double seconds, MonotonicTime now, Measured* measured);

  std::unordered_map<RunKind, Measured> kinds_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_RUN_TIMES_H_
