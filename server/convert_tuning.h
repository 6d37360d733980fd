// SPDX-License-Identifier: Apache-2.0
// Converts between the API's tuning messages and the engine's types. Pure functions; errors are INVALID_ARGUMENT with
// the field. The engine checks names (operations, kinds, weights, kernels, parameters).
#ifndef VICINAL_SERVER_CONVERT_TUNING_H_
#define VICINAL_SERVER_CONVERT_TUNING_H_

#include <vector>

#include "engine/api/engine.h"
#include "vicinal/v1/graph.pb.h"
#include "vicinal/v1/tuning.pb.h"

namespace vicinal::server {

// Sets everything but `limits`.
StatusOr<TuneGraphRequest> FromProto(const v1::TuneGraphRequest& request);

// Response: whatever has the parameters of a kernel.
template <class Response>
void AddParameters(const std::vector<NamedParameter>& parameters, Response* response) {
  for (const NamedParameter& parameter : parameters) {
    v1::KernelParameter* const entry = response->add_parameters();
    entry->set_name(parameter.name);
    entry->set_value(parameter.value);
  }
}

v1::TuningRecord ToProto(const TuningRecord& record);
// Response: TuneGraphResponse or GetTuningResponse.
template <class Response>
void SetReport(const TuningReport& report, Response* response) {
  response->set_name(report.graph);
  response->set_version(report.graph_version);
  for (const TuningRecord& record : report.records) *response->add_records() = ToProto(record);
}

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_CONVERT_TUNING_H_
