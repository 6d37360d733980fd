// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>
#include <vector>

#include "engine/cuda/aggregate/length_sorted_rows/length_sorted_rows.h"

namespace vicinal::cuda {
namespace {

struct Place {
  RowItem item;
  int64_t parts;  // of its row
  int64_t part;   // its index
};

bool Before(const Place& a, const Place& b) {
  return std::tuple(-a.parts, a.part, -a.item.count, a.item.begin) <
         std::tuple(-b.parts, b.part, -b.item.count, b.item.begin);
}

}  // namespace

RowWork MakeLengthSortedWork(const CsrView& adjacency, const LengthSortedConfig& config, ThreadPool& pool) {
  RowWork work;
  work.bundle_items = kBundleItems;
  const int64_t window_rows = config.window > 0 ? config.window : std::max<int64_t>(1, adjacency.rows);
  std::vector<std::vector<Place>> windows((adjacency.rows + window_rows - 1) / window_rows);
  for (int64_t row = 0; row < adjacency.rows; ++row) {
    std::vector<Place>& places = windows[row / window_rows];
    const int64_t begin = adjacency.row_ptr[row], count = adjacency.row_ptr[row + 1] - begin;
    const int64_t parts = PartsOf(count, config.part);
    if (parts == 1) {
      places.push_back({{static_cast<int32_t>(row), static_cast<int32_t>(count), begin}, 1, 0});
      continue;
    }
    work.splits.push_back({static_cast<int32_t>(row), static_cast<int32_t>(parts), work.num_parts});
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t from = PartBegin(count, parts, part), to = PartBegin(count, parts, part + 1);
      const auto number = static_cast<int32_t>(work.num_parts++);
      places.push_back({{~number, static_cast<int32_t>(to - from), begin + from}, parts, part});
    }
  }
  pool.ParallelFor(static_cast<int64_t>(windows.size()),
                   [&](int64_t window, int) { std::sort(windows[window].begin(), windows[window].end(), Before); });
  for (const std::vector<Place>& places : windows) {
    for (const Place& place : places) work.items.push_back(place.item);
  }
  work.num_short = static_cast<int64_t>(work.items.size());
  return work;
}

int64_t LengthSortedBytesBound(int64_t rows, int64_t edges) {
  // A row that is cut has more than `part` edges, so it has at most one part more than edges / part.
  const int64_t cut = std::min(rows, edges / kMinPart), parts = edges / kMinPart + cut;
  return (rows + parts) * static_cast<int64_t>(sizeof(RowItem)) + cut * static_cast<int64_t>(sizeof(SplitRow));
}

}  // namespace vicinal::cuda
