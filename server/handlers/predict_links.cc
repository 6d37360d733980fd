// SPDX-License-Identifier: Apache-2.0
// The methods of InferenceHandler about links.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/api/links.h"
#include "engine/base/error.h"
#include "server/convert.h"
#include "server/convert_replies.h"
#include "server/handlers/encode_result.h"
#include "server/handlers/inference_handler.h"
#include "server/handlers/submit.h"

namespace vicinal::server {
namespace {

// The requested parts of a reply.
struct LinkWants {
  int64_t id_bytes = 0;  // of the ids that come with a score, in the engine's result and in the reply's tensors
  bool probabilities = false;

  int64_t BytesPerRow(int64_t scores) const { return scores * (4 + (probabilities ? 4 : 0) + id_bytes); }
};
LinkWants WantsOf(const v1::PredictLinksRequest& request) {
  return {request.all_edges() ? 16 : 0, request.return_probabilities()};
}
LinkWants WantsOf(const v1::TopLinksRequest& request) { return {8, request.return_probabilities()}; }

void SetProbabilities(const float* scores, int64_t rows, int64_t cols, v1::Tensor* tensor) {
  std::vector<float> probabilities(scores, scores + rows * cols);
  for (float& value : probabilities) value = 1.0f / (1.0f + std::exp(-value));
  SetTensor(probabilities.data(), rows, cols, tensor);
}

Status EncodeLinks(const InferenceResult& result, const LinkWants& wants, int64_t first, int64_t count,
                   v1::PredictLinksResponse* response) {
  const float* const scores = result.values.data() + first;
  SetTensor(scores, count, 1, response->mutable_scores());
  if (wants.id_bytes > 0) SetTensor(result.links.data() + 2 * first, count, 2, response->mutable_links());
  if (wants.probabilities) SetProbabilities(scores, count, 1, response->mutable_probabilities());
  return OkStatus();
}

Status EncodePartners(const InferenceResult& result, const LinkWants& wants, int64_t first, int64_t count,
                      v1::TopLinksResponse* response) {
  const float* const scores = result.values.data() + first * result.width;
  SetTensor(result.links.data() + first * result.width, count, result.width, response->mutable_partners());
  SetTensor(scores, count, result.width, response->mutable_scores());
  if (wants.probabilities) SetProbabilities(scores, count, result.width, response->mutable_probabilities());
  return OkStatus();
}

}  // namespace

Status InferenceHandler::CheckRow(int64_t bytes) const {
  if (bytes <= limits_.max_response_bytes) return OkStatus();
  return OverLimit("max_response_bytes", "k", bytes, limits_.max_response_bytes,
                   absl::StrCat("the partners of one node have ", bytes, " bytes, over this server's limit of ",
                                limits_.max_response_bytes,
                                " bytes for one message (--max_response_bytes); ask for fewer partners (k), or leave "
                                "out return_probabilities"));
}

AnswerCheck InferenceHandler::CheckLinks(int64_t bytes_of_score, int64_t bytes_of_ids, bool stream, Call* call) {
  return [this, bytes_of_score, bytes_of_ids, stream, call](const AnswerShape& answer) -> Status {
    const int64_t scores = answer.rows * answer.width;
    if (stream) {
      VICINAL_RETURN_IF_ERROR(CheckRow(answer.width * bytes_of_score));
      return TakeShare(answer, scores * bytes_of_ids, call);
    }
    VICINAL_RETURN_IF_ERROR(CheckReply(answer.rows, answer.width * bytes_of_score));
    return TakeShare(answer, scores * bytes_of_ids + MessageBytes(scores * bytes_of_score), call);
  };
}

StatusOr<InferenceRequest> InferenceHandler::DecodeLinks(Call& call, const v1::PredictLinksRequest& request,
                                                         bool stream) {
  InferenceRequest out;
  VICINAL_RETURN_IF_ERROR(DecodeCommon(call, request.target(), request.has_features() ? &request.features() : nullptr,
                                       request.execution(), &out));
  auto links = std::make_shared<WantedLinks>();
  VICINAL_ASSIGN_OR_RETURN(links->decoder, FromProto(request.decoder()));
  links->relation = request.relation();
  links->all_edges = request.all_edges();
  if (request.has_pairs() == request.all_edges()) {
    return InvalidArgument(
        "BAD_LINKS", "pairs",
        request.all_edges() ? "set pairs or all_edges, not both" : "no links requested: set pairs or all_edges");
  }
  if (request.has_pairs()) {
    const v1::LinkPairs& pairs = request.pairs();
    const int most = std::max(pairs.sources_size(), pairs.targets_size());
    if (most > limits_.max_request_nodes)
      return OverLimit("max_request_nodes", "pairs", most, limits_.max_request_nodes);
    links->pairs.emplace();
    links->pairs->sources.assign(pairs.sources().begin(), pairs.sources().end());
    links->pairs->targets.assign(pairs.targets().begin(), pairs.targets().end());
    links->pairs->relations.assign(pairs.relations().begin(), pairs.relations().end());
  }
  out.options.output = request.output();
  out.links = std::move(links);
  const LinkWants wants = WantsOf(request);
  out.check_answer = CheckLinks(wants.BytesPerRow(1), wants.id_bytes, stream, &call);
  return out;
}

StatusOr<InferenceRequest> InferenceHandler::DecodePartners(Call& call, const v1::TopLinksRequest& request,
                                                            bool stream) {
  InferenceRequest out;
  VICINAL_RETURN_IF_ERROR(DecodeCommon(call, request.target(), request.has_features() ? &request.features() : nullptr,
                                       request.execution(), &out));
  auto links = std::make_shared<WantedLinks>();
  VICINAL_ASSIGN_OR_RETURN(links->decoder, FromProto(request.decoder()));
  links->relation = request.relation();
  WantedPartners& wanted = links->partners.emplace();
  VICINAL_ASSIGN_OR_RETURN(wanted.nodes, DecodeNodes(request.nodes(), "nodes"));
  wanted.partners.all = true;
  if (request.has_partners()) {
    VICINAL_ASSIGN_OR_RETURN(wanted.partners, DecodeNodes(request.partners(), "partners"));
  }
  if (request.has_k() && request.k() < 1)
    return InvalidArgument("BAD_TOP_K", "k", absl::StrCat("k is ", request.k(), "; it must be at least 1"));
  wanted.k = request.k();
  wanted.nodes_are_targets = request.nodes_are_targets();
  wanted.exclude_links = request.exclude_links();
  wanted.include_self = request.include_self();
  out.options.output = request.output();
  out.links = std::move(links);
  const LinkWants wants = WantsOf(request);
  out.check_answer = CheckLinks(wants.BytesPerRow(1), wants.id_bytes, stream, &call);
  return out;
}

void InferenceHandler::PredictLinks(Call& call, const v1::PredictLinksRequest& request,
                                    v1::PredictLinksResponse* response, const Done& done) {
  StatusOr<InferenceRequest> decoded = DecodeLinks(call, request, /*stream=*/false);
  if (!decoded.ok()) return done(decoded.status());
  SubmitWhole(call, *std::move(decoded), WantsOf(request), &EncodeLinks, response, done);
}

void InferenceHandler::PredictLinksStream(Call& call, const v1::PredictLinksRequest& request,
                                          const PiecesDone<v1::PredictLinksResponse>& done) {
  StatusOr<InferenceRequest> decoded = DecodeLinks(call, request, /*stream=*/true);
  if (!decoded.ok()) return done(decoded.status());
  SubmitPieces(call, *std::move(decoded), WantsOf(request), &EncodeLinks, done);
}

void InferenceHandler::TopLinks(Call& call, const v1::TopLinksRequest& request, v1::TopLinksResponse* response,
                                const Done& done) {
  StatusOr<InferenceRequest> decoded = DecodePartners(call, request, /*stream=*/false);
  if (!decoded.ok()) return done(decoded.status());
  SubmitWhole(call, *std::move(decoded), WantsOf(request), &EncodePartners, response, done);
}

void InferenceHandler::TopLinksStream(Call& call, const v1::TopLinksRequest& request,
                                      const PiecesDone<v1::TopLinksResponse>& done) {
  StatusOr<InferenceRequest> decoded = DecodePartners(call, request, /*stream=*/true);
  if (!decoded.ok()) return done(decoded.status());
  SubmitPieces(call, *std::move(decoded), WantsOf(request), &EncodePartners, done);
}

}  // namespace vicinal::server
