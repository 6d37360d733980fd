// SPDX-License-Identifier: Apache-2.0
#include "server/services/watch_reactor.h"

#include <utility>

#include "engine/base/out_of_memory.h"

namespace vicinal::server {

void WatchReactor::Start() {
  const Status status = OrOutOfMemory([&]() -> Status {
    VICINAL_ASSIGN_OR_RETURN(subscription_, handler_.Watch(scope_.call(), request(), [this] { Pump(); }));
    drain_id_ = core_.drain.OnDrain([this] { Complete(Drain::Refusal()); });
    return OkStatus();
  });
  if (!status.ok()) return Complete(status);
  Pump();
}

void WatchReactor::Pump() {
  {
    MutexLock lock(&mutex_);
    changed_ = true;
    if (writing_ || ended_) return;
    writing_ = true;
  }
  while (true) {
    {
      MutexLock lock(&mutex_);
      changed_ = false;
    }
    std::string bytes;
    StatusOr<GraphHandler::GraphSnapshot> snapshot = OrOutOfMemory([&] {
      StatusOr<GraphHandler::GraphSnapshot> seen = handler_.Look(request().name());
      if (seen.ok()) bytes = seen->graph.SerializeAsString();
      return seen;
    });
    if (snapshot.ok() && bytes != sent_) {
      response_ = std::move(snapshot->graph);
      sent_ = std::move(bytes);
      if (snapshot->last) {
        MutexLock lock(&mutex_);
        if (!ending_) ending_ = true, outcome_ = OkStatus();
      }
      return StartWrite(&response_);
    }
    Status outcome = snapshot.status();
    {
      MutexLock lock(&mutex_);
      if (snapshot.ok() && !snapshot->last && !ending_ && changed_) continue;  // it changed in the meantime
      writing_ = false;
      if (!ending_ && snapshot.ok() && !snapshot->last) return;
      if (ending_) outcome = outcome_;
    }
    return Complete(outcome);
  }
}

void WatchReactor::OnWriteDone(bool ok) {
  bool end = false;
  Status outcome;
  {
    MutexLock lock(&mutex_);
    writing_ = false;
    end = !ok || ending_;
    outcome = ok ? outcome_ : scope_.WhyCancelled();
  }
  if (end) return Complete(outcome);
  Pump();
}

void WatchReactor::Complete(const Status& status) {
  {
    MutexLock lock(&mutex_);
    if (ended_) return;
    if (writing_) {
      ending_ = true;
      outcome_ = status;
      return;
    }
    ended_ = true;
  }
  Finish(scope_.Finish(status));
}

void WatchReactor::OnCancel() {
  scope_.Cancel();
  Complete(scope_.WhyCancelled());
}

void WatchReactor::OnDone() {
  // On a worker: destroying the subscription waits for a running callback, which may be the caller of this function.
  core_.workers.PostAdmitted([this] {
    core_.drain.Forget(drain_id_);
    subscription_.reset();
    delete this;
  });
}

}  // namespace vicinal::server
