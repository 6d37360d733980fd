// SPDX-License-Identifier: Apache-2.0
// A result of the engine as the pieces of a stream.
#ifndef VICINAL_SERVER_HANDLERS_CUT_RESULT_H_
#define VICINAL_SERVER_HANDLERS_CUT_RESULT_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "engine/api/engine.h"
#include "engine/base/clock.h"
#include "server/call.h"
#include "server/convert_replies.h"
#include "server/handlers/encode_result.h"
#include "server/handlers/pieces.h"
#include "server/metrics/metrics.h"

namespace vicinal::server {

// Tensors of one piece of a stream.
inline constexpr int64_t kPieceBytes = 1 << 20;

inline int64_t RowsPerPiece(int64_t bytes_per_row, int64_t max_response_bytes) {
  return std::max<int64_t>(1, std::min(kPieceBytes, max_response_bytes) / std::max<int64_t>(1, bytes_per_row));
}

// A result cut into pieces of `rows` rows; `encode(result, first, count, response)` makes one. After the last piece it
// reports to the metrics how long encoding took in total, and how long sending the pieces took.
template <class Response, class Encode>
class CutResult final : public Pieces<Response> {
 public:
  CutResult(InferenceResult result, int64_t rows, const Call& call, Metrics& metrics, const Clock& clock, Encode encode)
      : result_(std::move(result)),
        rows_(rows),
        call_(call),
        metrics_(metrics),
        clock_(clock),
        encode_(std::move(encode)) {}

  StatusOr<bool> Next(Response* response) override {
    const MonotonicTime begin = clock_.Now();
    if (next_ > 0) send_seconds_ += SecondsBetween(handed_over_, begin);
    response->Clear();
    const int64_t count = std::min(rows_, result_.rows - next_);
    *response->mutable_served_by() = ToProto(result_.served_by);
    response->set_first_row(next_);
    VICINAL_RETURN_IF_ERROR(encode_(result_, next_, count, response));
    next_ += count;
    const bool last = next_ >= result_.rows;
    if (last) *response->mutable_timing() = EncodeTiming(result_, SecondsBetween(call_.begin, clock_.Now()));
    handed_over_ = clock_.Now();
    encode_seconds_ += SecondsBetween(begin, handed_over_);
    if (last) {
      metrics_.PhaseSeconds("encode", encode_seconds_);
      metrics_.PhaseSeconds("send", send_seconds_);
    }
    return last;
  }

 private:
  const InferenceResult result_;
  const int64_t rows_;
  const Call& call_;
  Metrics& metrics_;
  const Clock& clock_;
  const Encode encode_;
  int64_t next_ = 0;
  MonotonicTime handed_over_{};
  double encode_seconds_ = 0, send_seconds_ = 0;
};

template <class Response, class Encode>
std::unique_ptr<Pieces<Response>> Cut(InferenceResult result, int64_t rows, const Call& call, Metrics& metrics,
                                      const Clock& clock, Encode encode) {
  return std::make_unique<CutResult<Response, Encode>>(std::move(result), rows, call, metrics, clock,
                                                       std::move(encode));
}

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_HANDLERS_CUT_RESULT_H_
