// SPDX-License-Identifier: Apache-2.0
// What an executor does with a request. PlanRunner is the product's; tests have their own.
#ifndef VICINAL_ENGINE_EXECUTE_REQUEST_RUNNER_H_
#define VICINAL_ENGINE_EXECUTE_REQUEST_RUNNER_H_

#include "engine/execute/queued_request.h"

namespace vicinal {

class RequestRunner {
 public:
  virtual ~RequestRunner() = default;
  // Called on the executor's thread, one request at a time, with the executor's context. The answer goes to
  // request.done, which the executor calls. May throw std::bad_alloc.
  virtual StatusOr<InferenceResult> Run(const QueuedRequest& request, DeviceContext& context) = 0;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_REQUEST_RUNNER_H_
