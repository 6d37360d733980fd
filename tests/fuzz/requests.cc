// SPDX-License-Identifier: Apache-2.0
// Every method of the API, through its handler and a real engine. An input is a list of calls as text (calls.proto), so
// that uploads are sequences and one call sees what another left. Checked beyond crashes: no input causes INTERNAL,
// errors obey docs/errors.md, replies parse again, and no memory stays reserved.
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "tests/fuzz/calls.pb.h"
#include "tests/fuzz/target.h"
#include "tests/fuzz/world.h"

namespace vicinal::fuzz {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// A client must be able to parse what the server sends.
void CheckReply(const Message& reply) {
  const std::string bytes = reply.SerializeAsString();
  const std::unique_ptr<Message> again(reply.New());
  FUZZ_CHECK(again->ParseFromString(bytes), reply.ShortDebugString());
}

constexpr std::chrono::milliseconds kMaxTuning{100};

// The calls of one input.
class Session {
 public:
  explicit Session(World& world)
      : world_(world),
        uploads_({.max_chunk_bytes = world.limits.max_chunk_bytes,
                  .max_open_uploads = world.limits.max_open_uploads,
                  .budget = &world.engine->memory()}),
        graphs_(*world.engine, uploads_, world.metrics, world.limits),
        models_(*world.engine, uploads_, world.metrics, world.limits),
        inference_(*world.engine, world.metrics, world.workers, world.limits, nullptr),
        server_(*world.engine, world.limits, {}, nullptr),
        open_(
            *world.engine, inference_, world.limits, [] { return true; }, nullptr) {}

  // Whether a call changed what the world has.
  bool changed() const { return changed_; }

  void Run(const Call& call);

 private:
  using Case = Call::RequestCase;

  // `handle(request, &reply)`, with the checks of every answer. Whether it was OK.
  template <class Reply, class Handle>
  bool Unary(const Handle& handle) {
    Reply reply;
    const Status status = handle(&reply);
    if (status.ok()) CheckReply(reply);
    if (!status.ok()) CheckError(status);
    return status.ok();
  }
  template <class Reply, class Start>
  void Async(const Start& start) {
    Unary<Reply>([&](Reply* reply) {
      std::promise<Status> done;
      start(reply, [&](Status status) { done.set_value(std::move(status)); });
      return done.get_future().get();
    });
  }
  template <class Reply, class Start>
  void Stream(const Start& start) {
    using Made = StatusOr<std::unique_ptr<server::Pieces<Reply>>>;
    std::promise<Made> done;
    start([&](Made made) { done.set_value(std::move(made)); });
    Made pieces = done.get_future().get();
    if (!pieces.ok()) return CheckError(pieces.status());
    while (true) {
      Reply reply;
      const StatusOr<bool> last = (*pieces)->Next(&reply);
      if (!last.ok()) return CheckError(last.status());
      CheckReply(reply);
      if (*last) return;
    }
  }
  template <class Reply, class Uploads, class Request, class Open>
  void Upload(Uploads* streams, const Call& call, const Request& request, const Open& open);

  template <class Uploading, class Reply>
  void Await(Uploading& stream, Reply reply);

  bool RunGraphs(const Call& call, server::Call& about);
  bool RunModels(const Call& call, server::Call& about);
  void RunInference(const Call& call, server::Call& about);
  void RunOpenInference(const Call& call, server::Call& about);
  void Watch(const v1::WatchGraphRequest& request, const server::Call& about);
  void Tune(const v1::TuneGraphRequest& request, server::Call& about);

  World& world_;
  server::UploadStore uploads_;
  server::GraphHandler graphs_;
  server::ModelHandler models_;
  server::InferenceHandler inference_;
  server::ServerHandler server_;
  server::OpenInferenceHandler open_;
  server::Call upload_call_;  // outlives the streams
  std::map<uint32_t, std::unique_ptr<server::GraphHandler::GraphUpload>> graph_streams_;
  std::map<uint32_t, std::unique_ptr<server::GraphHandler::FeaturesUpload>> features_streams_;
  std::map<uint32_t, std::unique_ptr<server::ModelHandler::ModelUpload>> model_streams_;
  bool changed_ = false;
  // One for all calls of the input.
  const MonotonicTime tuning_ends_ = Clock::Real().Now() + kMaxTuning;
};

// What was uploaded has been prepared, and the engine has no disk: the wait is over.
template <class Uploading, class Reply>
void Session::Await(Uploading& stream, Reply reply) {
  const auto subscription = stream.Watch([] {});
  const StatusOr<bool> reached = stream.Look(&reply);
  if (!reached.ok()) return CheckError(reached.status());
  FUZZ_CHECK(*reached, reply.ShortDebugString());
  CheckReply(reply);
}

template <class Reply, class Uploads, class Request, class Open>
void Session::Upload(Uploads* streams, const Call& call, const Request& request, const Open& open) {
  auto& stream = (*streams)[call.stream()];
  if (stream == nullptr) stream = open();
  const auto next = stream->Take(request);
  bool over = call.last() || !next.ok();
  if (!next.ok()) {
    CheckError(next.status());
  } else if (*next == server::UploadNext::kFinish) {
    over = true;
    const server::Call about;
    Reply made;
    const bool done = Unary<Reply>([&](Reply* reply) {
      Status status = stream->Finish(about, reply);
      made = *reply;
      return status;
    });
    changed_ |= done;
    world_.AwaitPreparation();
    if (done && stream->waits()) Await(*stream, made);
  } else if (call.last()) {
    Unary<Reply>([&](Reply* reply) { return stream->End(reply); });
  }
  if (over) streams->erase(call.stream());
}

void Session::Watch(const v1::WatchGraphRequest& request, const server::Call& about) {
  const auto watch = graphs_.Watch(about, request, [] {});
  if (!watch.ok()) return CheckError(watch.status());
  const auto now = graphs_.Look(request.name());
  now.ok() ? CheckReply(now->graph) : CheckError(now.status());
}

// A request may order hours of measuring. Its deadline ends the wait, and the end of the world what it ordered.
void Session::Tune(const v1::TuneGraphRequest& request, server::Call& about) {
  about.limits.deadline = tuning_ends_;
  Status status;
  Unary<v1::TuneGraphResponse>([&](auto* reply) { return status = graphs_.TuneGraph(about, request, reply); });
  changed_ |= status.ok() || status.code() == StatusCode::kDeadlineExceeded;
}

bool Session::RunGraphs(const Call& call, server::Call& about) {
  switch (call.request_case()) {
    case Case::kUploadGraph:
      Upload<v1::UploadGraphResponse>(&graph_streams_, call, call.upload_graph(),
                                      [&] { return graphs_.UploadGraph(upload_call_); });
      return true;
    case Case::kUploadFeatures:
      Upload<v1::UploadFeaturesResponse>(&features_streams_, call, call.upload_features(),
                                         [&] { return graphs_.UploadFeatures(upload_call_); });
      return true;
    case Case::kGetUpload:
      Unary<v1::Upload>([&](auto* reply) { return graphs_.GetUpload(about, call.get_upload(), reply); });
      return true;
    case Case::kGetGraph:
      Unary<v1::Graph>([&](auto* reply) { return graphs_.GetGraph(about, call.get_graph(), reply); });
      return true;
    case Case::kListGraphs:
      Unary<v1::ListGraphsResponse>([&](auto* reply) { return graphs_.ListGraphs(about, call.list_graphs(), reply); });
      return true;
    case Case::kWatchGraph:
      Watch(call.watch_graph(), about);
      return true;
    case Case::kDeleteGraph:
      changed_ |= Unary<v1::DeleteGraphResponse>(
          [&](auto* reply) { return graphs_.DeleteGraph(about, call.delete_graph(), reply); });
      return true;
    case Case::kTuneGraph:
      Tune(call.tune_graph(), about);
      return true;
    case Case::kGetTuning:
      Unary<v1::GetTuningResponse>([&](auto* reply) { return graphs_.GetTuning(about, call.get_tuning(), reply); });
      return true;
    case Case::kGetGraphPicture:
      Unary<v1::GraphPicture>(
          [&](auto* reply) { return graphs_.GetGraphPicture(about, call.get_graph_picture(), reply); });
      return true;
    case Case::kListFeatures:
      Unary<v1::ListFeaturesResponse>(
          [&](auto* reply) { return graphs_.ListFeatures(about, call.list_features(), reply); });
      return true;
    case Case::kDeleteFeatures:
      changed_ |= Unary<v1::DeleteFeaturesResponse>(
          [&](auto* reply) { return graphs_.DeleteFeatures(about, call.delete_features(), reply); });
      return true;
    default:
      return false;
  }
}

bool Session::RunModels(const Call& call, server::Call& about) {
  switch (call.request_case()) {
    case Case::kUploadModel:
      Upload<v1::UploadModelResponse>(&model_streams_, call, call.upload_model(),
                                      [&] { return models_.UploadModel(upload_call_); });
      return true;
    case Case::kGetModel:
      Unary<v1::Model>([&](auto* reply) { return models_.GetModel(about, call.get_model(), reply); });
      return true;
    case Case::kListModels:
      Unary<v1::ListModelsResponse>([&](auto* reply) { return models_.ListModels(about, call.list_models(), reply); });
      return true;
    case Case::kDeleteModel:
      changed_ |= Unary<v1::DeleteModelResponse>(
          [&](auto* reply) { return models_.DeleteModel(about, call.delete_model(), reply); });
      return true;
    case Case::kGetCapabilities:
      Unary<v1::Capabilities>(
          [&](auto* reply) { return server_.GetCapabilities(about, call.get_capabilities(), reply); });
      return true;
    case Case::kExplain:
      Unary<v1::ExplainResponse>([&](auto* reply) { return server_.Explain(about, call.explain(), reply); });
      return true;
    default:
      return false;
  }
}

void Session::RunInference(const Call& call, server::Call& about) {
  switch (call.request_case()) {
    case Case::kClassify:
      return Async<v1::ClassifyResponse>(
          [&](auto* reply, auto done) { inference_.Classify(about, call.classify(), reply, std::move(done)); });
    case Case::kEmbed:
      return Async<v1::EmbedResponse>(
          [&](auto* reply, auto done) { inference_.Embed(about, call.embed(), reply, std::move(done)); });
    case Case::kClassifyGraphs:
      return Async<v1::ClassifyGraphsResponse>([&](auto* reply, auto done) {
        inference_.ClassifyGraphs(about, call.classify_graphs(), reply, std::move(done));
      });
    case Case::kClassifyStream:
      return Stream<v1::ClassifyResponse>(
          [&](auto done) { inference_.ClassifyStream(about, call.classify_stream(), std::move(done)); });
    case Case::kEmbedStream:
      return Stream<v1::EmbedResponse>(
          [&](auto done) { inference_.EmbedStream(about, call.embed_stream(), std::move(done)); });
    case Case::kInferStream:
      return Async<v1::InferStreamResponse>(
          [&](auto* reply, auto done) { inference_.Infer(about, call.infer_stream(), reply, std::move(done)); });
    case Case::kPredictLinks:
      return Async<v1::PredictLinksResponse>([&](auto* reply, auto done) {
        inference_.PredictLinks(about, call.predict_links(), reply, std::move(done));
      });
    case Case::kPredictLinksStream:
      return Stream<v1::PredictLinksResponse>(
          [&](auto done) { inference_.PredictLinksStream(about, call.predict_links_stream(), std::move(done)); });
    case Case::kTopLinks:
      return Async<v1::TopLinksResponse>(
          [&](auto* reply, auto done) { inference_.TopLinks(about, call.top_links(), reply, std::move(done)); });
    case Case::kTopLinksStream:
      return Stream<v1::TopLinksResponse>(
          [&](auto done) { inference_.TopLinksStream(about, call.top_links_stream(), std::move(done)); });
    default:
      return RunOpenInference(call, about);
  }
}

void Session::RunOpenInference(const Call& call, server::Call& about) {
  const auto infer = [&](const inference::ModelInferRequest& request) {
    Async<inference::ModelInferResponse>(
        [&](auto* reply, auto done) { open_.ModelInfer(about, request, reply, std::move(done)); });
  };
  const auto answer = [&]<class Request, class Reply>(
                          Status (server::OpenInferenceHandler::*method)(const server::Call&, const Request&, Reply*),
                          const Request& request) {
    Unary<Reply>([&](Reply* reply) { return (open_.*method)(about, request, reply); });
  };
  switch (call.request_case()) {
    case Case::kModelInfer:
      return infer(call.model_infer());
    case Case::kModelStreamInfer:
      return infer(call.model_stream_infer());
    case Case::kServerLive:
      return answer(&server::OpenInferenceHandler::ServerLive, call.server_live());
    case Case::kServerReady:
      return answer(&server::OpenInferenceHandler::ServerReady, call.server_ready());
    case Case::kModelReady:
      return answer(&server::OpenInferenceHandler::ModelReady, call.model_ready());
    case Case::kServerMetadata:
      return answer(&server::OpenInferenceHandler::ServerMetadata, call.server_metadata());
    case Case::kModelMetadata:
      return answer(&server::OpenInferenceHandler::ModelMetadata, call.model_metadata());
    case Case::kModelConfig:
      return answer(&server::OpenInferenceHandler::ModelConfig, call.model_config());
    case Case::kModelStatistics:
      return answer(&server::OpenInferenceHandler::ModelStatistics, call.model_statistics());
    case Case::kRepositoryIndex:
      return answer(&server::OpenInferenceHandler::RepositoryIndex, call.repository_index());
    case Case::REQUEST_NOT_SET:
      return;
    default:
      Fail(__FILE__, __LINE__, "a method that no target calls: " + call.ShortDebugString());
  }
}

void Session::Run(const Call& call) {
  server::Call about;
  if (!call.routed_graph().empty()) about.RouteTo(call.routed_graph());
  if (RunGraphs(call, about) || RunModels(call, about)) return;
  RunInference(call, about);
}

// gRPC refuses what does not parse; text that is no UTF-8 is such a message.
bool ParseAsOnTheWire(std::string_view input, Calls* calls) {
  Calls text;
  google::protobuf::TextFormat::Parser parser;
  struct Silent final : google::protobuf::io::ErrorCollector {
    void AddError(int, int, const std::string&) override {}
  } silent;
  parser.RecordErrorsTo(&silent);
  parser.SetRecursionLimit(50);
  if (!parser.ParseFromString(std::string(input), &text)) return false;
  return calls->ParseFromString(text.SerializeAsString());
}

constexpr int kMaxCalls = 24;

void RunCalls(std::string_view input, const std::set<int>& fields) {
  Calls calls;
  if (!ParseAsOnTheWire(input, &calls)) return;
  static std::unique_ptr<World> world;
  if (world == nullptr) world = std::make_unique<World>();
  bool changed = false;
  {
    Session session(*world);
    for (int i = 0; i < std::min(calls.calls_size(), kMaxCalls); ++i) {
      if (fields.contains(calls.calls(i).request_case())) session.Run(calls.calls(i));
    }
    changed = session.changed();
  }
  // The session had the uploads: none is left.
  if (changed) {
    world->AwaitPreparation();
    world.reset();
  } else {
    world->CheckNothingReserved();
  }
}

// GetGraph of "get_graph".
std::string MethodOf(const std::string& field) {
  std::string name;
  bool upper = true;
  for (const char c : field) {
    if (c != '_') name += upper ? static_cast<char>(c - 'a' + 'A') : c;
    upper = c == '_';
  }
  return name;
}

std::string ServiceOf(const std::string& method) {
  for (const auto* file : {v1::GetGraphRequest::descriptor()->file(), v1::GetModelRequest::descriptor()->file(),
                           v1::ClassifyRequest::descriptor()->file(), v1::ExplainRequest::descriptor()->file(),
                           inference::ModelInferRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      if (file->service(i)->FindMethodByName(method) != nullptr) return file->service(i)->name();
    }
  }
  Fail(__FILE__, __LINE__, "no service has the method " + method);
}

Target Requests(const std::string& name, const std::string& corpus, const std::vector<std::string>& methods) {
  std::set<int> fields;
  const auto* oneof = Call::descriptor()->FindOneofByName("request");
  for (int i = 0; i < oneof->field_count(); ++i) {
    const std::string method = MethodOf(oneof->field(i)->name());
    if (std::find(methods.begin(), methods.end(), method) != methods.end()) fields.insert(oneof->field(i)->number());
  }
  return {name, corpus, [fields](std::string_view input) { RunCalls(input, fields); }, methods};
}

}  // namespace

// One target per service, which CI runs; one for uploads; and one per method, for long runs.
std::vector<Target> RequestTargets() {
  std::map<std::string, std::vector<std::string>> services;
  const auto* oneof = Call::descriptor()->FindOneofByName("request");
  for (int i = 0; i < oneof->field_count(); ++i) {
    const std::string method = MethodOf(oneof->field(i)->name());
    services[ServiceOf(method)].push_back(method);
  }
  std::vector<Target> targets;
  for (const auto& [service, methods] : services) {
    targets.push_back(Requests(service, service, methods));
    for (const std::string& method : methods) targets.push_back(Requests(service + "." + method, service, {method}));
  }
  targets.push_back(Requests("uploads", "uploads", {"UploadGraph", "UploadFeatures", "UploadModel", "GetUpload"}));
  return targets;
}

}  // namespace vicinal::fuzz
