// SPDX-License-Identifier: Apache-2.0
// What grpc.health.v1 answers: the empty name, `liveness`, `readiness` and each service. Live from the start to the
// end, ready while requests are accepted. Free of gRPC.
#ifndef VICINAL_SERVER_HEALTH_STATES_H_
#define VICINAL_SERVER_HEALTH_STATES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/base/mutex.h"

namespace vicinal::server {

// Thread-safe.
class HealthStates {
 public:
  explicit HealthStates(const std::vector<std::string>& services);

  void SetReady(bool ready);
  // Whether it serves; nullopt: there is no such name.
  std::optional<bool> Serves(const std::string& name) const;

  // `on_change` is called after each change, with a lock held: it must return quickly, and may call only Serves.
  // Returns an id for Forget, which waits for a running `on_change`.
  int64_t Watch(std::function<void()> on_change);
  void Forget(int64_t id);

 private:
  std::set<std::string> names_;  // whose state is readiness
  mutable Mutex mutex_;
  bool ready_ VICINAL_GUARDED_BY(mutex_) = false;
  Mutex watchers_mutex_;  // held while they are called
  int64_t next_ VICINAL_GUARDED_BY(watchers_mutex_) = 1;
  std::map<int64_t, std::function<void()>> watchers_ VICINAL_GUARDED_BY(watchers_mutex_);
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_HEALTH_STATES_H_
