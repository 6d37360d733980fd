// SPDX-License-Identifier: Apache-2.0
// MatrixMarket coordinate files as adjacency matrices (format: Boisvert, Pozo, Remington, "The Matrix Market Exchange
// Formats", NISTIR 5935): real, integer and pattern; general and symmetric (an off-diagonal entry is then two edges).
// Ids in the file count from 1, nodes from 0. The format does not define whether a row is an edge's target or source;
// the caller decides.
#ifndef VICINAL_CLIENT_CPP_FORMATS_MATRIX_MARKET_H_
#define VICINAL_CLIENT_CPP_FORMATS_MATRIX_MARKET_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/cpp/formats/edges.h"

namespace vicinal::client {

enum class MatrixRows { kTarget, kSource };

// Whether the first non-empty line is a MatrixMarket banner or a misspelt one (any case, stray characters before it, a
// wrong first word before "matrix coordinate"). ParseMatrixMarket reports misspelt banners as errors; read as an edge
// list, such a file would silently give another graph.
bool HasMatrixMarketBanner(std::string_view text);

// `path` is for messages. INVALID_ARGUMENT with file and line: another kind of matrix, not square, an index out of
// range, a non-finite value, or a number of entries other than that of the size line.
absl::StatusOr<EdgeFile> ParseMatrixMarket(std::string_view text, const std::string& path, MatrixRows rows);

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_FORMATS_MATRIX_MARKET_H_
