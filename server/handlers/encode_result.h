// SPDX-License-Identifier: Apache-2.0
// From the engine's rows to the replies of inference. Pure functions.
#ifndef VICINAL_SERVER_HANDLERS_ENCODE_RESULT_H_
#define VICINAL_SERVER_HANDLERS_ENCODE_RESULT_H_

#include <cstdint>

#include "engine/engine.h"
#include "vicinal/v1/inference.pb.h"

namespace vicinal::server {

// What a classification is asked to tell, besides the classes.
struct ClassifyWants {
  int64_t top_k = 1;
  bool logits = false;
  bool probabilities = false;

  // Bytes of the reply's tensors per row.
  int64_t BytesPerRow(int64_t classes) const {
    return 8 * top_k + 4 * classes * ((logits ? 1 : 0) + (probabilities ? 1 : 0));
  }
};

// top_k unset is 1. INVALID_ARGUMENT when it is below 1.
StatusOr<ClassifyWants> WantsOf(const v1::ClassifyRequest& request);
StatusOr<ClassifyWants> WantsOf(const v1::ClassifyGraphsRequest& request);
// INVALID_ARGUMENT when top_k is more than `classes`.
Status CheckTopK(const ClassifyWants& wants, int64_t classes);

// Rows [first, first + count) of the result's logits. Response: ClassifyResponse or ClassifyGraphsResponse.
template <class Response>
void EncodeClasses(const InferenceResult& result, const ClassifyWants& wants, int64_t first, int64_t count,
                   Response* response);

v1::Timing EncodeTiming(const InferenceResult& result, double total_seconds);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_HANDLERS_ENCODE_RESULT_H_
