// SPDX-License-Identifier: Apache-2.0
// InferenceService without gRPC: decode, hand to the engine, encode. Thread-safe. Every method calls `done` exactly
// once, at once or later, on the calling thread (kept answers), the executor's (small replies), a worker's (large ones)
// or that of held refusals. Call, request and response must live until then.
#ifndef VICINAL_SERVER_HANDLERS_INFERENCE_HANDLER_H_
#define VICINAL_SERVER_HANDLERS_INFERENCE_HANDLER_H_

#include <functional>
#include <memory>
#include <string>

#include "engine/api/engine.h"
#include "engine/base/thread_pool.h"
#include "server/call.h"
#include "server/config.h"
#include "server/handlers/encode_result.h"
#include "server/handlers/pieces.h"
#include "server/held_refusals.h"
#include "server/metrics/metrics.h"
#include "server/reply_shares.h"
#include "server/workers.h"
#include "vicinal/v1/inference.pb.h"

namespace vicinal::server {

class InferenceHandler {
 public:
  using Done = std::function<void(Status)>;
  template <class Response>
  using PiecesDone = std::function<void(StatusOr<std::unique_ptr<Pieces<Response>>>)>;

  // All must outlive the handler. `clock` null: the real one. `threads` (0: one per core) encode large replies, at most
  // kMaxEncodingThreads of them.
  InferenceHandler(Engine& engine, Metrics& metrics, Workers& workers, const Limits& limits, const Clock* clock,
                   int threads = 1)
      : engine_(engine),
        metrics_(metrics),
        workers_(workers),
        limits_(limits),
        clock_(clock != nullptr ? *clock : Clock::Real()),
        reply_shares_(limits.max_reply_bytes_per_client),
        stream_shares_(limits.max_stream_bytes_per_client, ReplyShares::Of::kStreams),
        encoders_(EncodingThreads(threads)),
        refusals_(clock_) {}

  void Classify(Call& call, const v1::ClassifyRequest& request, v1::ClassifyResponse* response, const Done& done);
  void Embed(Call& call, const v1::EmbedRequest& request, v1::EmbedResponse* response, const Done& done);
  void ClassifyGraphs(Call& call, const v1::ClassifyGraphsRequest& request, v1::ClassifyGraphsResponse* response,
                      const Done& done);
  void PredictLinks(Call& call, const v1::PredictLinksRequest& request, v1::PredictLinksResponse* response,
                    const Done& done);
  void PredictLinksStream(Call& call, const v1::PredictLinksRequest& request,
                          const PiecesDone<v1::PredictLinksResponse>& done);
  void TopLinks(Call& call, const v1::TopLinksRequest& request, v1::TopLinksResponse* response, const Done& done);
  void TopLinksStream(Call& call, const v1::TopLinksRequest& request, const PiecesDone<v1::TopLinksResponse>& done);
  // One request of an InferStream; `call` is its own. The response's id is not set.
  void Infer(Call& call, const v1::InferStreamRequest& request, v1::InferStreamResponse* response, const Done& done);
  void ClassifyStream(Call& call, const v1::ClassifyRequest& request, const PiecesDone<v1::ClassifyResponse>& done);
  void EmbedStream(Call& call, const v1::EmbedRequest& request, const PiecesDone<v1::EmbedResponse>& done);

  // What principals have under way on streams of requests.
  const ReplyShares& stream_shares() const { return stream_shares_; }

 private:
  static int EncodingThreads(int threads);
  // LIMIT_EXCEEDED if a reply of that many rows exceeds max_response_bytes. `bytes_per_row`: of the reply's tensors.
  Status CheckReply(int64_t rows, int64_t bytes_per_row) const;
  // Rejects a top_k above the number of classes, unless it is a stream a reply that is too large, and what exceeds the
  // principal's share of replies; the share is the call's from then on.
  AnswerCheck CheckClasses(const ClassifyWants& wants, bool stream, Call* call);
  // Takes the call's part of its principal's share. `reply_bytes`: of the encoded reply, 0 for one in pieces.
  Status TakeShare(const AnswerShape& answer, int64_t reply_bytes, Call* call);
  // `wants`: the requested parts of the reply.
  StatusOr<InferenceRequest> DecodeClassify(Call& call, const v1::ClassifyRequest& request, bool stream,
                                            ClassifyWants* wants);
  StatusOr<InferenceRequest> DecodeEmbed(Call& call, const v1::EmbedRequest& request, bool stream);
  StatusOr<GraphBatchRequest> DecodeGraphs(Call& call, const v1::ClassifyGraphsRequest& request, ClassifyWants* wants);
  // All but the nodes.
  Status DecodeCommon(Call& call, const v1::Target& target, const v1::FeatureInput* features,
                      const v1::ExecutionOptions& execution, InferenceRequest* out) const;
  StatusOr<NodeSelection> DecodeNodes(const v1::NodeSelection& nodes, const std::string& field) const;
  StatusOr<InferenceRequest> DecodeLinks(Call& call, const v1::PredictLinksRequest& request, bool stream);
  StatusOr<InferenceRequest> DecodePartners(Call& call, const v1::TopLinksRequest& request, bool stream);
  // LIMIT_EXCEEDED if the partners of one node, which a stream never parts, exceed max_response_bytes.
  Status CheckRow(int64_t bytes) const;
  // Of scores of links; `bytes_of_score`: of the reply's tensors; `bytes_of_ids`: those of them that are ids.
  AnswerCheck CheckLinks(int64_t bytes_of_score, int64_t bytes_of_ids, bool stream, Call* call);
  // Of attention weights: a row per edge.
  AnswerCheck CheckAttention(bool stream, Call* call);
  // Deadline and cancellation of the call; without a deadline, that of --default_deadline.
  WorkLimits LimitsOf(const Call& call) const;
  // Submits, and fills the response (submit.h). Request: InferenceRequest or GraphBatchRequest.
  // `wants.BytesPerRow(width)`: of the reply's tensors; `encode(result, wants, first, count, response)` makes those of
  // `count` rows.
  template <class Request, class Wants, class Encode, class Response>
  void SubmitWhole(Call& call, Request request, const Wants& wants, const Encode& encode, Response* response,
                   const Done& done);
  // The same in pieces of whole rows.
  template <class Response, class Wants, class Encode>
  void SubmitPieces(Call& call, InferenceRequest&& request, const Wants& wants, const Encode& encode,
                    const PiecesDone<Response>& done);
  // Answers a call that the engine did not take; under load a little later.
  void Refuse(const Status& why, Done done);
  // Counts `bytes` of a reply against the memory budget until the call has ended; codes as MemoryBudget::Reserve.
  Status ReserveReply(int64_t bytes, Call& call);
  // Checks whether the call's deadline has passed or its client has cancelled.
  StopCheck StopOf(const Call& call) const;
  // Wraps `use`, which makes the whole reply, and reports its time as phase `encode`. Streams report it piece by piece.
  std::function<void(InferenceResult)> Timed(std::function<void(InferenceResult)> use);
  // The engine's callback: `use` runs at once for a small result, on a worker for a large one.
  InferenceCallback Deliver(const Call& call, std::function<void(InferenceResult)> use, Done fail);

  Engine& engine_;
  Metrics& metrics_;
  Workers& workers_;
  const Limits& limits_;
  const Clock& clock_;
  ReplyShares reply_shares_, stream_shares_;
  ThreadPool encoders_;
  HeldRefusals refusals_;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_HANDLERS_INFERENCE_HANDLER_H_
