// SPDX-License-Identifier: Apache-2.0
#include "proto/picture/svg.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace vicinal::picture {
namespace {

constexpr char kInk[] = "#1b4f8a";
constexpr int kSteps = 8;
constexpr int kRow = 18;         // height of a bar, in pixels
constexpr int kAdjacency = 384;  // side of a map

// "0", "1", "2-3", "4-7", ...
std::string DegreesText(size_t digits) {
  if (digits < 2) return absl::StrCat(digits);
  const uint64_t first = uint64_t{1} << (digits - 1);
  return absl::StrCat(first, "-", 2 * first - 1);
}

// Content of an element: markup and what is no printable ASCII become '?'.
std::string XmlText(const std::string& words) {
  std::string safe = words;
  for (char& c : safe) {
    if (c < ' ' || c > '~' || c == '<' || c == '>' || c == '&') c = '?';
  }
  return safe;
}

}  // namespace

std::string HistogramSvg(const std::vector<int64_t>& degree_counts) {
  if (degree_counts.empty()) return {};
  constexpr int kLabel = 110, kBar = 260, kCount = 90;
  const int64_t most = std::max<int64_t>(1, *std::max_element(degree_counts.begin(), degree_counts.end()));
  const auto height = kRow * static_cast<int>(degree_counts.size());
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\" "
      "aria-label=\"nodes by degree\" font-family=\"sans-serif\" font-size=\"12\">\n",
      kLabel + kBar + kCount, height, kLabel + kBar + kCount, height);
  for (size_t i = 0; i < degree_counts.size(); ++i) {
    const int y = kRow * static_cast<int>(i);
    const double share = std::log1p(static_cast<double>(degree_counts[i])) / std::log1p(static_cast<double>(most));
    const double width = kBar * share;
    absl::StrAppendFormat(
        &svg,
        "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text><rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" "
        "fill=\"%s\"/><text x=\"%.1f\" y=\"%d\">%d</text>\n",
        kLabel - 8, y + 13, DegreesText(i), kLabel, y + 2, width, kRow - 4, kInk, kLabel + width + 6, y + 13,
        degree_counts[i]);
  }
  return svg + "</svg>\n";
}

std::string AdjacencySvg(const std::vector<int64_t>& tiles, int side, int64_t most, const char* label) {
  std::string paths[kSteps];
  const double scale = std::log1p(static_cast<double>(std::max<int64_t>(1, most)));
  for (int row = 0; row < side; ++row) {
    for (int column = 0; column < side; ++column) {
      const int64_t count = tiles[static_cast<size_t>(row) * static_cast<size_t>(side) + static_cast<size_t>(column)];
      if (count == 0) continue;
      const double share = std::log1p(static_cast<double>(count)) / scale;
      const int step = std::clamp(static_cast<int>(share * kSteps), 0, kSteps - 1);
      absl::StrAppend(&paths[step], "M", column, " ", row, "h1v1h-1z");
    }
  }
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\" "
      "aria-label=\"%s\" "
      "shape-rendering=\"crispEdges\">\n<rect width=\"%d\" height=\"%d\" fill=\"#f4f6f8\"/>\n",
      kAdjacency, kAdjacency, side, side, label, side, side);
  for (int step = 0; step < kSteps; ++step) {
    if (paths[step].empty()) continue;
    absl::StrAppendFormat(&svg, "<path fill=\"%s\" fill-opacity=\"%.3f\" d=\"%s\"/>\n", kInk, (step + 1.0) / kSteps,
                          paths[step]);
  }
  return svg + "</svg>\n";
}

int64_t MostEdges(const std::vector<int64_t>& before, const std::vector<int64_t>& after) {
  int64_t most = 0;
  for (const std::vector<int64_t>* const tiles : {&before, &after}) {
    for (const int64_t count : *tiles) most = std::max(most, count);
  }
  return most;
}

std::string TilesText(int side, int64_t row_stride) {
  return absl::StrCat("Sources from left to right, targets from top to bottom, ", side, " x ", side, " tiles",
                      row_stride > 1 ? absl::StrCat(", every ", row_stride, "th target") : std::string(),
                      "; the darker, the more edges.");
}

std::string GraphSvg(const GraphCounts& counts) {
  constexpr int kMargin = 24, kLine = 28, kGap = 32;
  const auto bars = kRow * static_cast<int>(counts.degree_counts.size());
  const int width = 2 * kMargin + 2 * kAdjacency + kGap, tiles = kMargin + 3 * kLine + bars, maps = tiles + 2 * kLine;
  const int height = maps + kAdjacency + kMargin, right = kMargin + kAdjacency + kGap;
  const int64_t most = MostEdges(counts.before, counts.after);
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
      "font-family=\"sans-serif\" font-size=\"13\" fill=\"#1d2733\">\n<rect width=\"%d\" height=\"%d\" "
      "fill=\"#ffffff\"/>\n",
      width, height, width, height, width, height);
  const auto text = [&](int x, int y, const std::string& words) {
    absl::StrAppendFormat(&svg, "<text x=\"%d\" y=\"%d\">%s</text>\n", x, y, XmlText(words));
  };
  const auto place = [&](int x, int y, const std::string& part) {
    absl::StrAppendFormat(&svg, "<g transform=\"translate(%d %d)\">\n%s</g>\n", x, y, part);
  };
  text(kMargin, kMargin + 8, counts.title);
  text(kMargin, kMargin + kLine + 8, "Nodes by in-degree");
  place(kMargin, kMargin + 2 * kLine - 8, HistogramSvg(counts.degree_counts));
  text(kMargin, tiles, TilesText(counts.side, counts.row_stride));
  text(kMargin, maps - 10, "as uploaded");
  text(right, maps - 10, absl::StrCat("in execution order (", counts.order, ")"));
  place(kMargin, maps, AdjacencySvg(counts.before, counts.side, most, "adjacency in the order of the upload"));
  place(right, maps, AdjacencySvg(counts.after, counts.side, most, "adjacency in execution order"));
  return svg + "</svg>\n";
}

}  // namespace vicinal::picture
