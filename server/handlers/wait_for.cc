// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/wait_for.h"

#include "engine/base/error.h"

namespace vicinal::server {

StatusOr<WaitFor> FromProto(v1::WaitFor wait_for, const Engine& engine) {
  switch (wait_for) {
    case v1::WAIT_FOR_UNSPECIFIED:
    case v1::WAIT_FOR_ACCEPTED:
      return WaitFor::kAccepted;
    case v1::WAIT_FOR_READY:
      return WaitFor::kReady;
    case v1::WAIT_FOR_DURABLE:
      if (!engine.durable()) return engine.HasReached({}, WaitFor::kDurable).status();
      return WaitFor::kDurable;
    default:
      return InvalidArgument("BAD_UPLOAD", "finish.wait_for", "it must be ACCEPTED, READY or DURABLE");
  }
}

Status WaitEnded(const Status& why) {
  return Annotate(why, "the upload is complete and goes on; repeat finish with its upload_id to wait again");
}

}  // namespace vicinal::server
