// SPDX-License-Identifier: Apache-2.0
// Why a queue does not run a request, as errors for its client and as words for the statistics.
#ifndef VICINAL_ENGINE_EXECUTE_QUEUE_REFUSALS_H_
#define VICINAL_ENGINE_EXECUTE_QUEUE_REFUSALS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace vicinal {

// UNAVAILABLE (DRAINING): the queue is draining or stopping.
Status DrainingRefusal();
// UNAVAILABLE (QUEUE_FULL, CLIENT_QUEUE_FULL).
Status QueueFull(int64_t max_requests);
Status ClientQueueFull(const std::string& principal, int64_t max_requests);
// UNAVAILABLE (SERVER_OVERLOADED): work of `before` seconds comes first, and the deadline before the end of a run of
// `run` seconds.
Status Overloaded(double before, double run);
// DEADLINE_EXCEEDED (DEADLINE_TOO_SHORT): `left` seconds are left for a run of `run` seconds.
Status DeadlineTooShort(double left, double run);

// For StatsSink::RequestDropped: the word for one of these errors, or for those of WorkLimits::Check.
std::string_view DropReason(const Status& status);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_QUEUE_REFUSALS_H_
