// SPDX-License-Identifier: Apache-2.0
#include "server/services/unknown_methods.h"

#include "server/call_log.h"

namespace vicinal::server {
namespace {

class UnknownMethodReactor final : public grpc::ServerGenericBidiReactor {
 public:
  UnknownMethodReactor() { Finish(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "")); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerGenericBidiReactor* UnknownMethods::CreateReactor(grpc::GenericCallbackServerContext* context) {
  refusals_.Count(PeerName(context->peer()));
  return new UnknownMethodReactor();
}

}  // namespace vicinal::server
