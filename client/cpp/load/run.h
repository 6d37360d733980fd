// SPDX-License-Identifier: Apache-2.0
// Runs a load: starts calls when the schedule says so and records how they end. Few threads hold many calls: each has a
// completion queue, and its calls are state machines on it; in an open loop it has a second thread that sleeps until
// the next arrival. Calls go out through gRPC's generic stub, as bytes; nothing is retried.
#ifndef VICINAL_CLIENT_CPP_LOAD_RUN_H_
#define VICINAL_CLIENT_CPP_LOAD_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/client.h"
#include "client/cpp/load/record.h"
#include "client/cpp/load/requests.h"
#include "client/cpp/load/schedule.h"

namespace vicinal::client::load {

struct LoadOptions {
  Schedule schedule;
  // True: the schedule's values are calls per second, otherwise calls in flight.
  bool open_loop = false;
  // Open loop: exponential gaps, otherwise equal ones.
  bool poisson = true;
  // Open loop: a call that is due waits while so many are in flight (and its latency with it).
  int64_t max_in_flight = 10'000;
  int threads = 1;
  int connections = 1;
  // Calls go over InferStreams, one for each thread and connection, in place of a call each. REQUIRES: CanStream of all
  // methods of the mix.
  bool streams = false;
  uint64_t seed = 1;
};

struct LoadResult {
  Record record;
  // Of each step: seconds during which its calls started. A step that ended early, by its number of calls, and is the
  // last one also counts the time until its last call ended.
  std::vector<double> step_seconds;
};

// Blocks until the last call has ended, at most its deadline after the last start. `server`: its address, token and
// security. UNAVAILABLE if a connection cannot be made within the server's call_timeout.
absl::StatusOr<LoadResult> RunLoad(const ClientOptions& server, const LoadOptions& options, const Mix& mix);

}  // namespace vicinal::client::load

#endif  // VICINAL_CLIENT_CPP_LOAD_RUN_H_
