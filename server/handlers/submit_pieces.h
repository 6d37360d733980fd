// SPDX-License-Identifier: Apache-2.0
// The end that all streams of pieces share: the request goes to the engine, and its result is cut into pieces.
//
// Threading: called on the thread of the call. `done` is called once: on that thread if the engine refuses at once, on
// that of held refusals, or where results are delivered (inference_handler.h). Pieces are made where Next is called.
// Ownership: the pieces own the result, `wants` and `encode`; they refer to the call and the handler, which must
// outlive them.
#ifndef VICINAL_SERVER_HANDLERS_SUBMIT_PIECES_H_
#define VICINAL_SERVER_HANDLERS_SUBMIT_PIECES_H_

#include <algorithm>
#include <cstdint>
#include <utility>

#include "server/handlers/cut_result.h"
#include "server/handlers/encode_result.h"
#include "server/handlers/inference_handler.h"

namespace vicinal::server {

template <class Response, class Wants, class Encode>
void InferenceHandler::SubmitPieces(Call& call, InferenceRequest&& request, const Wants& wants, const Encode& encode,
                                    const PiecesDone<Response>& done) {
  const auto use = [this, &call, wants, encode, done](InferenceResult result) {
    const int64_t rows = RowsPerPiece(wants.BytesPerRow(result.width), limits_.max_response_bytes);
    const Status reserved = ReserveReply(EncodingBytes(wants, std::min(rows, result.rows), result.width), call);
    if (!reserved.ok()) return done(reserved);
    done(Cut<Response>(std::move(result), rows, call, metrics_, clock_, encode));
  };
  const Done fail = [done](const Status& status) { done(status); };
  const Status submitted = engine_.Submit(std::move(request), Deliver(call, use, fail));
  if (!submitted.ok()) Refuse(submitted, fail);
}

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_HANDLERS_SUBMIT_PIECES_H_
