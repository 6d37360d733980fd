// SPDX-License-Identifier: Apache-2.0
// The `wait_for` of a finish.
#ifndef VICINAL_SERVER_HANDLERS_WAIT_FOR_H_
#define VICINAL_SERVER_HANDLERS_WAIT_FOR_H_

#include "engine/api/engine.h"
#include "vicinal/v1/durability.pb.h"

namespace vicinal::server {

// INVALID_ARGUMENT: unknown. FAILED_PRECONDITION (NO_STATE_DIRECTORY): this server cannot do it.
StatusOr<WaitFor> FromProto(v1::WaitFor wait_for, const Engine& engine);

// `why` (the deadline, a cancellation, a drain) as the end of a wait: says that the upload goes on.
Status WaitEnded(const Status& why);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_HANDLERS_WAIT_FOR_H_
