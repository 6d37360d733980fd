// SPDX-License-Identifier: Apache-2.0
// Models as the Open Inference Protocol describes them: metadata, Triton's configuration, the list. Pure functions.
#ifndef VICINAL_SERVER_OPEN_INFERENCE_DESCRIBE_MODELS_H_
#define VICINAL_SERVER_OPEN_INFERENCE_DESCRIBE_MODELS_H_

#include <cstdint>
#include <vector>

#include "inference/grpc_inference.pb.h"
#include "server/open_inference/model_names.h"

namespace vicinal::server {

// Platform and backend of every model.
inline constexpr char kOpenPlatform[] = "vicinal";

inference::ModelMetadataResponse MetadataOf(const OpenModel& model);
inference::ModelConfig ConfigOf(const OpenModel& model);
// Whether a request can be answered now.
bool IsReady(const OpenModel& model);

// `graphs` and `models` sorted by name. INVALID_ARGUMENT (LIMIT_EXCEEDED): the list has more than `max_bytes`.
Status ListModels(const std::vector<GraphResource>& graphs, const std::vector<ModelResource>& models, bool ready_only,
                  int64_t max_bytes, inference::RepositoryIndexResponse* response);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_OPEN_INFERENCE_DESCRIBE_MODELS_H_
