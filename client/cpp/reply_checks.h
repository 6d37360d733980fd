// SPDX-License-Identifier: Apache-2.0
// Checks that an inference reply is what was asked for: as many rows, the matrices and widths that the request names,
// tensors whose bytes match their shapes; and that a picture can be drawn. A reply that fails is INTERNAL. Internal to
// the client library.
#ifndef VICINAL_CLIENT_CPP_REPLY_CHECKS_H_
#define VICINAL_CLIENT_CPP_REPLY_CHECKS_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "vicinal/v1/graph.pb.h"
#include "vicinal/v1/inference.pb.h"

namespace vicinal::client::internal {

// The rows of one reply, or of a stream's pieces, against the number that was asked for. Not thread-safe.
class RowCount {
 public:
  // `asked`: unset if unknown, then only the order of the pieces is checked.
  explicit RowCount(std::optional<int64_t> asked) : asked_(asked) {}

  // A piece with rows [first, first + rows). Each piece must continue the one before and have rows, unless none were
  // asked for.
  absl::Status Add(int64_t first, int64_t rows);
  // No more pieces come: fewer rows than asked for are an error.
  absl::Status Finish() const;

 private:
  const std::optional<int64_t> asked_;
  int64_t rows_ = 0;
};

// The number of rows that a selection asks for; `node_count` is the graph's, 0: unknown.
std::optional<int64_t> RowsAsked(const v1::NodeSelection& nodes, int64_t node_count);

// Likewise; unset also for attention weights, which have a row per edge.
std::optional<int64_t> RowsAsked(const v1::EmbedRequest& request, int64_t node_count);

// The number of links; unset: all edges.
std::optional<int64_t> RowsAsked(const v1::PredictLinksRequest& request);

// One reply or piece. Adds its rows to `rows`.
absl::Status CheckReply(const v1::ClassifyRequest& request, const v1::ClassifyResponse& reply, RowCount* rows);
absl::Status CheckReply(const v1::EmbedRequest& request, const v1::EmbedResponse& reply, RowCount* rows);
absl::Status CheckReply(const v1::ClassifyGraphsRequest& request, const v1::ClassifyGraphsResponse& reply,
                        RowCount* rows);
absl::Status CheckReply(const v1::PredictLinksRequest& request, const v1::PredictLinksResponse& reply, RowCount* rows);
absl::Status CheckReply(const v1::TopLinksRequest& request, const v1::TopLinksResponse& reply, RowCount* rows);

// At most 256 x 256 tiles and 64 digits of degrees, all counts there and none negative.
absl::Status CheckPicture(const v1::GraphPicture& picture);

}  // namespace vicinal::client::internal

#endif  // VICINAL_CLIENT_CPP_REPLY_CHECKS_H_
