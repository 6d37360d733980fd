// SPDX-License-Identifier: Apache-2.0
// What an executor does with requests. PlanRunner is the product's; tests have their own.
#ifndef VICINAL_ENGINE_EXECUTE_REQUEST_RUNNER_H_
#define VICINAL_ENGINE_EXECUTE_REQUEST_RUNNER_H_

#include <vector>

#include "engine/execute/queued_request.h"

namespace vicinal {

class RequestRunner {
 public:
  virtual ~RequestRunner() = default;
  // Called on the executor's thread, one request at a time, with the executor's context. The answer goes to
  // request.done, which the executor calls. May throw std::bad_alloc.
  virtual StatusOr<InferenceResult> Run(const QueuedRequest& request, DeviceContext& context) = 0;
  // Runs requests that may share a run (MayShareRun). Answers in their order, each the same as Run's but for its times;
  // an error of one request is no error of the others. The default runs one after the other.
  virtual std::vector<StatusOr<InferenceResult>> RunTogether(const std::vector<const QueuedRequest*>& requests,
                                                             DeviceContext& context) {
    std::vector<StatusOr<InferenceResult>> answers;
    answers.reserve(requests.size());
    for (const QueuedRequest* request : requests) answers.push_back(Run(*request, context));
    return answers;
  }
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_REQUEST_RUNNER_H_
