// SPDX-License-Identifier: Apache-2.0
// Encodes the engine's rows as replies of inference, block by block, so that intermediate results take little memory
// and a cancelled call ends between blocks. Pure functions.
#ifndef VICINAL_SERVER_HANDLERS_ENCODE_RESULT_H_
#define VICINAL_SERVER_HANDLERS_ENCODE_RESULT_H_

#include <cstdint>

#include "engine/api/engine.h"
#include "engine/base/thread_pool.h"
#include "vicinal/v1/inference.pb.h"

namespace vicinal::server {

// The requested parts of a classification's reply.
struct ClassifyWants {
  int64_t top_k = 1;
  bool logits = false;
  bool probabilities = false;
  bool numbers = false;  // of graphs: the logits and nothing else, as a regression's predictions

  // Bytes of the reply's tensors per row.
  int64_t BytesPerRow(int64_t classes) const {
    return 8 * top_k + 4 * classes * ((logits ? 1 : 0) + (probabilities ? 1 : 0));
  }
};

// top_k unset is 1. INVALID_ARGUMENT when it is below 1.
StatusOr<ClassifyWants> WantsOf(const v1::ClassifyRequest& request);
StatusOr<ClassifyWants> WantsOf(const v1::ClassifyGraphsRequest& request);
// INVALID_ARGUMENT when top_k is more than the number of classes. FAILED_PRECONDITION, reason REGRESSION_MODEL, when
// the model has none, unless `wants.numbers`.
Status CheckWants(const ClassifyWants& wants, const AnswerShape& answer);

// The most threads that one reply is encoded with: more would wait for the memory of the reply.
constexpr int kMaxEncodingThreads = 4;

// Rows [first, first + count) of the result's logits, or of what a device has ranked as `wants` says; of a
// regression's, without classes and scores. Response: ClassifyResponse or ClassifyGraphsResponse. Calls `stop` between
// blocks of rows and returns its error; the response is then incomplete. Large blocks are shared with the threads of
// `pool` (null: none); the bits are the same.
template <class Response>
Status EncodeClasses(const InferenceResult& result, const ClassifyWants& wants, int64_t first, int64_t count,
                     const StopCheck& stop, ThreadPool* pool, Response* response);

// Maximum memory for a message whose tensors have `bytes`, until it is sent: the message and gRPC's serialised copy.
inline int64_t MessageBytes(int64_t bytes) { return 2 * bytes; }
// The same for `rows` rows of a result, of which `wants` says what the reply has.
template <class Wants>
int64_t EncodingBytes(const Wants& wants, int64_t rows, int64_t width) {
  return MessageBytes(rows * wants.BytesPerRow(width));
}
// The same for EncodeClasses with up to kMaxEncodingThreads threads, including its temporary arrays.
int64_t EncodingBytes(const ClassifyWants& wants, int64_t rows, int64_t classes);

v1::Timing EncodeTiming(const InferenceResult& result, double total_seconds);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_HANDLERS_ENCODE_RESULT_H_
