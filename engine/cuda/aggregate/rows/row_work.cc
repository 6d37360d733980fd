// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/aggregate/rows/row_work.h"

#include <algorithm>
#include <utility>

#include "engine/cuda/runtime/send.h"

namespace vicinal::cuda {
namespace {

// The items of one window of rows. Windows are built in parallel, then joined in order.
struct Window {
  std::vector<RowItem> blocks, bundles;
};

bool Longer(const RowItem& a, const RowItem& b) { return a.count > b.count; }

struct Bundling {
  int64_t rows;   // short rows per warp; fewer if there would be too few warps
  int64_t items;  // that a bundle has room for
};
Bundling BundlingOf(int64_t rows, int64_t edges, int wide_up_to) {
  constexpr int64_t kEnoughBundles = 2048;
  if (HasWideBundles(rows, edges, wide_up_to)) return {kWideItems, kWideItems};
  return {std::clamp<int64_t>(rows / kEnoughBundles, 1, kBundleItems), kBundleItems};
}

void EndBundle(const Bundling& bundling, std::vector<RowItem>* items) {
  while (items->size() % bundling.items != 0) items->push_back({});
}

// The rows of [first, last) with at most `part` edges. Those of more than `block` edges have a block each. With `small`
// (kSmallGraphEdges) the others are not bundled.
Window MakeWindow(const CsrView& adjacency, const Bundling& bundling, int64_t first, int64_t last, int64_t part,
                  int64_t block, bool small) {
  std::vector<RowItem> rows;
  for (int64_t row = first; row < last; ++row) {
    const int64_t begin = adjacency.row_ptr[row], count = adjacency.row_ptr[row + 1] - begin;
    if (count <= part) rows.push_back({static_cast<int32_t>(row), static_cast<int32_t>(count), begin});
  }
  std::stable_sort(rows.begin(), rows.end(), Longer);
  Window window;
  for (const RowItem& item : rows) {
    if (item.count > block) {
      window.blocks.push_back(item);
      continue;
    }
    window.bundles.push_back(item);
    if (small) continue;
    const bool full = static_cast<int64_t>(window.bundles.size()) % bundling.items >= bundling.rows;
    if (item.count > kShortEdges || full) EndBundle(bundling, &window.bundles);
  }
  if (!small) EndBundle(bundling, &window.bundles);
  return window;
}

// The first row of each window, then the number of rows.
std::vector<int64_t> WindowBounds(const CsrView& adjacency) {
  std::vector<int64_t> bounds = {0};
  for (int64_t first = 0; first < adjacency.rows; first = bounds.back()) {
    const bool last =
        adjacency.rows - first <= kLastWindowRows && adjacency.nnz - adjacency.row_ptr[first] <= kLastWindowEdges;
    bounds.push_back(last ? adjacency.rows : std::min(adjacency.rows, first + kSortWindow));
  }
  return bounds;
}

// The parts of all rows of more than `part` edges.
std::vector<RowItem> CutRows(const CsrView& adjacency, int64_t part, std::vector<SplitRow>* splits) {
  std::vector<RowItem> items;
  for (int64_t row = 0; row < adjacency.rows; ++row) {
    const int64_t begin = adjacency.row_ptr[row], count = adjacency.row_ptr[row + 1] - begin;
    if (count <= part) continue;
    splits->push_back({static_cast<int32_t>(row), static_cast<int32_t>((count + part - 1) / part),
                       static_cast<int64_t>(items.size())});
    for (int64_t done = 0; done < count; done += part) {
      items.push_back(
          {~static_cast<int32_t>(items.size()), static_cast<int32_t>(std::min(part, count - done)), begin + done});
    }
  }
  return items;
}

}  // namespace

int BlockEdges(int64_t edges) {
  // On larger graphs no whole row has a block: longer rows are cut.
  return edges < kSmallGraphEdges ? kShortEdges : PartEdges(edges);
}

int64_t RowWork::num_bundles() const {
  return num_short > 0 ? 0 : (static_cast<int64_t>(items.size()) - num_blocks) / bundle_items;
}

bool HasWideBundles(int64_t rows, int64_t edges, int wide_up_to) {
  constexpr int64_t kManyBundles = 8192;
  return rows >= kWideItems * kManyBundles && edges <= wide_up_to * rows;
}

RowWork MakeRowWork(const CsrView& adjacency, ThreadPool& pool, int wide_up_to) {
  const int64_t part = PartEdges(adjacency.nnz), block = BlockEdges(adjacency.nnz);
  const bool small = adjacency.nnz < kSmallGraphEdges;
  const Bundling bundling = BundlingOf(adjacency.rows, adjacency.nnz, wide_up_to);
  RowWork work;
  work.bundle_items = static_cast<int>(bundling.items);
  const std::vector<RowItem> parts = CutRows(adjacency, part, &work.splits);
  work.num_parts = static_cast<int64_t>(parts.size());
  const std::vector<int64_t> bounds = WindowBounds(adjacency);
  std::vector<Window> windows(bounds.size() - 1);
  pool.ParallelFor(static_cast<int64_t>(windows.size()), [&](int64_t window, int) {
    windows[window] = MakeWindow(adjacency, bundling, bounds[window], bounds[window + 1], part, block, small);
  });

  const bool parts_have_blocks = part > block;
  if (parts_have_blocks) work.items = parts;
  for (const Window& window : windows) {
    work.items.insert(work.items.end(), window.blocks.begin(), window.blocks.end());
  }
  work.num_blocks = static_cast<int64_t>(work.items.size());
  std::vector<RowItem> bundles;
  for (size_t i = 0; i < parts.size() && !parts_have_blocks; ++i) {
    bundles.push_back(parts[i]);
    EndBundle(bundling, &bundles);
  }
  for (const Window& window : windows) bundles.insert(bundles.end(), window.bundles.begin(), window.bundles.end());
  work.items.insert(work.items.end(), bundles.begin(), bundles.end());
  if (small) work.num_short = static_cast<int64_t>(bundles.size());
  // Checking for the last part costs each part a little, a second kernel costs 2 us. So warps check only if there are
  // few parts and the launch is short.
  constexpr int64_t kItemsPerPart = 4;
  if (part == kPieceEdges && (small || work.num_parts * kItemsPerPart <= work.num_bundles())) {
    for (const SplitRow& split : work.splits) work.split_of_part.insert(work.split_of_part.end(), split.parts, split);
  }
  return work;
}

int64_t RowWorkLayout::BytesBound(int64_t rows, int64_t edges) {
  const int64_t of_one = std::min(rows, edges / (kShortEdges + 1)) + MaxParts(edges);
  // An adjacency with fewer edges may have wider bundles.
  int64_t items = 0;
  for (const int64_t bundled : {edges, std::min(edges, kWideUpToCheapRows * rows)}) {
    const Bundling bundling = BundlingOf(rows, bundled, kWideUpToCheapRows);
    items = std::max(items, bundling.items * (of_one + rows / bundling.rows + rows / kSortWindow + 2));
  }
  return items * static_cast<int64_t>(sizeof(RowItem)) + 2 * MaxParts(edges) * static_cast<int64_t>(sizeof(SplitRow));
}

StatusOr<std::shared_ptr<const RowWorkLayout>> RowWorkLayout::Upload(const RowWork& work, Device& device) {
  auto layout = std::make_shared<RowWorkLayout>();
  VICINAL_ASSIGN_OR_RETURN(layout->items_, Send(work.items, device));
  VICINAL_ASSIGN_OR_RETURN(layout->splits_, Send(work.splits, device));
  VICINAL_ASSIGN_OR_RETURN(layout->split_of_part_, Send(work.split_of_part, device));
  layout->num_parts_ = static_cast<int64_t>(work.split_of_part.size());
  layout->num_blocks_ = work.num_blocks;
  layout->bundle_items_ = work.bundle_items;
  layout->num_bundles_ = work.num_bundles();
  layout->num_short_ = work.num_short;
  layout->num_splits_ = static_cast<int64_t>(work.splits.size());
  return std::shared_ptr<const RowWorkLayout>(std::move(layout));
}

}  // namespace vicinal::cuda
