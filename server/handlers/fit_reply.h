// SPDX-License-Identifier: Apache-2.0
// Replies that tell of many things (kinds of work, steps, layers) leave some out rather than be larger than clients
// take: gRPC's libraries refuse messages of more than 4 MiB unless they are told otherwise. What went is counted in the
// reply. Tuning records are what makes them large: each has every candidate that was considered.
#ifndef VICINAL_SERVER_HANDLERS_FIT_REPLY_H_
#define VICINAL_SERVER_HANDLERS_FIT_REPLY_H_

#include <cstdint>

#include "vicinal/v1/graph.pb.h"
#include "vicinal/v1/model.pb.h"
#include "vicinal/v1/server.pb.h"

namespace vicinal::server {

// Each does nothing to a reply of at most `max_bytes`. Kept are the kinds of work that came to be known last.
void FitReply(int64_t max_bytes, v1::TuneGraphResponse* reply);
void FitReply(int64_t max_bytes, v1::GetTuningResponse* reply);
// The tuning of the last steps goes before any step does.
void FitReply(int64_t max_bytes, v1::ExplainResponse* reply);
void FitReply(int64_t max_bytes, v1::Model* reply);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_HANDLERS_FIT_REPLY_H_
