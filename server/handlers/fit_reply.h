// SPDX-License-Identifier: Apache-2.0
// Shortens replies that list many items (kinds of work, steps, layers), because clients reject large messages: gRPC's
// default limit is 4 MiB. The reply counts the items left out. Most bytes are tuning records, each of which has every
// candidate.
#ifndef VICINAL_SERVER_HANDLERS_FIT_REPLY_H_
#define VICINAL_SERVER_HANDLERS_FIT_REPLY_H_

#include <cstdint>

#include "vicinal/v1/graph.pb.h"
#include "vicinal/v1/model.pb.h"
#include "vicinal/v1/server.pb.h"

namespace vicinal::server {

// No function changes a reply of at most `max_bytes`. Tuning records are dropped from the first on: the latest stay.
void FitReply(int64_t max_bytes, v1::TuneGraphResponse* reply);
void FitReply(int64_t max_bytes, v1::GetTuningResponse* reply);
// Drops first the tuning records of the last steps, then decisions, then steps.
void FitReply(int64_t max_bytes, v1::ExplainResponse* reply);
void FitReply(int64_t max_bytes, v1::Model* reply);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_HANDLERS_FIT_REPLY_H_
