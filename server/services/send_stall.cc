// SPDX-License-Identifier: Apache-2.0
#include "server/services/send_stall.h"

#include <grpc/grpc.h>

#include <string>

#include "engine/base/out_of_memory.h"

namespace vicinal::server {

SendStall::~SendStall() {
  if (id_ != 0) core_.stalls.Forget(id_);
  if (call_ != nullptr) grpc_call_unref(call_);
}

void SendStall::Begin() {
  call_ = context_->c_call();
  grpc_call_ref(call_);
  id_ = core_.stalls.Begin([this] { End(); });
  Sent();
}

Status SendStall::Why() const {
  return OrOutOfMemory([this] { return SendStalled(core_.limits.send_timeout); });
}

void SendStall::End() {
  ended_ = true;
  // gRPC sends code and text of this status, but no details: so the text begins with the reason.
  std::string text;
  const Status made = OrOutOfMemory([&] {
    text = std::string(SendStalled(core_.limits.send_timeout).message());
    return OkStatus();
  });
  grpc_call_cancel_with_status(call_, GRPC_STATUS_DEADLINE_EXCEEDED, made.ok() ? text.c_str() : "REPLY_NOT_READ",
                               nullptr);
}

}  // namespace vicinal::server
