// SPDX-License-Identifier: Apache-2.0
// Calls of methods that no service has: UNIMPLEMENTED, as gRPC answers them by itself, but counted.
#ifndef VICINAL_SERVER_SERVICES_UNKNOWN_METHODS_H_
#define VICINAL_SERVER_SERVICES_UNKNOWN_METHODS_H_

#include <grpcpp/generic/async_generic_service.h>

#include "server/refusals.h"

namespace vicinal::server {

class UnknownMethods final : public grpc::CallbackGenericService {
 public:
  // `refusals` must outlive it.
  explicit UnknownMethods(Refusals& refusals) : refusals_(refusals) {}

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override;

 private:
  Refusals& refusals_;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_SERVICES_UNKNOWN_METHODS_H_
