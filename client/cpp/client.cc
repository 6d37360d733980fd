// SPDX-License-Identifier: Apache-2.0
// Each method is its call; what they share is in channel.h (context, status) and upload.h (resumed uploads).
#include "client/cpp/client.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/address.h"
#include "client/cpp/channel.h"
#include "client/cpp/credentials.h"
#include "client/cpp/formats/status_macros.h"
#include "client/cpp/health.h"
#include "client/cpp/lists.h"
#include "client/cpp/printable.h"
#include "client/cpp/query_stream_impl.h"
#include "client/cpp/reply_checks.h"
#include "client/cpp/upload.h"
#include "proto/wire/names.h"
#include "vicinal/v1/graph.grpc.pb.h"
#include "vicinal/v1/inference.grpc.pb.h"
#include "vicinal/v1/model.grpc.pb.h"
#include "vicinal/v1/server.grpc.pb.h"

namespace vicinal::client {

using GraphStub = v1::GraphService::Stub;
using ModelStub = v1::ModelService::Stub;
using InferenceStub = v1::InferenceService::Stub;
using ServerStub = v1::ServerService::Stub;

struct Client::Impl {
  explicit Impl(const ClientOptions& options)
      : channel(options),
        graphs(v1::GraphService::NewStub(channel.grpc())),
        models(v1::ModelService::NewStub(channel.grpc())),
        inference(v1::InferenceService::NewStub(channel.grpc())),
        server(v1::ServerService::NewStub(channel.grpc())) {}

  // The size to cut chunks to: the option, or the server's limit when that is smaller. A server that cannot be reached
  // or does not answer is reported here, before an upload without a deadline waits for it; one that does not tell its
  // limits is taken at the option's word.
  absl::StatusOr<int64_t> ChunkBytes() const {
    const auto capabilities =
        channel.Call(server.get(), &ServerStub::GetCapabilities, v1::GetCapabilitiesRequest(), std::string());
    if (absl::IsUnavailable(capabilities.status()) || absl::IsDeadlineExceeded(capabilities.status())) {
      return capabilities.status();
    }
    int64_t bytes = channel.options().chunk_bytes;
    if (!capabilities.ok()) return bytes;
    for (const v1::Limit& limit : capabilities->limits()) {
      if (limit.name() == "max_chunk_bytes" && limit.value() > 0) bytes = std::min(bytes, limit.value());
    }
    return bytes;
  }

  // `await_ready`: follows what was accepted until it serves, and updates the response.
  template <class Request, class Response, class Spec, class Stub>
  absl::StatusOr<Response> Upload(
      Stub* stub, std::unique_ptr<grpc::ClientWriter<Request>> (Stub::*method)(grpc::ClientContext*, Response*),
      Spec spec, const std::string& graph, const std::vector<UploadTensor>& tensors, const UploadOptions& options,
      const std::function<absl::Status(Response* accepted)>& await_ready) const {
    const bool begun = !spec.upload_id().empty();
    CLIENT_RETURN_IF_ERROR(internal::FillSpec(tensors, &spec));
    CLIENT_ASSIGN_OR_RETURN(const int64_t chunk_bytes, ChunkBytes());
    const auto open = [&](grpc::ClientContext* context, Response* response) {
      return (stub->*method)(context, response);
    };
    const auto ask = [&](const std::string& upload_id) {
      v1::GetUploadRequest request;
      request.set_upload_id(upload_id);
      return channel.Call(graphs.get(), &GraphStub::GetUpload, request, graph);
    };
    internal::Upload<Request, Response, Spec> upload(channel, open, ask, graph, chunk_bytes, tensors, options);
    CLIENT_ASSIGN_OR_RETURN(Response response, upload.Run(spec, begun));
    channel.Receive(&response);
    if (options.wait_for < v1::WAIT_FOR_READY) return response;
    CLIENT_RETURN_IF_ERROR(await_ready(&response));
    if (options.wait_for == v1::WAIT_FOR_READY) return response;
    if (options.writing) options.writing();
    CLIENT_ASSIGN_OR_RETURN(response, upload.Wait(spec.upload_id(), options.wait_for));
    channel.Receive(&response);
    return response;
  }

  // Feature sets and models serve once they are accepted.
  template <class Response>
  static std::function<absl::Status(Response*)> ServesAtOnce() {
    return [](Response*) { return absl::OkStatus(); };
  }

  // Reads a server stream to its end, or to the first error of `piece`.
  template <class Request, class Response, class Stub>
  absl::Status Stream(Stub* stub,
                      std::unique_ptr<grpc::ClientReader<Response>> (Stub::*method)(grpc::ClientContext*,
                                                                                    const Request&),
                      const Request& request, const std::string& graph, std::chrono::milliseconds timeout,
                      const std::function<absl::Status(const Response&)>& piece) const {
    grpc::ClientContext context;
    channel.Prepare(&context, timeout, graph);
    const auto reader = (stub->*method)(&context, request);
    Response response;
    while (reader->Read(&response)) {
      channel.Receive(&response);
      absl::Status status = piece(response);
      if (!status.ok()) {
        context.TryCancel();
        reader->Finish();
        return status;
      }
    }
    return channel.Translate(reader->Finish());
  }

  // The same for inference: pieces are checked before `piece` sees them.
  template <class Request, class Response>
  absl::Status CheckedStream(
      std::unique_ptr<grpc::ClientReader<Response>> (InferenceStub::*method)(grpc::ClientContext*, const Request&),
      const Request& request, std::optional<int64_t> asked,
      const std::function<absl::Status(const Response&)>& piece) const {
    internal::RowCount rows(asked);
    CLIENT_RETURN_IF_ERROR((Stream<Request, Response>(inference.get(), method, request, request.target().graph(),
                                                      channel.options().call_timeout, [&](const Response& response) {
                                                        CLIENT_RETURN_IF_ERROR(
                                                            internal::CheckReply(request, response, &rows));
                                                        return piece(response);
                                                      })));
    return rows.Finish();
  }

  // One inference call with a reply of `asked` rows.
  template <class Request, class Response>
  absl::StatusOr<Response> CheckedCall(grpc::Status (InferenceStub::*method)(grpc::ClientContext*, const Request&,
                                                                             Response*),
                                       const Request& request, const std::string& graph,
                                       std::optional<int64_t> asked) const {
    absl::StatusOr<Response> response = channel.Call(inference.get(), method, request, graph);
    if (!response.ok()) return response;
    internal::RowCount rows(asked);
    CLIENT_RETURN_IF_ERROR(internal::CheckReply(request, *response, &rows));
    CLIENT_RETURN_IF_ERROR(rows.Finish());
    return response;
  }

  const internal::Channel channel;
  const std::unique_ptr<GraphStub> graphs;
  const std::unique_ptr<ModelStub> models;
  const std::unique_ptr<InferenceStub> inference;
  const std::unique_ptr<ServerStub> server;
};

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

const ClientOptions& Client::options() const { return impl_->channel.options(); }

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const ClientOptions& options) {
  const absl::Status address = CheckAddress(options.target);
  if (!address.ok()) return absl::InvalidArgumentError(absl::StrCat("the server's address ", address.message()));
  CLIENT_RETURN_IF_ERROR(internal::CheckTls(options.tls));
  if (options.chunk_bytes <= 0) return absl::InvalidArgumentError("chunk_bytes must be positive");
  if (options.max_reply_bytes <= 0) return absl::InvalidArgumentError("max_reply_bytes must be positive");
  if (options.token.size() > wire::kMaxTokenBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the token has ", options.token.size(), " characters; at most ",
                                                   wire::kMaxTokenBytes, " can be sent"));
  }
  for (const char c : options.token) {
    if (c < 0x21 || c > 0x7e) {
      return absl::InvalidArgumentError(
          "the token contains a character that cannot be sent (a space or a line break?)");
    }
  }
  return std::unique_ptr<Client>(new Client(std::make_unique<Impl>(options)));
}

absl::StatusOr<v1::Graph> Client::UploadGraph(v1::UploadGraphSpec spec, const std::vector<UploadTensor>& tensors,
                                              const UploadOptions& options) {
  const std::string name = spec.name();
  const auto await_ready = [&](v1::UploadGraphResponse* accepted) -> absl::Status {
    CLIENT_ASSIGN_OR_RETURN(v1::Graph ready, WatchGraph(name, options.watch));
    // A replace that failed leaves the older version READY: what was uploaded is not what serves.
    if (ready.error_code() != 0 && ready.version() <= accepted->graph().version()) {
      return CallError(static_cast<absl::StatusCode>(ready.error_code()),
                       absl::StrCat("graph '", name, "' was not replaced, version ", ready.version(),
                                    " continues to serve: ", ready.error_message()));
    }
    accepted->mutable_graph()->Swap(&ready);
    return absl::OkStatus();
  };
  CLIENT_ASSIGN_OR_RETURN(v1::UploadGraphResponse response,
                          impl_->Upload(impl_->graphs.get(), &GraphStub::UploadGraph, std::move(spec), name, tensors,
                                        options, std::function<absl::Status(v1::UploadGraphResponse*)>(await_ready)));
  return std::move(*response.mutable_graph());
}

absl::StatusOr<v1::FeatureSet> Client::UploadFeatures(v1::UploadFeaturesSpec spec,
                                                      const std::vector<UploadTensor>& tensors,
                                                      const UploadOptions& options) {
  const std::string graph = spec.graph();
  CLIENT_ASSIGN_OR_RETURN(v1::UploadFeaturesResponse response,
                          impl_->Upload(impl_->graphs.get(), &GraphStub::UploadFeatures, std::move(spec), graph,
                                        tensors, options, Impl::ServesAtOnce<v1::UploadFeaturesResponse>()));
  return std::move(*response.mutable_feature_set());
}

absl::StatusOr<v1::Model> Client::UploadModel(v1::UploadModelSpec spec, const std::vector<UploadTensor>& tensors,
                                              const UploadOptions& options) {
  CLIENT_ASSIGN_OR_RETURN(v1::UploadModelResponse response,
                          impl_->Upload(impl_->models.get(), &ModelStub::UploadModel, std::move(spec), std::string(),
                                        tensors, options, Impl::ServesAtOnce<v1::UploadModelResponse>()));
  return std::move(*response.mutable_model());
}

absl::StatusOr<v1::Upload> Client::GetUpload(const std::string& upload_id) {
  v1::GetUploadRequest request;
  request.set_upload_id(upload_id);
  return impl_->channel.Call(impl_->graphs.get(), &GraphStub::GetUpload, request, std::string());
}

absl::StatusOr<v1::Graph> Client::GetGraph(const std::string& name) {
  v1::GetGraphRequest request;
  request.set_name(name);
  return impl_->channel.Call(impl_->graphs.get(), &GraphStub::GetGraph, request, name);
}

absl::StatusOr<std::vector<v1::Graph>> Client::ListGraphs() {
  return internal::AllPages<v1::Graph, v1::ListGraphsRequest, v1::ListGraphsResponse>(
      [&](const v1::ListGraphsRequest& request) {
        return impl_->channel.Call(impl_->graphs.get(), &GraphStub::ListGraphs, request, std::string());
      },
      &v1::ListGraphsResponse::graphs);
}

absl::StatusOr<v1::Graph> Client::WatchGraph(const std::string& name,
                                             const std::function<void(const v1::Graph&)>& on_change) {
  v1::WatchGraphRequest request;
  request.set_name(name);
  v1::Graph last;
  absl::Status status;
  for (int attempt = 0; attempt < std::max(1, impl_->channel.options().upload_attempts); ++attempt) {
    if (attempt > 0) impl_->channel.Backoff(attempt);
    status = impl_->Stream<v1::WatchGraphRequest, v1::Graph>(impl_->graphs.get(), &GraphStub::WatchGraph, request, name,
                                                             impl_->channel.options().upload_timeout,
                                                             [&](const v1::Graph& graph) {
                                                               last = graph;
                                                               if (on_change) on_change(graph);
                                                               return absl::OkStatus();
                                                             });
    if (!IsBrokenOff(status)) break;
  }
  if (!status.ok()) return status;
  if (last.state() == v1::Graph::STATE_FAILED) {
    return CallError(static_cast<absl::StatusCode>(last.error_code()),
                     absl::StrCat("graph '", name, "' could not be prepared: ", last.error_message()));
  }
  if (last.state() != v1::Graph::STATE_READY) {
    return CallError(absl::StatusCode::kInternal,
                     absl::StrCat("the watch of graph '", name, "' ended before it was ready"));
  }
  return last;
}

absl::Status Client::DeleteGraph(const std::string& name, int64_t if_version) {
  v1::DeleteGraphRequest request;
  request.set_name(name);
  request.set_if_version(if_version);
  return impl_->channel.Call(impl_->graphs.get(), &GraphStub::DeleteGraph, request, name).status();
}

absl::StatusOr<std::vector<v1::FeatureSet>> Client::ListFeatures(const std::string& graph, v1::FeatureKind kind) {
  v1::ListFeaturesRequest request;
  request.set_graph(graph);
  CLIENT_ASSIGN_OR_RETURN(const v1::ListFeaturesResponse response,
                          impl_->channel.Call(impl_->graphs.get(), &GraphStub::ListFeatures, request, graph));
  const auto& sets = kind == v1::FEATURE_KIND_EDGES ? response.edge_feature_sets() : response.feature_sets();
  return std::vector<v1::FeatureSet>(sets.begin(), sets.end());
}

absl::Status Client::DeleteFeatures(const std::string& graph, const std::string& name, v1::FeatureKind kind,
                                    int64_t if_version) {
  v1::DeleteFeaturesRequest request;
  request.set_if_version(if_version);
  request.set_kind(kind);
  request.set_graph(graph);
  request.set_name(name);
  return impl_->channel.Call(impl_->graphs.get(), &GraphStub::DeleteFeatures, request, graph).status();
}

absl::StatusOr<v1::TuneGraphResponse> Client::TuneGraph(const v1::TuneGraphRequest& request) {
  return impl_->channel.Call(impl_->graphs.get(), &GraphStub::TuneGraph, request, request.name(),
                             impl_->channel.options().upload_timeout);
}

absl::StatusOr<std::string> Client::ExportTuning(const std::string& name) {
  v1::GetTuningRequest request;
  request.set_name(name);
  request.set_export_text(true);
  // Not through Call, which would escape the line breaks: the text is a JSON document.
  grpc::ClientContext context;
  impl_->channel.Prepare(&context, impl_->channel.options().call_timeout, name);
  v1::GetTuningResponse response;
  const grpc::Status status = impl_->graphs->GetTuning(&context, request, &response);
  if (!status.ok()) return impl_->channel.Translate(status);
  return impl_->channel.options().printable ? PrintableJson(response.text()) : response.text();
}

absl::StatusOr<v1::GetTuningResponse> Client::GetTuning(const std::string& name) {
  v1::GetTuningRequest request;
  request.set_name(name);
  return impl_->channel.Call(impl_->graphs.get(), &GraphStub::GetTuning, request, name);
}

absl::StatusOr<v1::GraphPicture> Client::GetGraphPicture(const std::string& name, int32_t tiles) {
  v1::GetGraphPictureRequest request;
  request.set_name(name);
  request.set_tiles(tiles);
  CLIENT_ASSIGN_OR_RETURN(v1::GraphPicture picture,
                          impl_->channel.Call(impl_->graphs.get(), &GraphStub::GetGraphPicture, request, name));
  CLIENT_RETURN_IF_ERROR(internal::CheckPicture(picture));
  return picture;
}

absl::StatusOr<v1::Model> Client::GetModel(const std::string& name) {
  v1::GetModelRequest request;
  request.set_name(name);
  return impl_->channel.Call(impl_->models.get(), &ModelStub::GetModel, request, std::string());
}

absl::StatusOr<std::vector<v1::Model>> Client::ListModels() {
  return internal::AllPages<v1::Model, v1::ListModelsRequest, v1::ListModelsResponse>(
      [&](const v1::ListModelsRequest& request) {
        return impl_->channel.Call(impl_->models.get(), &ModelStub::ListModels, request, std::string());
      },
      &v1::ListModelsResponse::models);
}

absl::Status Client::DeleteModel(const std::string& name, int64_t if_version) {
  v1::DeleteModelRequest request;
  request.set_name(name);
  request.set_if_version(if_version);
  return impl_->channel.Call(impl_->models.get(), &ModelStub::DeleteModel, request, std::string()).status();
}

absl::StatusOr<v1::ClassifyResponse> Client::Classify(const v1::ClassifyRequest& request) {
  return impl_->CheckedCall(&InferenceStub::Classify, request, request.target().graph(),
                            internal::RowsAsked(request.nodes(), 0));
}

absl::StatusOr<v1::EmbedResponse> Client::Embed(const v1::EmbedRequest& request) {
  return impl_->CheckedCall(&InferenceStub::Embed, request, request.target().graph(), internal::RowsAsked(request, 0));
}

absl::StatusOr<v1::ClassifyGraphsResponse> Client::ClassifyGraphs(const v1::ClassifyGraphsRequest& request) {
  const auto& ptr = request.graphs().ptr().shape();
  return impl_->CheckedCall(&InferenceStub::ClassifyGraphs, request, std::string(),
                            ptr.size() == 1 && ptr[0] > 0 ? std::optional(ptr[0] - 1) : std::nullopt);
}

absl::Status Client::ClassifyStream(const v1::ClassifyRequest& request,
                                    const std::function<absl::Status(const v1::ClassifyResponse&)>& piece,
                                    int64_t node_count) {
  return impl_->CheckedStream(&InferenceStub::ClassifyStream, request, internal::RowsAsked(request.nodes(), node_count),
                              piece);
}

absl::Status Client::EmbedStream(const v1::EmbedRequest& request,
                                 const std::function<absl::Status(const v1::EmbedResponse&)>& piece,
                                 int64_t node_count) {
  return impl_->CheckedStream(&InferenceStub::EmbedStream, request, internal::RowsAsked(request, node_count), piece);
}

absl::StatusOr<v1::PredictLinksResponse> Client::PredictLinks(const v1::PredictLinksRequest& request) {
  return impl_->CheckedCall(&InferenceStub::PredictLinks, request, request.target().graph(),
                            internal::RowsAsked(request));
}

absl::Status Client::PredictLinksStream(const v1::PredictLinksRequest& request,
                                        const std::function<absl::Status(const v1::PredictLinksResponse&)>& piece) {
  return impl_->CheckedStream(&InferenceStub::PredictLinksStream, request, internal::RowsAsked(request), piece);
}

absl::StatusOr<v1::TopLinksResponse> Client::TopLinks(const v1::TopLinksRequest& request) {
  return impl_->CheckedCall(&InferenceStub::TopLinks, request, request.target().graph(),
                            internal::RowsAsked(request.nodes(), 0));
}

absl::Status Client::TopLinksStream(const v1::TopLinksRequest& request,
                                    const std::function<absl::Status(const v1::TopLinksResponse&)>& piece,
                                    int64_t node_count) {
  return impl_->CheckedStream(&InferenceStub::TopLinksStream, request, internal::RowsAsked(request.nodes(), node_count),
                              piece);
}

std::unique_ptr<QueryStream> Client::OpenQueryStream(v1::AnswerOrder order, const std::string& graph,
                                                     std::chrono::milliseconds timeout) {
  auto impl = std::make_unique<QueryStream::Impl>(impl_->channel, order);
  impl_->channel.Prepare(&impl->context, timeout, graph);
  impl->stream = impl_->inference->InferStream(&impl->context);
  return std::unique_ptr<QueryStream>(new QueryStream(std::move(impl)));
}

absl::StatusOr<v1::Capabilities> Client::GetCapabilities() {
  return impl_->channel.Call(impl_->server.get(), &ServerStub::GetCapabilities, v1::GetCapabilitiesRequest(),
                             std::string());
}

absl::StatusOr<v1::ExplainResponse> Client::Explain(const v1::ExplainRequest& request) {
  return impl_->channel.Call(impl_->server.get(), &ServerStub::Explain, request, request.target().graph());
}

absl::StatusOr<std::string> Client::CheckHealth(const std::string& service) {
  return internal::CheckHealth(impl_->channel, service);
}

}  // namespace vicinal::client
