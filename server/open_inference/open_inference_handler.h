// SPDX-License-Identifier: Apache-2.0
// GRPCInferenceService without gRPC. Inference is InferenceHandler's: its requests are made from ModelInfer's, and
// ModelInfer's replies from its (docs/open_inference.md). Thread-safe; all methods but ModelInfer return at once.
#ifndef VICINAL_SERVER_OPEN_INFERENCE_OPEN_INFERENCE_HANDLER_H_
#define VICINAL_SERVER_OPEN_INFERENCE_OPEN_INFERENCE_HANDLER_H_

#include <functional>
#include <memory>

#include "engine/api/engine.h"
#include "inference/grpc_inference.pb.h"
#include "server/call.h"
#include "server/config.h"
#include "server/handlers/inference_handler.h"
#include "server/open_inference/decode_infer.h"
#include "server/open_inference/infer_statistics.h"

namespace vicinal::server {

class OpenInferenceHandler {
 public:
  using Done = InferenceHandler::Done;

  // All must outlive the handler. `ready`: whether the server takes requests; thread-safe. `clock` null: the real one.
  OpenInferenceHandler(Engine& engine, InferenceHandler& inference, const Limits& limits, std::function<bool()> ready,
                       const Clock* clock)
      : engine_(engine),
        inference_(inference),
        limits_(limits),
        ready_(std::move(ready)),
        clock_(clock != nullptr ? *clock : Clock::Real()) {}

  Status ServerLive(const Call& call, const inference::ServerLiveRequest& request,
                    inference::ServerLiveResponse* response);
  Status ServerReady(const Call& call, const inference::ServerReadyRequest& request,
                     inference::ServerReadyResponse* response);
  Status ModelReady(const Call& call, const inference::ModelReadyRequest& request,
                    inference::ModelReadyResponse* response);
  Status ServerMetadata(const Call& call, const inference::ServerMetadataRequest& request,
                        inference::ServerMetadataResponse* response);
  Status ModelMetadata(const Call& call, const inference::ModelMetadataRequest& request,
                       inference::ModelMetadataResponse* response);
  Status ModelConfig(const Call& call, const inference::ModelConfigRequest& request,
                     inference::ModelConfigResponse* response);
  Status ModelStatistics(const Call& call, const inference::ModelStatisticsRequest& request,
                         inference::ModelStatisticsResponse* response);
  Status RepositoryIndex(const Call& call, const inference::RepositoryIndexRequest& request,
                         inference::RepositoryIndexResponse* response);
  // As InferenceHandler's methods: `done` once, at once or later, on any thread; call, request and response live until
  // then. A parameter `timeout` shortens the call's deadline.
  void ModelInfer(Call& call, const inference::ModelInferRequest& request, inference::ModelInferResponse* response,
                  const Done& done);

 private:
  struct Work;

  StatusOr<OpenModel> Find(const std::string& name, const std::string& version) const;
  StatusOr<std::shared_ptr<Work>> Decode(Call& call, const inference::ModelInferRequest& request);
  Status Encode(Call& call, const inference::ModelInferRequest& request, Work& work,
                inference::ModelInferResponse* response);
  // Statistics of a request that failed; only of models that exist.
  void CountFailure(const Call& call, const std::string& name);

  Engine& engine_;
  InferenceHandler& inference_;
  const Limits& limits_;
  const std::function<bool()> ready_;
  const Clock& clock_;
  InferStatistics statistics_;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_OPEN_INFERENCE_OPEN_INFERENCE_HANDLER_H_
