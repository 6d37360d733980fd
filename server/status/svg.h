// SPDX-License-Identifier: Apache-2.0
// Pictures of a graph as SVG elements without text from outside, without styles and without scripts.
#ifndef VICINAL_SERVER_STATUS_SVG_H_
#define VICINAL_SERVER_STATUS_SVG_H_

#include <cstdint>
#include <string>
#include <vector>

namespace vicinal::server {

// Bars over the number of binary digits of the degree, on a logarithmic scale, with labels. Empty: no counts.
std::string HistogramSvg(const std::vector<int64_t>& degree_counts);

// A square of side x side tiles, [0, 0] at the top left: the more edges, the darker, in eight steps of a logarithmic
// scale up to `most`, so that pictures with one `most` can be compared. About 12 bytes for each tile that is not empty.
// `label`: what it shows, plain ASCII.
std::string AdjacencySvg(const std::vector<int64_t>& tiles, int side, int64_t most, const char* label);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_STATUS_SVG_H_
