// SPDX-License-Identifier: Apache-2.0
// State shared by all services. Owned by Server; outlives the services.
#ifndef VICINAL_SERVER_CORE_H_
#define VICINAL_SERVER_CORE_H_

#include "engine/api/engine.h"
#include "engine/base/clock.h"
#include "server/auth.h"
#include "server/config.h"
#include "server/drain.h"
#include "server/edge_certificates.h"
#include "server/json_log.h"
#include "server/log_limiter.h"
#include "server/metrics/metrics.h"
#include "server/open_calls.h"
#include "server/refusals.h"
#include "server/silence_watch.h"
#include "server/workers.h"

namespace vicinal::server {

struct Core {
  const Clock& clock;
  JsonLog& log;
  Metrics& metrics;
  const Auth& auth;
  Drain& drain;
  Workers& workers;
  Workers& tuners;  // for calls that wait for tuning
  const Limits& limits;
  Engine& engine;
  SilenceWatch& silences;  // of client streams
  SilenceWatch& stalls;    // of streams to clients
  OpenCalls& open_calls;
  LogLimiter& unknown_callers;  // their lines in the log
  Refusals& refusals;
  bool client_certificates;  // the API's listener asks for them
  EdgeCertificates* edge;    // null: there is no unix socket, whose metadata would be believed
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_CORE_H_
