// SPDX-License-Identifier: Apache-2.0
#include "server/services/tune_reactor.h"

#include "engine/base/out_of_memory.h"

namespace vicinal::server {

void TuneReactor::Start() {
  // Only sets a flag, and the worker ends the call. Therefore Complete may wait for a running notification.
  drain_id_ = core_.drain.OnDrain([this] { scope_.Cancel(); });
  const Status posted = OrOutOfMemory(
      [this] { return core_.tuners.Post([this] { Complete(OrOutOfMemory([this] { return Tune(); })); }); });
  if (!posted.ok()) Complete(posted);
}

Status TuneReactor::Tune() {
  // The call may have waited long for the worker.
  VICINAL_RETURN_IF_ERROR(scope_.call().limits.Check(core_.clock));
  Status status = handler_.TuneGraph(scope_.call(), request(), &response_);
  if (status.ok()) scope_.About(response_);
  return status;
}

void TuneReactor::Complete(const Status& status) {
  if (drain_id_ != 0) core_.drain.Forget(drain_id_);
  const bool drained = status.code() == StatusCode::kCancelled && core_.drain.draining();
  UnaryReactor::Complete(drained ? Drain::Refusal() : status);
}

}  // namespace vicinal::server
