// SPDX-License-Identifier: Apache-2.0
// WatchGraph: sends the graph at once, then after each visible change, until no more can follow. Changes that arrive
// while a message is being sent are merged into the next one, so a slow reader delays nothing else.
#ifndef VICINAL_SERVER_SERVICES_WATCH_REACTOR_H_
#define VICINAL_SERVER_SERVICES_WATCH_REACTOR_H_

#include <grpcpp/server_context.h>

#include <memory>
#include <string>

#include "engine/base/mutex.h"
#include "server/handlers/graph_handler.h"
#include "server/services/reactors.h"

namespace vicinal::server {

class WatchReactor final : public CallReactor<v1::WatchGraphRequest, v1::Graph> {
 public:
  WatchReactor(Core& core, grpc::CallbackServerContext* context, GraphHandler& handler)
      : CallReactor(core, context, Method::kWatchGraph), handler_(handler) {}

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  // Sends the latest state, unless a write is in progress.
  void Pump();
  void Start() override;
  // Ends the call now, or after the current write.
  void Complete(const Status& status) override;

  GraphHandler& handler_;
  std::unique_ptr<Subscription> subscription_;
  int64_t drain_id_ = 0;

  Mutex mutex_;
  bool writing_ VICINAL_GUARDED_BY(mutex_) = false;
  bool changed_ VICINAL_GUARDED_BY(mutex_) = false;  // since `graph_` was read
  bool ended_ VICINAL_GUARDED_BY(mutex_) = false;
  bool ending_ VICINAL_GUARDED_BY(mutex_) = false;  // with `outcome_`, once the write is done
  Status outcome_ VICINAL_GUARDED_BY(mutex_);
  // What is being, or was last, sent, serialised; like response_ touched only by the thread that set `writing_`.
  std::string sent_;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_SERVICES_WATCH_REACTOR_H_
