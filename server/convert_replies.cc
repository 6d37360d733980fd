// SPDX-License-Identifier: Apache-2.0
#include "server/convert_replies.h"

#include <cstddef>
#include <string>

#include "server/convert_tuning.h"

namespace vicinal::server {
namespace {

template <class T>
void SetTensorOf(v1::DataType dtype, const T* values, int64_t rows, int64_t cols, v1::Tensor* tensor) {
  tensor->set_dtype(dtype);
  tensor->clear_shape();
  tensor->add_shape(rows);
  tensor->add_shape(cols);
  tensor->set_data(reinterpret_cast<const char*>(values), static_cast<size_t>(rows * cols) * sizeof(T));
}

}  // namespace

v1::ServedBy ToProto(const ServedBy& served_by) {
  v1::ServedBy out;
  out.set_graph(served_by.graph);
  out.set_graph_version(served_by.graph_version);
  out.set_model(served_by.model);
  out.set_model_version(served_by.model_version);
  out.set_feature_set(served_by.feature_set);
  out.set_feature_set_version(served_by.feature_set_version);
  out.set_edge_feature_set(served_by.edge_feature_set);
  out.set_edge_feature_set_version(served_by.edge_feature_set_version);
  out.set_numerics_revision(served_by.numerics_revision);
  out.set_incarnation(served_by.incarnation);
  return out;
}

v1::ExplainResponse ToProto(const Explanation& explanation) {
  v1::ExplainResponse out;
  *out.mutable_served_by() = ToProto(explanation.served_by);
  for (size_t i = 0; i < explanation.steps.size(); ++i) {
    const PlanStepInfo& step = explanation.steps[i];
    v1::PlanStep* entry = out.add_steps();
    entry->set_operation(step.operation);
    entry->set_layers(step.layers);
    entry->set_description(step.description);
    entry->set_locality(std::string(ToString(step.locality)));
    entry->set_kernel(step.kernel);
    AddParameters(step.parameters, entry);
    for (const KernelRefusal& refusal : step.refusals) {
      v1::Refusal* refused = entry->add_refusals();
      refused->set_kernel(refusal.kernel);
      refused->set_reason(refusal.reason);
    }
    entry->set_predicted_bytes(step.predicted_bytes);
    entry->set_predicted_operations(step.predicted_operations);
    entry->set_run_count(step.run_count);
    entry->set_mean_seconds(step.run_count > 0 ? step.total_seconds / static_cast<double>(step.run_count) : 0.0);
    entry->set_receptive_field_run_count(step.receptive_field_run_count);
    entry->set_receptive_field_mean_seconds(step.receptive_field_run_count > 0
                                                ? step.receptive_field_total_seconds /
                                                      static_cast<double>(step.receptive_field_run_count)
                                                : 0.0);
    if (i < explanation.tuning.size() && explanation.tuning[i])
      *entry->mutable_tuning() = ToProto(*explanation.tuning[i]);
  }
  for (const std::string& decision : explanation.decisions) out.add_decisions(decision);
  out.set_scratch_bytes(explanation.scratch_bytes);
  out.set_whole_scratch_bytes(explanation.whole_scratch_bytes);
  out.set_tiled_scratch_bytes(explanation.tiled_scratch_bytes);
  if (explanation.links) {
    v1::LinkScoring* const links = out.mutable_links();
    links->set_decoder(explanation.links->decoder);
    links->set_output(explanation.links->output);
    links->set_width(explanation.links->width);
    links->set_operations_per_pair(explanation.links->operations_per_pair);
    links->set_kernel(explanation.links->kernel);
    AddParameters(explanation.links->parameters, links);
  }
  out.set_order(explanation.order);
  out.set_device(explanation.device);
  return out;
}

void SetTensor(const float* values, int64_t rows, int64_t cols, v1::Tensor* tensor) {
  SetTensorOf(v1::DATA_TYPE_FLOAT32, values, rows, cols, tensor);
}

void SetTensor(const int32_t* values, int64_t rows, int64_t cols, v1::Tensor* tensor) {
  SetTensorOf(v1::DATA_TYPE_INT32, values, rows, cols, tensor);
}

void SetTensor(const int64_t* values, int64_t rows, int64_t cols, v1::Tensor* tensor) {
  SetTensorOf(v1::DATA_TYPE_INT64, values, rows, cols, tensor);
}

}  // namespace vicinal::server
