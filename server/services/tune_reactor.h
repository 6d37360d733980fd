// SPDX-License-Identifier: Apache-2.0
// TuneGraph: waits on a separate worker until the kernels are measured. A draining server does not wait for it:
// the call ends at once, and queued measurements are lost with the process.
#ifndef VICINAL_SERVER_SERVICES_TUNE_REACTOR_H_
#define VICINAL_SERVER_SERVICES_TUNE_REACTOR_H_

#include <grpcpp/server_context.h>

#include <cstdint>

#include "server/handlers/graph_handler.h"
#include "server/services/reactors.h"

namespace vicinal::server {

class TuneReactor final : public UnaryReactor<v1::TuneGraphRequest, v1::TuneGraphResponse> {
 public:
  TuneReactor(Core& core, grpc::CallbackServerContext* context, GraphHandler& handler)
      : UnaryReactor(core, context, Method::kTuneGraph), handler_(handler) {}

 private:
  void Start() override;
  Status Tune();
  void Complete(const Status& status) override;

  GraphHandler& handler_;
  int64_t drain_id_ = 0;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_SERVICES_TUNE_REACTOR_H_
