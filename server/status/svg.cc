// SPDX-License-Identifier: Apache-2.0
#include "server/status/svg.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace vicinal::server {
namespace {

constexpr char kInk[] = "#1b4f8a";
constexpr int kSteps = 8;

// "0", "1", "2-3", "4-7", ...
std::string DegreesText(size_t digits) {
  if (digits < 2) return absl::StrCat(digits);
  const uint64_t first = uint64_t{1} << (digits - 1);
  return absl::StrCat(first, "-", 2 * first - 1);
}

}  // namespace

std::string HistogramSvg(const std::vector<int64_t>& degree_counts) {
  if (degree_counts.empty()) return {};
  constexpr int kRow = 18, kLabel = 110, kBar = 260, kCount = 90;
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
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"384\" height=\"384\" viewBox=\"0 0 %d %d\" role=\"img\" "
      "aria-label=\"%s\" "
      "shape-rendering=\"crispEdges\">\n<rect width=\"%d\" height=\"%d\" fill=\"#f4f6f8\"/>\n",
      side, side, label, side, side);
  for (int step = 0; step < kSteps; ++step) {
    if (paths[step].empty()) continue;
    absl::StrAppendFormat(&svg, "<path fill=\"%s\" fill-opacity=\"%.3f\" d=\"%s\"/>\n", kInk, (step + 1.0) / kSteps,
                          paths[step]);
  }
  return svg + "</svg>\n";
}

}  // namespace vicinal::server
