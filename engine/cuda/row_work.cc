// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/row_work.h"

#include <algorithm>
#include <utility>

#include "engine/cuda/send.h"

namespace vicinal::cuda {
namespace {

// The items of one window of rows, longest first.
void SortWindow(const CsrView& adjacency, int64_t first, int64_t last, int64_t longest, std::vector<RowItem>* items) {
  for (int64_t row = first; row < last; ++row) {
    const int64_t begin = adjacency.row_ptr[row], count = adjacency.row_ptr[row + 1] - begin;
    if (count <= longest) items->push_back({static_cast<int32_t>(row), static_cast<int32_t>(count), begin});
  }
  std::stable_sort(items->begin(), items->end(), [](const RowItem& a, const RowItem& b) { return a.count > b.count; });
}

}  // namespace

RowWork MakeRowWork(const CsrView& adjacency, ThreadPool& pool) {
  const int64_t longest = PartEdges(adjacency.nnz);
  RowWork work;
  for (int64_t row = 0; row < adjacency.rows; ++row) {
    const int64_t begin = adjacency.row_ptr[row], count = adjacency.row_ptr[row + 1] - begin;
    if (count <= longest) continue;
    work.splits.push_back({static_cast<int32_t>(row), static_cast<int32_t>((count + longest - 1) / longest),
                           static_cast<int64_t>(work.items.size())});
    for (int64_t done = 0; done < count; done += longest) {
      work.items.push_back(
          {static_cast<int32_t>(row), static_cast<int32_t>(std::min(longest, count - done)), begin + done});
    }
  }
  work.num_parts = static_cast<int64_t>(work.items.size());

  const int64_t windows = (adjacency.rows + kSortWindow - 1) / kSortWindow;
  std::vector<std::vector<RowItem>> sorted(windows);
  pool.ParallelFor(windows, [&](int64_t window, int) {
    const int64_t first = window * kSortWindow;
    SortWindow(adjacency, first, std::min(adjacency.rows, first + kSortWindow), longest, &sorted[window]);
  });
  for (const std::vector<RowItem>& window : sorted) work.items.insert(work.items.end(), window.begin(), window.end());
  return work;
}

StatusOr<std::shared_ptr<const RowWorkLayout>> RowWorkLayout::Upload(const RowWork& work, Device& device) {
  auto layout = std::make_shared<RowWorkLayout>();
  VICINAL_ASSIGN_OR_RETURN(layout->items_, Send(work.items, device));
  VICINAL_ASSIGN_OR_RETURN(layout->splits_, Send(work.splits, device));
  layout->num_items_ = static_cast<int64_t>(work.items.size());
  layout->num_parts_ = work.num_parts;
  layout->num_splits_ = static_cast<int64_t>(work.splits.size());
  return std::shared_ptr<const RowWorkLayout>(std::move(layout));
}

}  // namespace vicinal::cuda
