// SPDX-License-Identifier: Apache-2.0
// Checking walks all items once, with a mark per row and per part.
#include "engine/cuda/aggregate/rows/row_work_form.h"

#include <cstring>
#include <string>
#include <vector>

namespace vicinal::cuda {
namespace {

// Finds the first thing wrong with a list; empty: nothing.
class RowWorkCheck {
 public:
  RowWorkCheck(const RowWork& work, const CsrView& borders, const RowCuts& cuts)
      : work_(work), borders_(borders), cuts_(cuts), done_(static_cast<size_t>(borders.rows), false) {}

  std::string Problem() {
    if (std::string problem = Splits(); !problem.empty()) return problem;
    part_done_.assign(static_cast<size_t>(num_parts_), false);
    if (std::string problem = Sizes(); !problem.empty()) return problem;
    const auto count = static_cast<int64_t>(work_.items.size());
    for (int64_t i = 0; i < count; ++i) {
      const RowItem& item = work_.items[i];
      const bool bundled = i >= work_.num_blocks && work_.num_short == 0;
      if (item.count < 0 && bundled) continue;  // padding
      if (!Take(item)) return "an item is no row or part of a row, or is there twice";
      if (i >= work_.num_blocks && item.count > (bundled ? cuts_.part : cuts_.block)) return "an item is too long";
      if (bundled && !FitsBundle(i)) return "a bundle has more than it has room for";
    }
    for (const bool done : done_) {
      if (!done) return "a row is missing";
    }
    for (const bool done : part_done_) {
      if (!done) return "a part of a row is missing";
    }
    return SplitsOfParts();
  }

 private:
  int64_t Length(int64_t row) const { return borders_.row_ptr[row + 1] - borders_.row_ptr[row]; }

  std::string Splits() {
    for (const SplitRow& split : work_.splits) {
      if (split.row < 0 || split.row >= borders_.rows || done_[split.row]) return "a split row is none, or there twice";
      const int64_t count = Length(split.row);
      if (count <= cuts_.part || split.parts != (count + cuts_.part - 1) / cuts_.part) {
        return "a split row has another number of parts";
      }
      if (split.first_part != num_parts_) return "the parts of split rows do not follow each other";
      done_[split.row] = true;
      for (int32_t p = 0; p < split.parts; ++p) split_of_.push_back(&split);
      num_parts_ += split.parts;
    }
    return {};
  }
  std::string Sizes() const {
    const auto count = static_cast<int64_t>(work_.items.size());
    const bool bundles = work_.bundle_items == kBundleItems || work_.bundle_items == kWideItems;
    if (!bundles || work_.num_blocks < 0 || work_.num_blocks > count) return "its numbers are out of range";
    if (work_.num_short != 0 && work_.num_short != count - work_.num_blocks) return "its numbers are out of range";
    if (work_.num_short == 0 && (count - work_.num_blocks) % work_.bundle_items != 0) return "a bundle is not full";
    return {};
  }
  // Whether the item is a whole row or a part that was not there before.
  bool Take(const RowItem& item) {
    if (item.row >= 0) {
      if (item.row >= borders_.rows || done_[item.row]) return false;
      done_[item.row] = true;
      const int64_t length = Length(item.row);
      return length <= cuts_.part && item.begin == borders_.row_ptr[item.row] && item.count == length;
    }
    const int64_t part = ~item.row;
    if (part >= num_parts_ || part_done_[part]) return false;
    part_done_[part] = true;
    const SplitRow& split = *split_of_[part];
    const int64_t count = Length(split.row), index = part - split.first_part;
    const int64_t from = cuts_.begin(count, split.parts, index), to = cuts_.begin(count, split.parts, index + 1);
    return item.begin == borders_.row_ptr[split.row] + from && item.count == to - from;
  }
  // A long item is alone in its bundle.
  bool FitsBundle(int64_t index) const {
    const int64_t at = (index - work_.num_blocks) % work_.bundle_items, first = index - at;
    if (work_.items[index].count <= kShortEdges) return at == 0 || work_.items[first].count <= kShortEdges;
    if (at != 0) return false;
    for (int64_t i = 1; i < work_.bundle_items; ++i) {
      if (work_.items[first + i].count >= 0) return false;
    }
    return true;
  }
  std::string SplitsOfParts() const {
    if (work_.split_of_part.empty()) return {};
    if (static_cast<int64_t>(work_.split_of_part.size()) != num_parts_) return "not every part has its split row";
    for (int64_t part = 0; part < num_parts_; ++part) {
      const SplitRow &named = work_.split_of_part[part], &split = *split_of_[part];
      if (named.row != split.row || named.parts != split.parts || named.first_part != split.first_part) {
        return "a part has another split row";
      }
    }
    return {};
  }

  const RowWork& work_;
  const CsrView& borders_;
  const RowCuts& cuts_;
  std::vector<bool> done_, part_done_;
  std::vector<const SplitRow*> split_of_;  // of each part
  int64_t num_parts_ = 0;
};

}  // namespace

FlatLayout FlattenRowWork(const RowWorkLayout& work) {
  const int64_t bundle_items = work.wide() ? kWideItems : kBundleItems;
  const int64_t items = work.num_blocks() + work.num_short() + work.num_bundles() * bundle_items;
  constexpr auto kItem = static_cast<int64_t>(sizeof(RowItem)), kSplit = static_cast<int64_t>(sizeof(SplitRow));
  FlatLayout flat;
  flat.arrays = {{"items", work.items(), items * kItem},
                 {"splits", work.splits(), work.num_splits() * kSplit},
                 {"split_of_part", work.split_of_part(), work.num_parts() * kSplit}};
  flat.numbers = {{"num_blocks", work.num_blocks()}, {"num_short", work.num_short()}, {"bundle_items", bundle_items}};
  return flat;
}

StatusOr<RowWork> ReadRowWork(const LayoutInput& input, const CsrView& borders, const RowCuts& cuts) {
  const int64_t parts = borders.nnz / cuts.part + borders.rows;  // at most
  RowWork work;
  VICINAL_RETURN_IF_ERROR(input.Fill("items", kWideItems * (borders.rows + parts + 1), &work.items));
  VICINAL_RETURN_IF_ERROR(input.Fill("splits", borders.rows, &work.splits));
  VICINAL_RETURN_IF_ERROR(input.Fill("split_of_part", parts, &work.split_of_part));
  VICINAL_ASSIGN_OR_RETURN(work.num_blocks, input.Number("num_blocks"));
  VICINAL_ASSIGN_OR_RETURN(work.num_short, input.Number("num_short"));
  VICINAL_ASSIGN_OR_RETURN(const int64_t bundle_items, input.Number("bundle_items"));
  work.bundle_items = bundle_items == kWideItems ? kWideItems : bundle_items == kBundleItems ? kBundleItems : 0;
  const std::string problem = RowWorkCheck(work, borders, cuts).Problem();
  if (!problem.empty()) return input.Bad(problem);
  return work;
}

}  // namespace vicinal::cuda
