// SPDX-License-Identifier: Apache-2.0
// Text edge lists: a line is an edge, "source target [weight]", separated by spaces and tabs or by commas (the first
// line decides; between commas a field may stand in double quotes, SplitFields); empty lines are skipped, as are
// comments (Comments) and a first line of column titles (Titles). Ids may be any text. How ids become nodes is the one
// rule a user must know:
//  - given ids (options.ids): node i is ids[i], and every id of the file must be among them;
//  - given a number of nodes: ids are the numbers 0..N-1, others are refused;
//  - otherwise, ids that are exactly 0..max stay as they are (and when the rows of a feature file are known, any
//    numbers below that count do); all others are mapped: numbers in ascending order, other texts in order of first
//    appearance.
#ifndef VICINAL_CLIENT_CPP_FORMATS_EDGE_LIST_H_
#define VICINAL_CLIENT_CPP_FORMATS_EDGE_LIST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/cpp/formats/edges.h"

namespace vicinal::client {

// Whether the first line that is no comment holds titles. kAuto: it does when its first two words are well known ones
// ("source", "target"), or when it has words where the next line has numbers. Where ids are texts that cannot tell;
// then a first line whose words stand nowhere else is refused rather than guessed.
enum class Titles { kAuto, kYes, kNo };

// Whether lines that begin with '#' or '%' are comments. kAuto: they are before the first edge, and later where they
// have not as many columns as an edge; where they have, they may be edges as well, and are refused rather than guessed.
// So is one before the first edge that names an id of an edge.
enum class Comments { kAuto, kYes, kNo };

struct EdgeListOptions {
  Titles titles = Titles::kAuto;
  Comments comments = Comments::kAuto;
  // Number of nodes, when the user said it.
  std::optional<int64_t> node_count;
  // Rows of the feature file that comes along, when there is one.
  std::optional<int64_t> feature_rows;
  // The ids in order of node, when the user gave them. Not owned.
  const IdMap* ids = nullptr;
};

// `path` is for messages. Memory: about 24 bytes an edge for numbers, more for texts. INVALID_ARGUMENT with file and
// line.
absl::StatusOr<EdgeFile> ParseEdgeList(std::string_view text, const std::string& path, const EdgeListOptions& options);

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_FORMATS_EDGE_LIST_H_
