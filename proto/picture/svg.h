// SPDX-License-Identifier: Apache-2.0
// Pictures of a graph as SVG, for the status page and for `vicinal graph plot`: no styles, no scripts, nothing from
// elsewhere. Pure.
#ifndef VICINAL_PROTO_PICTURE_SVG_H_
#define VICINAL_PROTO_PICTURE_SVG_H_

#include <cstdint>
#include <string>
#include <vector>

namespace vicinal::picture {

// Bars over the number of binary digits of the degree, on a logarithmic scale, with labels. Empty: no counts.
// REQUIRES: at most 64 counts, none negative.
std::string HistogramSvg(const std::vector<int64_t>& degree_counts);

// A square of side x side tiles, [0, 0] at the top left: the more edges, the darker, in eight steps of a logarithmic
// scale up to `most`, so that pictures with one `most` can be compared. About 12 bytes for each tile that is not empty.
// `label`: what it shows, plain ASCII. REQUIRES: side * side counts, none negative.
std::string AdjacencySvg(const std::vector<int64_t>& tiles, int side, int64_t most, const char* label);

// The common scale of two such squares.
int64_t MostEdges(const std::vector<int64_t>& before, const std::vector<int64_t>& after);

// What a square shows, as a sentence. `row_stride`: every how many-th target was counted.
std::string TilesText(int side, int64_t row_stride);

// What GraphSvg draws; the counts as in v1::GraphPicture.
struct GraphCounts {
  std::string title, order;  // any text
  std::vector<int64_t> degree_counts;
  int side = 0;
  int64_t row_stride = 1;
  std::vector<int64_t> before, after;
};

// A document of its own: the bars, and both squares side by side. REQUIRES: as of the parts.
std::string GraphSvg(const GraphCounts& counts);

}  // namespace vicinal::picture

#endif  // VICINAL_PROTO_PICTURE_SVG_H_
