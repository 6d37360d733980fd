// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/encode_result.h"

#include <algorithm>
#include <optional>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "server/convert.h"
#include "server/handlers/classify.h"

namespace vicinal::server {
namespace {

template <class Request>
StatusOr<ClassifyWants> Wants(const Request& request) {
  ClassifyWants wants{request.has_top_k() ? request.top_k() : 1, request.return_logits(),
                      request.return_probabilities()};
  wants.numbers = std::is_same_v<Request, v1::ClassifyGraphsRequest> && wants.logits && !wants.probabilities &&
                  !request.has_top_k();
  if (wants.top_k >= 1) return wants;
  return InvalidArgument("BAD_TOP_K", "top_k", absl::StrCat("top_k is ", wants.top_k, "; it must be at least 1"));
}

// A millisecond or two of exponentials.
constexpr int64_t kBlockValues = int64_t{128} * 1024;

int64_t RowsOfBlock(int64_t classes) { return std::max<int64_t>(1, kBlockValues / std::max<int64_t>(1, classes)); }

// Fills a tensor [rows, cols] from its first row on.
template <class T>
class MatrixWriter {
 public:
  MatrixWriter(v1::DataType type, int64_t rows, int64_t cols, v1::Tensor* tensor) : cols_(cols), tensor_(*tensor) {
    tensor->set_dtype(type);
    tensor->clear_shape();
    tensor->add_shape(rows);
    tensor->add_shape(cols);
    tensor->clear_data();
    tensor->mutable_data()->reserve(static_cast<size_t>(rows * cols) * sizeof(T));
  }
  void Append(const T* values, int64_t rows) {
    tensor_.mutable_data()->append(reinterpret_cast<const char*>(values),
                                   static_cast<size_t>(rows * cols_) * sizeof(T));
  }

 private:
  const int64_t cols_;
  v1::Tensor& tensor_;
};

}  // namespace

StatusOr<ClassifyWants> WantsOf(const v1::ClassifyRequest& request) { return Wants(request); }
StatusOr<ClassifyWants> WantsOf(const v1::ClassifyGraphsRequest& request) { return Wants(request); }

Status CheckWants(const ClassifyWants& wants, const AnswerShape& answer) {
  const int64_t classes = answer.width;
  if (answer.regression && !wants.numbers) {
    return FailedPrecondition(
        "REGRESSION_MODEL",
        "the model predicts numbers, not classes. Of nodes: use Embed with the output 'logits'. Of "
        "graphs: set return_logits, but neither top_k nor return_probabilities");
  }
  if (wants.top_k <= classes) return OkStatus();
  return InvalidArgument("BAD_TOP_K", "top_k",
                         absl::StrCat("top_k is ", wants.top_k, ", but the model has ", classes, " classes"));
}

template <class Response>
Status EncodeClasses(const InferenceResult& result, const ClassifyWants& wants, int64_t first, int64_t count,
                     const StopCheck& stop, Response* response) {
  const int64_t classes = result.width, k = wants.top_k;
  if (result.regression) {
    MatrixWriter<float>(v1::DATA_TYPE_FLOAT32, count, classes, response->mutable_logits())
        .Append(result.values.data() + first * classes, count);
    return OkStatus();
  }
  MatrixWriter<int32_t> classes_out(v1::DATA_TYPE_INT32, count, k, response->mutable_classes());
  MatrixWriter<float> scores_out(v1::DATA_TYPE_FLOAT32, count, k, response->mutable_scores());
  std::optional<MatrixWriter<float>> logits_out, probabilities_out;
  if (wants.logits) logits_out.emplace(v1::DATA_TYPE_FLOAT32, count, classes, response->mutable_logits());
  if (wants.probabilities) {
    probabilities_out.emplace(v1::DATA_TYPE_FLOAT32, count, classes, response->mutable_probabilities());
  }
  const int64_t block = RowsOfBlock(classes);
  for (int64_t begin = first; begin < first + count; begin += block) {
    VICINAL_RETURN_IF_ERROR(stop());
    const int64_t rows = std::min(block, first + count - begin);
    const float* const logits = result.values.data() + begin * classes;
    const TopClasses top = TopK(logits, rows, classes, k, result.multi_label);
    classes_out.Append(top.classes.data(), rows);
    scores_out.Append(top.scores.data(), rows);
    if (logits_out) logits_out->Append(logits, rows);
    if (probabilities_out)
      probabilities_out->Append(Probabilities(logits, rows, classes, result.multi_label).data(), rows);
  }
  return OkStatus();
}
template Status EncodeClasses(const InferenceResult&, const ClassifyWants&, int64_t, int64_t, const StopCheck&,
                              v1::ClassifyResponse*);
template Status EncodeClasses(const InferenceResult&, const ClassifyWants&, int64_t, int64_t, const StopCheck&,
                              v1::ClassifyGraphsResponse*);

int64_t EncodingBytes(const ClassifyWants& wants, int64_t rows, int64_t classes) {
  const int64_t block = std::min(rows, RowsOfBlock(classes));
  // The class order of one row, and the top classes and probabilities of a block's rows.
  const int64_t computed = 4 * classes + block * (8 * wants.top_k + (wants.probabilities ? 4 * classes : 0));
  return MessageBytes(rows * wants.BytesPerRow(classes)) + computed;
}

v1::Timing EncodeTiming(const InferenceResult& result, double total_seconds) {
  v1::Timing out;
  out.set_queue_seconds(result.timing.queue_seconds);
  out.set_plan_seconds(result.timing.plan_seconds);
  out.set_execute_seconds(result.timing.execute_seconds);
  out.set_receptive_field(result.receptive_field);
  out.set_computed_node_count(result.computed_nodes);
  out.set_kept_answers(result.kept);
  out.set_run_request_count(result.kept ? 0 : static_cast<int32_t>(result.run_requests));
  out.set_total_seconds(total_seconds);
  return out;
}

}  // namespace vicinal::server
