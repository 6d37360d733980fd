// SPDX-License-Identifier: Apache-2.0
// GraphService without gRPC. Thread-safe; all methods but the uploads' finish, TuneGraph
// and GetGraphPicture return at once.
#ifndef VICINAL_SERVER_HANDLERS_GRAPH_HANDLER_H_
#define VICINAL_SERVER_HANDLERS_GRAPH_HANDLER_H_

#include <functional>
#include <memory>
#include <string>

#include "engine/api/engine.h"
#include "server/call.h"
#include "server/config.h"
#include "server/handlers/upload_stream.h"
#include "vicinal/v1/graph.pb.h"

namespace vicinal::server {

class GraphHandler {
 public:
  using GraphUpload = UploadStream<v1::UploadGraphRequest, v1::UploadGraphResponse>;
  using FeaturesUpload = UploadStream<v1::UploadFeaturesRequest, v1::UploadFeaturesResponse>;

  // All must outlive the handler.
  GraphHandler(Engine& engine, UploadStore& uploads, Metrics& metrics, const Limits& limits)
      : engine_(engine), uploads_(uploads), metrics_(metrics), limits_(limits) {}

  // `call` must outlive the stream.
  std::unique_ptr<GraphUpload> UploadGraph(const Call& call);
  std::unique_ptr<FeaturesUpload> UploadFeatures(const Call& call);
  Status GetUpload(const Call& call, const v1::GetUploadRequest& request, v1::Upload* response);
  Status GetGraph(const Call& call, const v1::GetGraphRequest& request, v1::Graph* response);
  Status ListGraphs(const Call& call, const v1::ListGraphsRequest& request, v1::ListGraphsResponse* response);
  Status DeleteGraph(const Call& call, const v1::DeleteGraphRequest& request, v1::DeleteGraphResponse* response);
  // Blocks until the measurements are done, unless `no_wait`.
  Status TuneGraph(Call& call, const v1::TuneGraphRequest& request, v1::TuneGraphResponse* response);
  Status GetTuning(const Call& call, const v1::GetTuningRequest& request, v1::GetTuningResponse* response);
  // Looks at up to kPictureEdges edges.
  Status GetGraphPicture(const Call& call, const v1::GetGraphPictureRequest& request, v1::GraphPicture* response);
  Status ListFeatures(const Call& call, const v1::ListFeaturesRequest& request, v1::ListFeaturesResponse* response);
  Status DeleteFeatures(const Call& call, const v1::DeleteFeaturesRequest& request,
                        v1::DeleteFeaturesResponse* response);

  // Calls `on_change` whenever Look may return something new, until the subscription is destroyed.
  StatusOr<std::unique_ptr<Subscription>> Watch(const Call& call, const v1::WatchGraphRequest& request,
                                                std::function<void()> on_change);
  // The graph at one moment. `last`: preparation has ended, so no further changes are reported.
  struct GraphSnapshot {
    v1::Graph graph;
    bool last = false;
  };
  StatusOr<GraphSnapshot> Look(const std::string& name) const;

 private:
  // `disk_bytes`: that it may take in a state directory.
  Status AdmitGraph(const v1::UploadGraphSpec& spec, const GraphSizes& sizes, int64_t disk_bytes) const;
  // `set_bytes`: the least that the new set takes in memory.
  Status CheckFitsBeside(const GraphResource& graph, int64_t set_bytes) const;
  StatusOr<UploadStore::Hold> BeginFeatures(const Call& call, const v1::UploadFeaturesSpec& spec);
  Status MakeGraph(const v1::UploadGraphSpec& spec, UploadContent& content, v1::UploadGraphResponse* response);
  Status MakeFeatures(const Call& call, const v1::UploadFeaturesSpec& spec, UploadContent& content,
                      v1::UploadFeaturesResponse* response);
  Status RefreshFeatures(v1::UploadFeaturesResponse* response) const;

  Engine& engine_;
  UploadStore& uploads_;
  Metrics& metrics_;
  const Limits& limits_;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_HANDLERS_GRAPH_HANDLER_H_
