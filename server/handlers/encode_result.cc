// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/encode_result.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "server/convert.h"

namespace vicinal::server {
namespace {

template <class Request>
StatusOr<ClassifyWants> Wants(const Request& request) {
  ClassifyWants wants{request.has_top_k() ? request.top_k() : 1, request.return_logits(),
                      request.return_probabilities()};
  if (wants.top_k >= 1) return wants;
  return InvalidArgument("BAD_TOP_K", "top_k", absl::StrCat("top_k is ", wants.top_k, "; it must be at least 1"));
}

}  // namespace

StatusOr<ClassifyWants> WantsOf(const v1::ClassifyRequest& request) { return Wants(request); }
StatusOr<ClassifyWants> WantsOf(const v1::ClassifyGraphsRequest& request) { return Wants(request); }

Status CheckTopK(const ClassifyWants& wants, int64_t classes) {
  if (wants.top_k <= classes) return OkStatus();
  return InvalidArgument("BAD_TOP_K", "top_k",
                         absl::StrCat("top_k is ", wants.top_k, ", but the model has ", classes, " classes"));
}

template <class Response>
void EncodeClasses(const InferenceResult& result, const ClassifyWants& wants, int64_t first, int64_t count,
                   Response* response) {
  const int64_t classes = result.width;
  const float* logits = result.values.data() + first * classes;
  const TopClasses top = TopK(logits, count, classes, wants.top_k, result.multi_label);
  SetTensor(top.classes.data(), count, wants.top_k, response->mutable_classes());
  SetTensor(top.scores.data(), count, wants.top_k, response->mutable_scores());
  if (wants.logits) SetTensor(logits, count, classes, response->mutable_logits());
  if (wants.probabilities) {
    const std::vector<float> probabilities = Probabilities(logits, count, classes, result.multi_label);
    SetTensor(probabilities.data(), count, classes, response->mutable_probabilities());
  }
}
template void EncodeClasses(const InferenceResult&, const ClassifyWants&, int64_t, int64_t, v1::ClassifyResponse*);
template void EncodeClasses(const InferenceResult&, const ClassifyWants&, int64_t, int64_t,
                            v1::ClassifyGraphsResponse*);

v1::Timing EncodeTiming(const InferenceResult& result, double total_seconds) {
  v1::Timing out;
  out.set_queue_seconds(result.timing.queue_seconds);
  out.set_plan_seconds(result.timing.plan_seconds);
  out.set_execute_seconds(result.timing.execute_seconds);
  out.set_receptive_field(result.receptive_field);
  out.set_computed_node_count(result.computed_nodes);
  out.set_total_seconds(total_seconds);
  return out;
}

}  // namespace vicinal::server
