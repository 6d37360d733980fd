// SPDX-License-Identifier: Apache-2.0
// The ends that the methods of InferenceHandler share: the request goes to the engine, and its result becomes the
// reply, whole or in pieces.
//
// Threading: called on the thread of the call. `done` is called once: on that thread if the engine refuses at once, on
// that of held refusals, or where results are delivered (inference_handler.h). Pieces are made where Next is called.
// Ownership: the callbacks own `wants` and `encode`, and the pieces the result as well; they refer to the call, the
// handler and the response, which must outlive them.
#ifndef VICINAL_SERVER_HANDLERS_SUBMIT_H_
#define VICINAL_SERVER_HANDLERS_SUBMIT_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "server/convert_replies.h"
#include "server/handlers/cut_result.h"
#include "server/handlers/encode_result.h"
#include "server/handlers/inference_handler.h"

namespace vicinal::server {

template <class Request, class Wants, class Encode, class Response>
void InferenceHandler::SubmitWhole(Call& call, Request request, const Wants& wants, const Encode& encode,
                                   Response* response, const Done& done) {
  const auto use = [this, &call, wants, encode, response, done](const InferenceResult& result) {
    Status status = ReserveReply(EncodingBytes(wants, result.rows, result.width), call);
    if (status.ok()) status = encode(result, wants, 0, result.rows, response);
    if (!status.ok()) return done(status);
    *response->mutable_served_by() = ToProto(result.served_by);
    *response->mutable_timing() = EncodeTiming(result, SecondsBetween(call.begin, clock_.Now()));
    done(OkStatus());
  };
  InferenceCallback deliver = Deliver(call, Timed(use), done);
  Status submitted;
  if constexpr (std::is_same_v<Request, GraphBatchRequest>) {
    submitted = engine_.SubmitBatch(std::move(request), std::move(deliver));
  } else {
    submitted = engine_.Submit(std::move(request), std::move(deliver));
  }
  if (!submitted.ok()) Refuse(submitted, done);
}

template <class Response, class Wants, class Encode>
void InferenceHandler::SubmitPieces(Call& call, InferenceRequest&& request, const Wants& wants, const Encode& encode,
                                    const PiecesDone<Response>& done) {
  const auto use = [this, &call, wants, encode, done](InferenceResult result) {
    const int64_t rows = RowsPerPiece(wants.BytesPerRow(result.width), limits_.max_response_bytes);
    const Status reserved = ReserveReply(EncodingBytes(wants, std::min(rows, result.rows), result.width), call);
    if (!reserved.ok()) return done(reserved);
    const auto piece = [wants, encode](const InferenceResult& whole, int64_t first, int64_t count, Response* response) {
      return encode(whole, wants, first, count, response);
    };
    done(Cut<Response>(std::move(result), rows, call, metrics_, clock_, piece));
  };
  const Done fail = [done](const Status& status) { done(status); };
  const Status submitted = engine_.Submit(std::move(request), Deliver(call, use, fail));
  if (!submitted.ok()) Refuse(submitted, fail);
}

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_HANDLERS_SUBMIT_H_
