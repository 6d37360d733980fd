// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/inference_handler.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/api/links.h"
#include "engine/base/error.h"
#include "engine/base/out_of_memory.h"
#include "server/convert.h"
#include "server/convert_replies.h"
#include "server/handlers/classify.h"
#include "server/handlers/encode_result.h"
#include "server/handlers/submit.h"

namespace vicinal::server {
namespace {

constexpr char kDefaultEmbedding[] = "last_conv_input";

// Results up to this many values are encoded on the executor's thread: a hop to another thread costs more.
constexpr int64_t kInlineValues = int64_t{16} * 1024;
// Replies smaller than this are not worth counting against the budget.
constexpr int64_t kSmallReplyBytes = 4 << 20;

int64_t ValuesOf(const InferenceResult& result) {
  size_t values = result.values.size();
  if (result.ranked) {
    values += result.ranked->classes.size() + result.ranked->scores.size() + result.ranked->probabilities.size();
  }
  return static_cast<int64_t>(values);
}

ComputedOver OverOf(const InferenceResult& result) {
  if (result.kept) return ComputedOver::kKeptAnswers;
  return result.receptive_field ? ComputedOver::kReceptiveField : ComputedOver::kFullGraph;
}

// Bytes of the two ids of an edge, in the engine's result and in the reply.
constexpr int64_t kEdgeBytes = 2 * sizeof(int64_t);

// The requested rows of Embed's reply: of edges, which come with their ends, or of nodes.
struct EmbedWants {
  bool attention = false;

  int64_t BytesPerRow(int64_t width) const {
    return width * static_cast<int64_t>(sizeof(float)) + (attention ? kEdgeBytes : 0);
  }
};
EmbedWants WantsOf(const v1::EmbedRequest& request) { return {!request.attention().empty()}; }

Status EncodeRows(const InferenceResult& result, const EmbedWants& wants, int64_t first, int64_t count,
                  v1::EmbedResponse* response) {
  const float* const values = result.values.data() + first * result.width;
  SetTensor(values, count, result.width,
            wants.attention ? response->mutable_attention()->mutable_weights() : response->mutable_embeddings());
  if (wants.attention)
    SetTensor(result.links.data() + 2 * first, count, 2, response->mutable_attention()->mutable_edges());
  return OkStatus();
}

// EncodeClasses until `stop` says so, shared with the threads of `pool`.
auto ClassEncoder(StopCheck stop, ThreadPool* pool) {
  return [stop = std::move(stop), pool](const InferenceResult& result, const ClassifyWants& wants, int64_t first,
                                        int64_t count, auto* response) {
    return EncodeClasses(result, wants, first, count, stop, pool, response);
  };
}

}  // namespace

int InferenceHandler::EncodingThreads(int threads) {
  if (threads == 0) threads = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(threads, 1, kMaxEncodingThreads);
}

Status InferenceHandler::CheckReply(int64_t rows, int64_t bytes_per_row) const {
  if (rows <= limits_.max_response_bytes / std::max<int64_t>(1, bytes_per_row)) return OkStatus();
  const int64_t bytes = rows * bytes_per_row;
  return OverLimit(
      "max_response_bytes", "nodes", bytes, limits_.max_response_bytes,
      absl::StrCat(
          "the answer has ", bytes, " bytes, over this server's limit of ", limits_.max_response_bytes,
          " bytes for one message (--max_response_bytes); use ClassifyStream, EmbedStream, PredictLinksStream or "
          "TopLinksStream, or ask for fewer nodes, links, partners (k), graphs or outputs"));
}

Status InferenceHandler::ReserveReply(int64_t bytes, Call& call) {
  if (bytes <= kSmallReplyBytes) return OkStatus();
  VICINAL_ASSIGN_OR_RETURN(call.reply_memory, engine_.memory().Reserve(Account::kRequests, bytes, "the reply"));
  return OkStatus();
}

WorkLimits InferenceHandler::LimitsOf(const Call& call) const {
  WorkLimits limits = call.limits;
  if (!limits.deadline && limits_.default_deadline.count() > 0) {
    limits.deadline = call.begin + limits_.default_deadline;
    limits.default_deadline = true;
  }
  return limits;
}

StopCheck InferenceHandler::StopOf(const Call& call) const {
  return [this, &call] { return call.limits.Check(clock_); };
}

StatusOr<NodeSelection> InferenceHandler::DecodeNodes(const v1::NodeSelection& nodes, const std::string& field) const {
  if (nodes.all() == (nodes.ids_size() > 0)) {
    return InvalidArgument("BAD_NODES", field,
                           nodes.all()
                               ? absl::StrCat("set ", field, ".ids or ", field, ".all, not both")
                               : absl::StrCat("no ", field, " requested: set ", field, ".ids or ", field, ".all"));
  }
  if (nodes.ids_size() > limits_.max_request_nodes)
    return OverLimit("max_request_nodes", field + ".ids", nodes.ids_size(), limits_.max_request_nodes);
  NodeSelection out;
  out.all = nodes.all();
  out.ids.assign(nodes.ids().begin(), nodes.ids().end());
  return out;
}

Status InferenceHandler::DecodeCommon(Call& call, const v1::Target& target, const v1::FeatureInput* features,
                                      const v1::ExecutionOptions& execution, InferenceRequest* out) const {
  VICINAL_RETURN_IF_ERROR(FillTarget(target, out));
  VICINAL_RETURN_IF_ERROR(call.CheckGraph(out->graph));
  call.graph = out->graph;
  call.model = out->model;
  if (features != nullptr) {
    if (features->rows_size() > limits_.max_request_nodes) {
      return OverLimit("max_request_nodes", "features.rows", features->rows_size(), limits_.max_request_nodes);
    }
    VICINAL_ASSIGN_OR_RETURN(out->features, FromProto(*features, "features"));
  }
  VICINAL_ASSIGN_OR_RETURN(out->options, FromProto(execution));
  VICINAL_ASSIGN_OR_RETURN(out->requester.priority, PriorityOf(execution, call.interactive));
  out->requester.principal = call.principal;
  out->limits = LimitsOf(call);
  return OkStatus();
}

Status InferenceHandler::TakeShare(const AnswerShape& answer, int64_t reply_bytes, Call* call) {
  const int64_t bytes = answer.rows * answer.width * static_cast<int64_t>(sizeof(float)) + reply_bytes;
  if (!call->message_bytes) {
    VICINAL_ASSIGN_OR_RETURN(call->reply_share, reply_shares_.Take(call->principal, bytes));
    return OkStatus();
  }
  const int64_t both = bytes + *call->message_bytes;
  VICINAL_ASSIGN_OR_RETURN(call->reply_share, stream_shares_.Take(call->principal, both));
  if (call->on_bytes) call->on_bytes(both);
  return OkStatus();
}

AnswerCheck InferenceHandler::CheckClasses(const ClassifyWants& wants, bool stream, Call* call) {
  return [this, wants, stream, call](const AnswerShape& answer) -> Status {
    VICINAL_RETURN_IF_ERROR(CheckWants(wants, answer));
    if (stream) return TakeShare(answer, 0, call);
    VICINAL_RETURN_IF_ERROR(CheckReply(answer.rows, wants.BytesPerRow(answer.width)));
    return TakeShare(answer, MessageBytes(answer.rows * wants.BytesPerRow(answer.width)), call);
  };
}

StatusOr<InferenceRequest> InferenceHandler::DecodeClassify(Call& call, const v1::ClassifyRequest& request, bool stream,
                                                            ClassifyWants* wants) {
  InferenceRequest out;
  VICINAL_RETURN_IF_ERROR(DecodeCommon(call, request.target(), request.has_features() ? &request.features() : nullptr,
                                       request.execution(), &out));
  VICINAL_ASSIGN_OR_RETURN(out.nodes, DecodeNodes(request.nodes(), "nodes"));
  VICINAL_ASSIGN_OR_RETURN(*wants, WantsOf(request));
  if (HasDefinedBits()) out.classes = WantedClasses{wants->top_k, wants->probabilities, wants->logits};
  out.check_answer = CheckClasses(*wants, stream, &call);
  return out;
}

AnswerCheck InferenceHandler::CheckAttention(bool stream, Call* call) {
  return [this, stream, call](const AnswerShape& answer) -> Status {
    const int64_t ids = answer.rows * kEdgeBytes;
    if (stream) return TakeShare(answer, ids, call);
    const int64_t bytes_per_row = EmbedWants{/*attention=*/true}.BytesPerRow(answer.width);
    if (answer.rows > limits_.max_response_bytes / bytes_per_row) {
      const int64_t bytes = answer.rows * bytes_per_row;
      return OverLimit(
          "max_response_bytes", "nodes", bytes, limits_.max_response_bytes,
          absl::StrCat("the attention weights of the nodes' ", answer.rows, " in-edges with ", answer.width,
                       " heads have ", bytes, " bytes, over this server's limit of ", limits_.max_response_bytes,
                       " bytes for one message (--max_response_bytes); use EmbedStream, or ask for fewer nodes"));
    }
    return TakeShare(answer, ids + MessageBytes(answer.rows * bytes_per_row), call);
  };
}

StatusOr<InferenceRequest> InferenceHandler::DecodeEmbed(Call& call, const v1::EmbedRequest& request, bool stream) {
  InferenceRequest out;
  VICINAL_RETURN_IF_ERROR(DecodeCommon(call, request.target(), request.has_features() ? &request.features() : nullptr,
                                       request.execution(), &out));
  VICINAL_ASSIGN_OR_RETURN(out.nodes, DecodeNodes(request.nodes(), "nodes"));
  if (!request.attention().empty()) {
    auto links = std::make_shared<WantedLinks>();
    links->attention = WantedAttention{request.attention(), std::move(out.nodes)};
    out.links = std::move(links);
    out.options.output = request.output();
    out.check_answer = CheckAttention(stream, &call);
    return out;
  }
  out.options.output = request.output().empty() ? kDefaultEmbedding : request.output();
  out.check_answer = [this, stream, &call](const AnswerShape& answer) -> Status {
    if (stream) return TakeShare(answer, 0, &call);
    VICINAL_RETURN_IF_ERROR(CheckReply(answer.rows, answer.width * 4));
    return TakeShare(answer, MessageBytes(answer.rows * answer.width * 4), &call);
  };
  return out;
}

StatusOr<GraphBatchRequest> InferenceHandler::DecodeGraphs(Call& call, const v1::ClassifyGraphsRequest& request,
                                                           ClassifyWants* wants) {
  GraphBatchRequest out;
  VICINAL_RETURN_IF_ERROR(CheckName(request.model(), "model"));
  if (request.model_version() < 0)
    return InvalidArgument("BAD_VERSION", "model_version", "versions are not negative; 0 means the latest");
  call.model = request.model();
  out.model = request.model();
  out.model_version = request.model_version();
  out.incarnation = request.incarnation();
  VICINAL_ASSIGN_OR_RETURN(out.ptr, View(request.graphs().ptr(), "graphs.ptr"));
  VICINAL_ASSIGN_OR_RETURN(out.edge_index, View(request.graphs().edge_index(), "graphs.edge_index"));
  if (request.graphs().has_edge_weight()) {
    VICINAL_ASSIGN_OR_RETURN(out.edge_weight, View(request.graphs().edge_weight(), "graphs.edge_weight"));
  }
  if (request.graphs().has_edge_attr()) {
    VICINAL_ASSIGN_OR_RETURN(out.edge_attr, View(request.graphs().edge_attr(), "graphs.edge_attr"));
  }
  VICINAL_ASSIGN_OR_RETURN(RequestFeatures features, FromProto(request.graphs().features(), "graphs.features"));
  if (!features.rows.empty())
    return InvalidArgument("BAD_FEATURES", "graphs.features.rows",
                           "a batch has no stored features whose rows could be replaced");
  out.features = std::move(features.tensors);
  if (out.ptr.shape.size() == 1 && out.ptr.shape[0] > 0 && out.ptr.shape[0] - 1 > limits_.max_batch_graphs) {
    return OverLimit("max_batch_graphs", "graphs.ptr", out.ptr.shape[0] - 1, limits_.max_batch_graphs);
  }
  VICINAL_ASSIGN_OR_RETURN(out.options, FromProto(request.execution()));
  if (out.options.receptive_field != ReceptiveField::kAuto) {
    return InvalidArgument("BAD_EXECUTION", "execution.receptive_field",
                           "ClassifyGraphs computes every graph of the batch; leave receptive_field out");
  }
  VICINAL_ASSIGN_OR_RETURN(out.requester.priority, PriorityOf(request.execution(), call.interactive));
  out.requester.principal = call.principal;
  out.limits = LimitsOf(call);
  VICINAL_ASSIGN_OR_RETURN(*wants, WantsOf(request));
  out.check_answer = CheckClasses(*wants, /*stream=*/false, &call);
  return out;
}

InferenceCallback InferenceHandler::Deliver(const Call& call, std::function<void(InferenceResult)> use, Done fail) {
  // Runs on the executor's thread or a worker: out-of-memory must end the call here, because no caller would report it.
  auto encode = [this, &call, use = std::move(use), fail](InferenceResult value) {
    const Status encoded = OrOutOfMemory([&] {
      // Skips calls that ended while the result waited for a worker, so that they do not delay others.
      VICINAL_RETURN_IF_ERROR(call.limits.Check(clock_));
      use(std::move(value));
      return OkStatus();
    });
    if (!encoded.ok()) fail(encoded);
  };
  return [this, &call, encode = std::move(encode), fail = std::move(fail)](StatusOr<InferenceResult> result) {
    if (!result.ok()) return fail(result.status());
    metrics_.ResultRows(call.method, result->rows);
    metrics_.Computed(OverOf(*result),
                      static_cast<double>(result->computed_nodes) / static_cast<double>(result->run_requests));
    if (ValuesOf(*result) <= kInlineValues) return encode(*std::move(result));
    const Status posted = OrOutOfMemory([&] {
      // Shared, because std::function must be copyable.
      auto value = std::make_shared<InferenceResult>(*std::move(result));
      workers_.PostAdmitted([encode, value] { encode(std::move(*value)); });
      return OkStatus();
    });
    if (!posted.ok()) fail(posted);
  };
}

std::function<void(InferenceResult)> InferenceHandler::Timed(std::function<void(InferenceResult)> use) {
  // `use` answers the call, after which the handler may be destroyed: so `this` is not captured.
  return [&metrics = metrics_, &clock = clock_, use = std::move(use)](InferenceResult result) {
    const MonotonicTime begin = clock.Now();
    use(std::move(result));
    metrics.PhaseSeconds("encode", SecondsBetween(begin, clock.Now()));
  };
}

void InferenceHandler::Refuse(const Status& why, Done done) {
  const bool overload = why.code() == StatusCode::kUnavailable || why.code() == StatusCode::kDeadlineExceeded;
  if (!overload) return done(why);
  refusals_.Answer([why, done = std::move(done)] { done(why); });
}

void InferenceHandler::Classify(Call& call, const v1::ClassifyRequest& request, v1::ClassifyResponse* response,
                                const Done& done) {
  ClassifyWants wants;
  StatusOr<InferenceRequest> decoded = DecodeClassify(call, request, /*stream=*/false, &wants);
  if (!decoded.ok()) return done(decoded.status());
  SubmitWhole(call, *std::move(decoded), wants, ClassEncoder(StopOf(call), &encoders_), response, done);
}

void InferenceHandler::Embed(Call& call, const v1::EmbedRequest& request, v1::EmbedResponse* response,
                             const Done& done) {
  StatusOr<InferenceRequest> decoded = DecodeEmbed(call, request, /*stream=*/false);
  if (!decoded.ok()) return done(decoded.status());
  SubmitWhole(call, *std::move(decoded), WantsOf(request), &EncodeRows, response, done);
}

void InferenceHandler::ClassifyGraphs(Call& call, const v1::ClassifyGraphsRequest& request,
                                      v1::ClassifyGraphsResponse* response, const Done& done) {
  ClassifyWants wants;
  StatusOr<GraphBatchRequest> decoded = DecodeGraphs(call, request, &wants);
  if (!decoded.ok()) return done(decoded.status());
  SubmitWhole(call, *std::move(decoded), wants, ClassEncoder(StopOf(call), &encoders_), response, done);
}

void InferenceHandler::Infer(Call& call, const v1::InferStreamRequest& request, v1::InferStreamResponse* response,
                             const Done& done) {
  if (request.timeout_ms() < 0) {
    return done(
        InvalidArgument("BAD_TIMEOUT", "timeout_ms", "timeout_ms is below 0; 0 means until the call's deadline"));
  }
  // More than a year is no bound, and must not overflow the clock.
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);
  const std::chrono::milliseconds timeout(request.timeout_ms());
  if (timeout.count() > 0 && timeout < kLongest) {
    const MonotonicTime end = call.begin + timeout;
    call.limits.deadline = std::min(call.limits.deadline.value_or(end), end);
  }
  if (request.has_classify()) return Classify(call, request.classify(), response->mutable_classify(), done);
  if (request.has_embed()) return Embed(call, request.embed(), response->mutable_embed(), done);
  if (request.has_predict_links()) {
    return PredictLinks(call, request.predict_links(), response->mutable_predict_links(), done);
  }
  done(InvalidArgument("BAD_REQUEST", "request", "the request is empty; set classify, embed or predict_links"));
}

void InferenceHandler::ClassifyStream(Call& call, const v1::ClassifyRequest& request,
                                      const PiecesDone<v1::ClassifyResponse>& done) {
  ClassifyWants wants;
  StatusOr<InferenceRequest> decoded = DecodeClassify(call, request, /*stream=*/true, &wants);
  if (!decoded.ok()) return done(decoded.status());
  SubmitPieces(call, *std::move(decoded), wants, ClassEncoder(StopOf(call), &encoders_), done);
}

void InferenceHandler::EmbedStream(Call& call, const v1::EmbedRequest& request,
                                   const PiecesDone<v1::EmbedResponse>& done) {
  StatusOr<InferenceRequest> decoded = DecodeEmbed(call, request, /*stream=*/true);
  if (!decoded.ok()) return done(decoded.status());
  SubmitPieces(call, *std::move(decoded), WantsOf(request), &EncodeRows, done);
}

}  // namespace vicinal::server
