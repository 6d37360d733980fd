// SPDX-License-Identifier: Apache-2.0
// MatrixMarket coordinate files as adjacency matrices (format: Boisvert, Pozo, Remington, "The Matrix Market Exchange
// Formats", NISTIR 5935): real, integer and pattern; general and symmetric (an entry off the diagonal then stands for
// both). Ids there count from 1, here from 0. Whether a row is the edge's target or its source is the caller's to say,
// as the format does not.
#ifndef VICINAL_CLIENT_CPP_FORMATS_MATRIX_MARKET_H_
#define VICINAL_CLIENT_CPP_FORMATS_MATRIX_MARKET_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/cpp/formats/edges.h"

namespace vicinal::client {

enum class MatrixRows { kTarget, kSource };

// Whether the first line that is not empty is a MatrixMarket banner, or was meant to be one: any case, signs or spaces
// before it that do not belong there, a misspelt first word before "matrix coordinate". ParseMatrixMarket refuses those
// that are none; taken as an edge list, such a file would give another graph without an error.
bool HasMatrixMarketBanner(std::string_view text);

// `path` is for messages. INVALID_ARGUMENT with file and line: another kind of matrix, not square, an index out of
// range, a value that is not finite, fewer or more entries than the size line says.
absl::StatusOr<EdgeFile> ParseMatrixMarket(std::string_view text, const std::string& path, MatrixRows rows);

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_FORMATS_MATRIX_MARKET_H_
