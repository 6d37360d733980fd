// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/encode_result.h"

#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
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

// Half a millisecond of exponentials on one thread.
constexpr int64_t kBlockValues = int64_t{128} * 1024;

int64_t RowsOfBlock(int64_t classes) { return std::max<int64_t>(1, kBlockValues / std::max<int64_t>(1, classes)); }

// A tensor [rows, cols] that is filled in place, from its first row on.
template <class T>
class MatrixWriter {
 public:
  MatrixWriter(v1::DataType type, int64_t rows, int64_t cols, v1::Tensor* tensor)
      : row_bytes_(static_cast<size_t>(cols) * sizeof(T)), data_(*tensor->mutable_data()) {
    tensor->set_dtype(type);
    tensor->clear_shape();
    tensor->add_shape(rows);
    tensor->add_shape(cols);
    data_.clear();
    data_.reserve(static_cast<size_t>(rows) * row_bytes_);
  }
  void Append(const T* values, int64_t rows) {
    data_.append(reinterpret_cast<const char*>(values), static_cast<size_t>(rows) * row_bytes_);
  }
  // The next `rows` rows, to be written. Grown block by block, so that no page is touched long before it is used.
  T* Extend(int64_t rows) {
    const size_t before = data_.size();
    data_.resize(before + static_cast<size_t>(rows) * row_bytes_);
    return reinterpret_cast<T*>(data_.data() + before);
  }

 private:
  const size_t row_bytes_;
  std::string& data_;
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
                     const StopCheck& stop, ThreadPool* pool, Response* response) {
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
  if (result.ranked) {
    const RankedRows& ranked = *result.ranked;
    classes_out.Append(ranked.classes.data() + first * k, count);
    scores_out.Append(ranked.scores.data() + first * k, count);
    if (logits_out) logits_out->Append(result.values.data() + first * classes, count);
    if (probabilities_out) probabilities_out->Append(ranked.probabilities.data() + first * classes, count);
    return OkStatus();
  }
  const int64_t block = RowsOfBlock(classes);
  for (int64_t begin = first; begin < first + count; begin += block) {
    VICINAL_RETURN_IF_ERROR(stop());
    const int64_t rows = std::min(block, first + count - begin);
    const float* const logits = result.values.data() + begin * classes;
    ClassRows job = {logits, rows, classes, k, result.multi_label};
    job.top_classes = classes_out.Extend(rows);
    job.top_scores = scores_out.Extend(rows);
    if (logits_out) logits_out->Append(logits, rows);
    if (probabilities_out) job.probabilities = probabilities_out->Extend(rows);
    FillClassRows(job, pool);
  }
  return OkStatus();
}
template Status EncodeClasses(const InferenceResult&, const ClassifyWants&, int64_t, int64_t, const StopCheck&,
                              ThreadPool*, v1::ClassifyResponse*);
template Status EncodeClasses(const InferenceResult&, const ClassifyWants&, int64_t, int64_t, const StopCheck&,
                              ThreadPool*, v1::ClassifyGraphsResponse*);

int64_t EncodingBytes(const ClassifyWants& wants, int64_t rows, int64_t classes) {
  return MessageBytes(rows * wants.BytesPerRow(classes)) + ClassRowsScratchBytes(classes, kMaxEncodingThreads);
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
