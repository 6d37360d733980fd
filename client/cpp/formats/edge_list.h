// SPDX-License-Identifier: Apache-2.0
// Text edge lists. A line is an edge, "source target [weight]", separated by spaces and tabs or by commas; the first
// line decides. In files with commas a field may be in double quotes (SplitFields). Empty lines, comments (Comments)
// and a first line of column titles (Titles) are skipped. Ids may be any text. Ids become nodes as follows:
//  - With options.ids, node i is ids[i], and every id of the file must be one of them.
//  - With options.node_count, ids are the numbers 0..N-1; others are errors.
//  - Otherwise, ids that are exactly 0..max are node numbers. If options.feature_rows is set, any numbers below it are.
//    All other ids are mapped: numbers in ascending order, text in order of first appearance.
#ifndef VICINAL_CLIENT_CPP_FORMATS_EDGE_LIST_H_
#define VICINAL_CLIENT_CPP_FORMATS_EDGE_LIST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/cpp/formats/edges.h"

namespace vicinal::client {

// Whether the first line that is not a comment contains titles. kAuto: it does if its first two words are known titles
// ("source", "target"), or if it has words where the next line has numbers. If ids are text, this cannot be decided: a
// first line whose words occur nowhere else is then an error.
enum class Titles { kAuto, kYes, kNo };

// Whether lines that begin with '#' or '%' are comments. kAuto: before the first edge they are, and later if their
// number of columns is not that of an edge. A later line with the columns of an edge is an error, because it may be
// one; so is a line before the first edge that names an id of an edge.
enum class Comments { kAuto, kYes, kNo };

struct EdgeListOptions {
  Titles titles = Titles::kAuto;
  Comments comments = Comments::kAuto;
  // Number of nodes, if the user specified it.
  std::optional<int64_t> node_count;
  // Rows of the accompanying feature file, if any.
  std::optional<int64_t> feature_rows;
  // The ids in node order, if the user specified them. Not owned.
  const IdMap* ids = nullptr;
};

// `path` is for messages. Memory: about 24 bytes per edge for numbers, more for text. INVALID_ARGUMENT with file and
// line.
absl::StatusOr<EdgeFile> ParseEdgeList(std::string_view text, const std::string& path, const EdgeListOptions& options);

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_FORMATS_EDGE_LIST_H_
