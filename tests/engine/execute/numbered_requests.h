// SPDX-License-Identifier: Apache-2.0
// Requests that tests of the queue and the executor tell apart by a number, and a runner that does what the test says.
#ifndef VICINAL_TESTS_ENGINE_EXECUTE_NUMBERED_REQUESTS_H_
#define VICINAL_TESTS_ENGINE_EXECUTE_NUMBERED_REQUESTS_H_

#include <functional>
#include <map>
#include <utility>

#include "engine/base/mutex.h"
#include "engine/execute/request_runner.h"

namespace vicinal::testing {

// For version `number` of model "m" on graph "g". It holds no graph and no model: nothing here looks at them.
inline QueuedRequest Numbered(
    int64_t number, WorkLimits limits = {}, InferenceCallback done = [](const auto&) {}) {
  QueuedRequest request;
  request.key = {{"g", 1}, {"m", number}};
  request.limits = std::move(limits);
  request.done = std::move(done);
  return request;
}
inline int64_t NumberOf(const RequestKey& key) { return key.model.version; }

// Answers each request with as many rows as its number says, after doing what was scripted for that number.
// Thread-safe.
class ScriptedRunner final : public RequestRunner {
 public:
  using Script = std::function<void()>;

  // The script runs on the executor's thread, once.
  void Add(int64_t number, Script script) {
    MutexLock lock(&mutex_);
    scripts_[number] = std::move(script);
  }
  StatusOr<InferenceResult> Run(const QueuedRequest& request, DeviceContext&) override {
    Script script;
    {
      MutexLock lock(&mutex_);
      const auto found = scripts_.extract(NumberOf(request.key));
      if (!found.empty()) script = std::move(found.mapped());
    }
    if (script) script();
    InferenceResult result;
    result.rows = NumberOf(request.key);
    return result;
  }

 private:
  Mutex mutex_;
  std::map<int64_t, Script> scripts_ VICINAL_GUARDED_BY(mutex_);
};

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_EXECUTE_NUMBERED_REQUESTS_H_
