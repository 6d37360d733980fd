// SPDX-License-Identifier: Apache-2.0
// The rules of proto/vicinal/v1 in their plainest form, with one lock around everything.
#include "tests/client/cpp/fake_server.h"

#include <google/protobuf/any.pb.h>

#include <algorithm>
#include <utility>

#include "proto/wire/crc32c.h"
#include "proto/wire/tensors.h"
#include "vicinal/v1/error_details.pb.h"

namespace vicinal::client {
namespace {

grpc::Status NodeAtFault(const std::string& reason) {
  return StatusWithDetails(grpc::StatusCode::FAILED_PRECONDITION, "node 1 is at fault", reason, {{"node", "1"}});
}

void Pack(const google::protobuf::Message& message, const std::string& type, v1::details::Status* status) {
  google::protobuf::Any* any = status->add_details();
  any->set_type_url("type.googleapis.com/google.rpc." + type);
  message.SerializeToString(any->mutable_value());
}

struct UploadState {
  std::map<std::string, int64_t> sizes;
  std::map<std::string, std::string> bytes;
  bool finished = false;
  std::string type;
  std::string name;
};

// Everything the services share.
struct State {
  std::mutex mutex;
  Faults faults;
  Seen seen;
  std::map<std::string, UploadState> uploads;
  std::string last_upload;
  std::map<std::string, v1::Graph> graphs;
  std::map<std::string, v1::Model> models;

  void Note(const grpc::ServerContext* context) {
    const auto& metadata = context->client_metadata();
    const auto graph = metadata.find("vicinal-graph");
    seen.graph_metadata.push_back(graph == metadata.end() ? "-"
                                                          : std::string(graph->second.data(), graph->second.size()));
    const auto authorization = metadata.find("authorization");
    if (authorization != metadata.end()) {
      seen.authorization = std::string(authorization->second.data(), authorization->second.size());
    }
  }
};

v1::Upload Describe(const std::string& id, const UploadState& state) {
  v1::Upload upload;
  upload.set_upload_id(id);
  upload.set_state(state.finished ? v1::Upload::STATE_FINISHED : v1::Upload::STATE_UPLOADING);
  upload.set_resource_type(state.type);
  upload.set_resource_name(state.name);
  for (const auto& [name, size] : state.sizes) {
    v1::TensorProgress* progress = upload.add_tensors();
    progress->set_name(name);
    progress->set_received_bytes(static_cast<int64_t>(state.bytes.at(name).size()));
    progress->set_size_bytes(size);
  }
  return upload;
}

// Keeps one chunk, or says why not.
grpc::Status Keep(const v1::UploadChunk& chunk, State* state, UploadState* upload) {
  if (upload->sizes.count(chunk.tensor()) == 0) return {grpc::StatusCode::INVALID_ARGUMENT, "no such tensor"};
  std::string& bytes = upload->bytes[chunk.tensor()];
  const bool damaged = wire::Crc32c(chunk.data().data(), chunk.data().size()) != chunk.crc32c();
  if (damaged || state->faults.damage_chunk || chunk.offset_bytes() != static_cast<int64_t>(bytes.size())) {
    state->faults.damage_chunk = false;
    return StatusWithDetails(grpc::StatusCode::ABORTED, "a chunk is damaged or out of place", "CHUNK_DAMAGED",
                             {{"tensor", chunk.tensor()}, {"offset", std::to_string(bytes.size())}});
  }
  bytes += chunk.data();
  state->seen.chunks.emplace_back(chunk.tensor(), chunk.offset_bytes());
  state->seen.largest_chunk = std::max<int64_t>(state->seen.largest_chunk, static_cast<int64_t>(chunk.data().size()));
  return grpc::Status::OK;
}

// Takes in a whole upload stream. `done` makes the resource, once.
template <class Request, class Spec, class Done>
grpc::Status Receive(grpc::ServerReader<Request>* reader, State* state, const std::string& type,
                     const std::string& (*name_of)(const Spec&), Spec* kept_spec, std::string* id, const Done& done) {
  Request request;
  int kept = 0;
  UploadState* upload = nullptr;
  while (reader->Read(&request)) {
    const std::lock_guard<std::mutex> lock(state->mutex);
    if (request.has_spec()) {
      state->seen.first_messages.push_back("spec");
      if (state->faults.abort_version) return {grpc::StatusCode::ABORTED, "if_version is 3, the graph has 4"};
      *kept_spec = request.spec();
      *id = request.spec().upload_id();
      upload = &state->uploads[*id];
      upload->type = type;
      upload->name = name_of(request.spec());
      for (const v1::TensorSpec& tensor : request.spec().tensors()) {
        upload->sizes[tensor.name()] =
            wire::ByteSize(tensor.dtype(), {tensor.shape().begin(), tensor.shape().end()}).value();
        upload->bytes[tensor.name()];
      }
    } else if (request.message_case() == Request::kResumeUploadId) {
      state->seen.first_messages.push_back("resume");
      *id = request.resume_upload_id();
      if (state->uploads.count(*id) == 0) return {grpc::StatusCode::NOT_FOUND, "no such upload"};
      upload = &state->uploads[*id];
    } else if (upload == nullptr) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "the first message is no spec"};
    } else if (request.has_chunk()) {
      if (state->faults.breaks > 0 && kept == state->faults.break_after_chunks) {
        --state->faults.breaks;
        if (state->faults.break_reason.empty()) return {state->faults.break_code, "the stream broke"};
        return StatusWithDetails(state->faults.break_code, "it was refused", state->faults.break_reason, {});
      }
      const grpc::Status status = Keep(request.chunk(), state, upload);
      if (!status.ok()) return status;
      ++kept;
    } else {
      ++state->seen.finishes;
      const bool durable = request.finish().wait_for() == v1::WAIT_FOR_DURABLE;
      state->seen.waits.push_back(request.finish().wait_for());
      if (durable && std::exchange(state->faults.lose_wait, false)) {
        return {grpc::StatusCode::UNAVAILABLE, "the connection broke"};
      }
      if (durable && state->faults.disk_full) {
        return StatusWithDetails(grpc::StatusCode::RESOURCE_EXHAUSTED, "could not be written", "STATE_DISK_FULL", {});
      }
      for (const auto& [name, size] : upload->sizes) {
        if (static_cast<int64_t>(upload->bytes[name].size()) != size) {
          return {grpc::StatusCode::INVALID_ARGUMENT, "finish came before all of " + name};
        }
      }
      state->last_upload = *id;
      if (!upload->finished) done();
      upload->finished = true;
      if (state->faults.lose_finish) {
        state->faults.lose_finish = false;
        return {grpc::StatusCode::UNAVAILABLE, "the answer was lost"};
      }
      return grpc::Status::OK;
    }
  }
  return {grpc::StatusCode::CANCELLED, "the stream ended without finish"};
}

class FakeGraphs final : public v1::GraphService::Service {
 public:
  explicit FakeGraphs(State* state) : state_(state) {}

  grpc::Status UploadGraph(grpc::ServerContext* context, grpc::ServerReader<v1::UploadGraphRequest>* reader,
                           v1::UploadGraphResponse* response) override {
    Note(context);
    std::string id;
    const auto make = [&] {
      const v1::UploadGraphSpec& spec = state_->seen.graph_spec;
      if (state_->faults.on_prepare) state_->faults.on_prepare();
      ++state_->seen.prepared;
      v1::Graph& graph = state_->graphs[spec.name()];
      if (state_->faults.fail_replace) {
        graph.set_error_code(3);
        graph.set_error_message("edge 7 points to node 99");
        return;
      }
      graph.clear_error_code();
      graph.clear_error_message();
      graph.set_name(spec.name());
      graph.set_version(graph.version() + 1);
      graph.set_node_count(spec.node_count());
      graph.set_reorder(spec.reorder());
      graph.set_ids_digest(spec.ids_digest());
      graph.set_source_digest(spec.source_digest());
      graph.set_order("none");
      graph.clear_stages();
      graph.add_stages()->set_stage("renumber");
      graph.mutable_stages(0)->set_seconds(2);
      graph.mutable_profile()->set_window(1024);
      graph.clear_feature_sets();
      graph.clear_edge_feature_sets();
      graph.set_edge_order_kept(spec.keep_edge_order());
      for (const v1::TensorSpec& tensor : spec.tensors()) {
        if (tensor.name() == "edge_index") graph.set_edge_count(tensor.shape(1));
        if (tensor.name() == "edge_attr") graph.set_edge_order_kept(true);
        if (tensor.name() != "x" && tensor.name() != "x_values") continue;
        graph.add_feature_sets()->set_name("default");
        graph.mutable_feature_sets(0)->set_source_digest(spec.source_digest());
      }
      graph.set_state(state_->faults.fail_preparation ? v1::Graph::STATE_FAILED : v1::Graph::STATE_READY);
      if (state_->faults.fail_preparation) {
        graph.set_error_code(3);
        graph.set_error_message("edge 7 points to node 99");
      }
      graph.mutable_create_time()->set_seconds(1'700'000'000 + graph.version());
    };
    const grpc::Status status = Receive<v1::UploadGraphRequest>(
        reader, state_, "graph", +[](const v1::UploadGraphSpec& spec) -> const std::string& { return spec.name(); },
        &state_->seen.graph_spec, &id, make);
    if (status.ok()) {
      const std::lock_guard<std::mutex> lock(state_->mutex);
      *response->mutable_upload() = Describe(id, state_->uploads[id]);
      *response->mutable_graph() = state_->graphs[state_->seen.graph_spec.name()];
      response->mutable_graph()->set_state(v1::Graph::STATE_PREPARING);
    }
    return status;
  }

  grpc::Status GetUpload(grpc::ServerContext* context, const v1::GetUploadRequest* request,
                         v1::Upload* upload) override {
    Note(context);
    const std::lock_guard<std::mutex> lock(state_->mutex);
    if (state_->faults.silent) return {grpc::StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded"};
    if (state_->uploads.count(request->upload_id()) == 0) return {grpc::StatusCode::NOT_FOUND, "no such upload"};
    *upload = Describe(request->upload_id(), state_->uploads[request->upload_id()]);
    return grpc::Status::OK;
  }

  grpc::Status GetGraph(grpc::ServerContext* context, const v1::GetGraphRequest* request, v1::Graph* graph) override {
    Note(context);
    const std::lock_guard<std::mutex> lock(state_->mutex);
    if (state_->faults.busy_calls > 0) {
      --state_->faults.busy_calls;
      return {grpc::StatusCode::UNAVAILABLE, "the queue is full"};
    }
    if (state_->graphs.count(request->name()) == 0) {
      return StatusWithDetails(grpc::StatusCode::NOT_FOUND, "graph '" + request->name() + "' does not exist",
                               "GRAPH_NOT_FOUND", {});
    }
    *graph = state_->graphs[request->name()];
    return grpc::Status::OK;
  }

  grpc::Status ListGraphs(grpc::ServerContext* context, const v1::ListGraphsRequest* request,
                          v1::ListGraphsResponse* response) override {
    Note(context);
    const std::lock_guard<std::mutex> lock(state_->mutex);
    // Pages of one graph, so that paging is used.
    auto at = state_->graphs.upper_bound(request->page_token());
    if (request->page_token().empty()) at = state_->graphs.begin();
    if (at == state_->graphs.end()) return grpc::Status::OK;
    *response->add_graphs() = at->second;
    if (std::next(at) != state_->graphs.end()) response->set_next_page_token(at->first);
    return grpc::Status::OK;
  }

  grpc::Status WatchGraph(grpc::ServerContext* context, const v1::WatchGraphRequest* request,
                          grpc::ServerWriter<v1::Graph>* writer) override {
    Note(context);
    const std::lock_guard<std::mutex> lock(state_->mutex);
    v1::Graph graph = state_->graphs[request->name()];
    const v1::Graph::State end = graph.state();
    graph.set_state(v1::Graph::STATE_PREPARING);
    graph.set_progress(0.5);
    writer->Write(graph);
    graph.set_state(end);
    graph.set_progress(1);
    writer->Write(graph);
    return grpc::Status::OK;
  }

  grpc::Status DeleteGraph(grpc::ServerContext* context, const v1::DeleteGraphRequest* request,
                           v1::DeleteGraphResponse*) override {
    Note(context);
    const std::lock_guard<std::mutex> lock(state_->mutex);
    if (state_->graphs.erase(request->name()) == 0) return {grpc::StatusCode::NOT_FOUND, "no such graph"};
    return grpc::Status::OK;
  }

  // A record for each width asked for; GetTuning's is of width 1.
  grpc::Status TuneGraph(grpc::ServerContext* context, const v1::TuneGraphRequest* request,
                         v1::TuneGraphResponse* response) override {
    Note(context);
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->seen.tune = *request;
    if (request->force().kernel() == "unwilling") {
      return StatusWithDetails(grpc::StatusCode::INVALID_ARGUMENT, "'unwilling' does not take this", "KERNEL_REFUSED",
                               {});
    }
    response->set_name(request->name());
    response->set_version(3);
    for (const int64_t width : request->widths()) *response->add_records() = Record(width);
    return grpc::Status::OK;
  }

  grpc::Status GetTuning(grpc::ServerContext* context, const v1::GetTuningRequest* request,
                         v1::GetTuningResponse* response) override {
    Note(context);
    response->set_name(request->name());
    *response->add_records() = Record(1);
    return grpc::Status::OK;
  }

  // Of three nodes, 0 -> 1 -> 2 as uploaded, and the other way round.
  grpc::Status GetGraphPicture(grpc::ServerContext* context, const v1::GetGraphPictureRequest* request,
                               v1::GraphPicture* picture) override {
    Note(context);
    const std::lock_guard<std::mutex> lock(state_->mutex);
    if (state_->graphs.count(request->name()) == 0) return {grpc::StatusCode::NOT_FOUND, "no such graph"};
    picture->set_name(request->name());
    picture->set_version(3);
    picture->set_node_count(3);
    picture->set_edge_count(2);
    picture->set_order("rcm");
    picture->set_tiles(3);
    picture->set_row_stride(2);
    for (const int64_t count : {1, 2}) picture->add_degree_counts(count);
    for (const int64_t count : {0, 0, 0, 1, 0, 0, 0, 1, 0}) picture->add_before(count);
    for (const int64_t count : {0, 1, 0, 0, 0, 1, 0, 0, 0}) picture->add_after(count);
    return grpc::Status::OK;
  }

  grpc::Status UploadFeatures(grpc::ServerContext* context, grpc::ServerReader<v1::UploadFeaturesRequest>* reader,
                              v1::UploadFeaturesResponse* response) override {
    Note(context);
    std::string id;
    v1::UploadFeaturesSpec spec;
    const auto make = [&] {
      state_->seen.features_spec = spec;
      auto* const sets = Sets(spec.tensors(0).name() == "edge_attr", &state_->graphs[spec.graph()]);
      RemoveSet(spec.name(), sets);
      v1::FeatureSet* const set = sets->Add();
      set->set_name(spec.name());
      set->set_version(++versions_);
      set->set_source_digest(spec.source_digest());
    };
    const grpc::Status status = Receive<v1::UploadFeaturesRequest>(
        reader, state_, "feature set",
        +[](const v1::UploadFeaturesSpec& spec) -> const std::string& { return spec.name(); }, &spec, &id, make);
    response->mutable_feature_set()->set_graph(spec.graph());
    response->mutable_feature_set()->set_name(spec.name());
    response->mutable_feature_set()->set_feature_count(spec.feature_count());
    return status;
  }

  grpc::Status DeleteFeatures(grpc::ServerContext* context, const v1::DeleteFeaturesRequest* request,
                              v1::DeleteFeaturesResponse*) override {
    Note(context);
    const std::lock_guard<std::mutex> lock(state_->mutex);
    auto* const sets = Sets(request->kind() == v1::FEATURE_KIND_EDGES, &state_->graphs[request->graph()]);
    if (RemoveSet(request->name(), sets)) return grpc::Status::OK;
    return {grpc::StatusCode::NOT_FOUND, "no such feature set"};
  }

 private:
  using FeatureSets = google::protobuf::RepeatedPtrField<v1::FeatureSet>;
  static FeatureSets* Sets(bool of_edges, v1::Graph* graph) {
    return of_edges ? graph->mutable_edge_feature_sets() : graph->mutable_feature_sets();
  }
  static bool RemoveSet(const std::string& name, FeatureSets* sets) {
    for (int i = 0; i < sets->size(); ++i) {
      if (sets->Get(i).name() != name) continue;
      sets->DeleteSubrange(i, 1);
      return true;
    }
    return false;
  }
  static v1::TuningRecord Record(int64_t width) {
    v1::TuningRecord record;
    record.mutable_key()->set_operation("aggregate");
    record.mutable_key()->set_kind("sum");
    record.mutable_key()->set_width(width);
    record.mutable_key()->set_weights("per_edge");
    record.mutable_key()->set_precision(v1::PRECISION_FLOAT32);
    record.set_state(v1::TuningRecord::STATE_TUNED);
    v1::TuningCandidate* const candidate = record.add_candidates();
    candidate->set_kernel("simd_rows");
    candidate->set_outcome(v1::TuningCandidate::OUTCOME_CHOSEN);
    return record;
  }
  void Note(const grpc::ServerContext* context) {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->Note(context);
  }
  State* const state_;
  int64_t versions_ = 0;  // of feature sets
};

class FakeModels final : public v1::ModelService::Service {
 public:
  explicit FakeModels(State* state) : state_(state) {}

  grpc::Status UploadModel(grpc::ServerContext*, grpc::ServerReader<v1::UploadModelRequest>* reader,
                           v1::UploadModelResponse* response) override {
    std::string id;
    const auto make = [&] {
      const v1::UploadModelSpec& spec = state_->seen.model_spec;
      v1::Model& model = state_->models[spec.name()];
      model.set_name(spec.name());
      model.set_version(model.version() + 1);
      model.set_source_digest(spec.source_digest());
    };
    const grpc::Status status = Receive<v1::UploadModelRequest>(
        reader, state_, "model", +[](const v1::UploadModelSpec& spec) -> const std::string& { return spec.name(); },
        &state_->seen.model_spec, &id, make);
    response->mutable_model()->set_name(state_->seen.model_spec.name());
    if (status.ok() && state_->seen.model_spec.name() == "missed") return NodeAtFault("REFERENCE_MISSED");
    return status;
  }

  grpc::Status ListModels(grpc::ServerContext*, const v1::ListModelsRequest*,
                          v1::ListModelsResponse* response) override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    for (const auto& [name, model] : state_->models) *response->add_models() = model;
    return grpc::Status::OK;
  }

  grpc::Status DeleteModel(grpc::ServerContext*, const v1::DeleteModelRequest* request,
                           v1::DeleteModelResponse*) override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    if (state_->models.erase(request->name()) == 0) return {grpc::StatusCode::NOT_FOUND, "no such model"};
    return grpc::Status::OK;
  }

 private:
  State* const state_;
};

// The class of node n is n mod 5, its score 1 / (1 + n), its logits (n, -n).
void Fill(const std::vector<int64_t>& nodes, int32_t k, bool with_logits, v1::ClassifyResponse* response) {
  std::vector<int32_t> classes;
  std::vector<float> scores, logits;
  for (const int64_t node : nodes) {
    for (int32_t i = 0; i < k; ++i) {
      classes.push_back(static_cast<int32_t>((node + i) % 5));
      scores.push_back(1.0f / static_cast<float>(1 + node + i));
    }
    logits.push_back(static_cast<float>(node));
    logits.push_back(-static_cast<float>(node));
  }
  const auto rows = static_cast<int64_t>(nodes.size());
  *response->mutable_classes() = wire::MakeTensor(classes.data(), {rows, k});
  *response->mutable_scores() = wire::MakeTensor(scores.data(), {rows, k});
  if (with_logits) *response->mutable_logits() = wire::MakeTensor(logits.data(), {rows, 2});
}

class FakeInference final : public v1::InferenceService::Service {
 public:
  explicit FakeInference(State* state) : state_(state) {}

  grpc::Status Classify(grpc::ServerContext* context, const v1::ClassifyRequest* request,
                        v1::ClassifyResponse* response) override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->Note(context);
    state_->seen.classify = *request;
    if (request->target().model() == "negative") return NodeAtFault("NEGATIVE_DEGREE");
    response->mutable_timing()->set_receptive_field(true);
    response->mutable_timing()->set_computed_node_count(42);
    response->mutable_timing()->set_execute_seconds(++classify_calls_);
    Fill({request->nodes().ids().begin(), request->nodes().ids().end()}, request->top_k(), request->return_logits(),
         response);
    if (request->target().model() == "overflows") {
      const std::vector<float> scores(static_cast<size_t>(request->nodes().ids_size() * request->top_k()),
                                      std::numeric_limits<float>::quiet_NaN());
      *response->mutable_scores() = wire::MakeTensor(scores.data(), {request->nodes().ids_size(), request->top_k()});
    }
    response->mutable_served_by()->set_graph(request->target().graph());
    return grpc::Status::OK;
  }

  // All nodes of the graph, in pieces of four rows.
  grpc::Status ClassifyStream(grpc::ServerContext* context, const v1::ClassifyRequest* request,
                              grpc::ServerWriter<v1::ClassifyResponse>* writer) override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->Note(context);
    state_->seen.classify = *request;
    const int64_t count = state_->graphs[request->target().graph()].node_count();
    for (int64_t first = 0; first < count; first += 4) {
      std::vector<int64_t> nodes;
      for (int64_t node = first; node < std::min(first + 4, count); ++node) nodes.push_back(node);
      v1::ClassifyResponse piece;
      piece.set_first_row(first);
      Fill(nodes, request->top_k(), request->return_logits(), &piece);
      writer->Write(piece);
    }
    return grpc::Status::OK;
  }

  grpc::Status Embed(grpc::ServerContext*, const v1::EmbedRequest* request, v1::EmbedResponse* response) override {
    std::vector<float> values;
    for (const int64_t node : request->nodes().ids()) values.insert(values.end(), {static_cast<float>(node), 0.5f});
    *response->mutable_embeddings() = wire::MakeTensor(values.data(), {request->nodes().ids_size(), 2});
    return grpc::Status::OK;
  }

  // The class of a graph is its number of nodes.
  grpc::Status ClassifyGraphs(grpc::ServerContext* context, const v1::ClassifyGraphsRequest* request,
                              v1::ClassifyGraphsResponse* response) override {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->Note(context);
    state_->seen.classify_graphs = *request;
    const std::vector<int64_t> ptr = wire::ToInts(request->graphs().ptr()).value();
    std::vector<int32_t> classes;
    for (size_t g = 0; g + 1 < ptr.size(); ++g) classes.push_back(static_cast<int32_t>(ptr[g + 1] - ptr[g]));
    const std::vector<float> scores(classes.size(), 1);
    const auto rows = static_cast<int64_t>(classes.size());
    *response->mutable_classes() = wire::MakeTensor(classes.data(), {rows, 1});
    *response->mutable_scores() = wire::MakeTensor(scores.data(), {rows, 1});
    return grpc::Status::OK;
  }

 private:
  double classify_calls_ = 0.0;
  State* const state_;
};

class FakeCapabilities final : public v1::ServerService::Service {
 public:
  explicit FakeCapabilities(State* state) : state_(state) {}

  grpc::Status GetCapabilities(grpc::ServerContext*, const v1::GetCapabilitiesRequest*,
                               v1::Capabilities* reply) override {
    reply->set_version("fake");
    v1::Limit* limit = reply->add_limits();
    limit->set_name("max_chunk_bytes");
    limit->set_value(64);
    const std::lock_guard<std::mutex> lock(state_->mutex);
    reply->set_durable_state(state_->faults.durable_state);
    if (!state_->faults.warning.empty()) reply->add_warnings(state_->faults.warning);
    return grpc::Status::OK;
  }

  // One step, run over the full graph never and over receptive fields a hundred times.
  grpc::Status Explain(grpc::ServerContext*, const v1::ExplainRequest*, v1::ExplainResponse* plan) override {
    v1::PlanStep* const step = plan->add_steps();
    step->set_operation("aggregate");
    step->set_kernel("simd_rows");
    for (const int32_t value : {0, 64}) {
      v1::KernelParameter* const parameter = step->add_parameters();
      parameter->set_name(value == 0 ? "prefetch_edges" : "tile_columns");
      parameter->set_value(value);
    }
    step->set_receptive_field_run_count(100);
    step->set_receptive_field_mean_seconds(2e-6);
    v1::Refusal* const refusal = step->add_refusals();
    refusal->set_kernel("narrow");
    refusal->set_reason("only width 4");
    plan->add_decisions("nothing was rewritten");
    return grpc::Status::OK;
  }

 private:
  State* const state_;
};

}  // namespace

grpc::Status StatusWithDetails(grpc::StatusCode code, const std::string& message, const std::string& reason,
                               const std::map<std::string, std::string>& metadata) {
  v1::details::Status details;
  details.set_code(code);
  details.set_message(message);
  v1::details::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("vicinal.dev");
  for (const auto& [key, value] : metadata) (*info.mutable_metadata())[key] = value;
  Pack(info, "ErrorInfo", &details);
  return grpc::Status(code, message, details.SerializeAsString());
}

struct FakeServer::Services {
  State state;
  FakeGraphs graphs{&state};
  FakeModels models{&state};
  FakeInference inference{&state};
  FakeCapabilities capabilities{&state};
};

FakeServer::FakeServer() : services_(std::make_unique<Services>()) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&services_->graphs);
  builder.RegisterService(&services_->models);
  builder.RegisterService(&services_->inference);
  builder.RegisterService(&services_->capabilities);
  server_ = builder.BuildAndStart();
  target_ = "127.0.0.1:" + std::to_string(port);
}

FakeServer::~FakeServer() { server_->Shutdown(); }

const std::string& FakeServer::target() const { return target_; }
void FakeServer::SetServing(const std::string& service, bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(service, serving);
}
Faults& FakeServer::faults() { return services_->state.faults; }
const Seen& FakeServer::seen() const { return services_->state.seen; }

std::string FakeServer::Uploaded(const std::string& tensor) const {
  const State& state = services_->state;
  return state.uploads.at(state.last_upload).bytes.at(tensor);
}

}  // namespace vicinal::client
