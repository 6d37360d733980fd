// SPDX-License-Identifier: Apache-2.0
// TuneGraph: waits on a separate worker until the kernels are measured. A draining server does not wait for it:
// the call ends at once, and queued measurements are lost with the process.
#ifndef VICINAL_SERVER_SERVICES_TUNE_REACTOR_H_
#define VICINAL_SERVER_SERVICES_TUNE_REACTOR_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>

#include "server/handlers/graph_handler.h"
#include "server/rpc_scope.h"

namespace vicinal::server {

class TuneReactor final : public grpc::ServerUnaryReactor {
 public:
  // `request` and `response` live as long as the call.
  TuneReactor(Core& core, grpc::CallbackServerContext* context, GraphHandler& handler,
              const v1::TuneGraphRequest& request, v1::TuneGraphResponse* response);

  void OnCancel() override { scope_.Cancel(); }
  void OnDone() override { delete this; }

 private:
  Status Tune();
  void Complete(const Status& status);

  Core& core_;
  RpcScope scope_;
  GraphHandler& handler_;
  const v1::TuneGraphRequest& request_;
  v1::TuneGraphResponse* const response_;
  int64_t drain_id_ = 0;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_SERVICES_TUNE_REACTOR_H_
