// SPDX-License-Identifier: Apache-2.0
// Checking walks the streams as the kernel does, block by block of rows.
#include "engine/cuda/aggregate/source_panels/detail/source_panels_form.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

namespace vicinal::cuda {
namespace {

class SourcePanelsCheck {
 public:
  SourcePanelsCheck(const SourcePanels& panels, const CsrView& adjacency, const PanelShape& shape)
      : panels_(panels),
        adjacency_(adjacency),
        shape_(shape),
        blocks_((adjacency.rows + shape.rows() - 1) / shape.rows()),
        count_(static_cast<int64_t>(panels.source.size()) / shape.places),
        pieces_(static_cast<int64_t>(panels.pieces.size())),
        step_(int64_t{kEntries} * shape.groups) {}

  std::string Problem(ThreadPool& pool) {
    if (std::string problem = Sizes(); !problem.empty()) return problem;
    if (std::string problem = Pieces(); !problem.empty()) return problem;
    std::atomic<bool> bad{false};
    pool.ParallelFor(blocks_, [&](int64_t block, int) {
      if (!IsBlock(block)) bad = true;
    });
    return bad ? "its rows, sources or streams are not those of the adjacency" : "";
  }

 private:
  std::string Sizes() const {
    const auto is = [](const auto& values, int64_t count) { return static_cast<int64_t>(values.size()) == count; };
    if (!is(panels_.source, count_ * shape_.places) || !is(panels_.cell, count_ * shape_.rows())) {
      return "sources and cells are not those of whole panels";
    }
    if (!is(panels_.row, blocks_ * shape_.rows()) || !is(panels_.begin, pieces_ * shape_.warps)) {
      return "slots or beginnings are not as many as rows or pieces need";
    }
    if (!is(panels_.weight, adjacency_.value == nullptr ? 0 : static_cast<int64_t>(panels_.stream.size()))) {
      return "weights are not as many as entries";
    }
    const std::vector<int32_t>& first = panels_.first_piece;
    if (!is(first, blocks_ + 1) || first.front() != 0 || first.back() != pieces_ ||
        !std::is_sorted(first.begin(), first.end())) {
      return "the blocks of rows have other pieces";
    }
    const auto is_source = [&](int32_t source) { return source >= -1 && source < adjacency_.cols; };
    if (!std::all_of(panels_.source.begin(), panels_.source.end(), is_source)) return "a source is out of range";
    return {};
  }

  // Fills piece_of_sums_.
  std::string Pieces() {
    piece_of_sums_.assign(static_cast<size_t>(pieces_), nullptr);
    std::vector<bool> done(static_cast<size_t>(count_), false);
    for (const PanelPiece& piece : panels_.pieces) {
      if (piece.sums < 0 || piece.sums >= pieces_ || piece_of_sums_[piece.sums] != nullptr) {
        return "two pieces have the same sums";
      }
      piece_of_sums_[piece.sums] = &piece;
      if (piece.count < 1 || piece.first < 0 || piece.first > count_ - piece.count) return "a piece has other panels";
      if (piece.block < 0 || piece.block >= blocks_ || piece.sums < panels_.first_piece[piece.block] ||
          piece.sums >= panels_.first_piece[piece.block + 1]) {
        return "a piece is of another block of rows";
      }
      for (int64_t panel = piece.first; panel < piece.first + piece.count; ++panel) {
        if (done[panel]) return "a panel is in two pieces";
        done[panel] = true;
      }
    }
    return std::find(done.begin(), done.end(), false) == done.end() ? "" : "a panel is in no piece";
  }

  bool IsBlock(int64_t block) const {
    const int64_t first_row = block * shape_.rows();
    const int64_t rows = std::min<int64_t>(shape_.rows(), adjacency_.rows - first_row);
    const int32_t* const slots = panels_.row.data() + first_row;
    std::vector<int64_t> left(static_cast<size_t>(rows), -1);  // edges of each row that are still to come
    for (int64_t slot = 0; slot < shape_.rows(); ++slot) {
      const int32_t row = slots[slot];
      if (row == -1) continue;
      if (row < 0 || row >= rows || left[row] >= 0) return false;
      left[row] = adjacency_.row_ptr[first_row + row + 1] - adjacency_.row_ptr[first_row + row];
    }
    for (int32_t sums = panels_.first_piece[block]; sums < panels_.first_piece[block + 1]; ++sums) {
      for (int warp = 0; warp < shape_.warps; ++warp) {
        if (!IsWarp(*piece_of_sums_[sums], warp, slots + warp * kSlots, &left)) return false;
      }
    }
    return std::all_of(left.begin(), left.end(), [](int64_t edges) { return edges == 0; });
  }

  bool IsWarp(const PanelPiece& piece, int warp, const int32_t* slots, std::vector<int64_t>* left) const {
    int64_t at = panels_.begin[int64_t{piece.sums} * shape_.warps + warp];
    if (at < 0 || at % step_ != 0) return false;
    for (int64_t panel = piece.first; panel < piece.first + piece.count; ++panel) {
      const uint16_t* const cells = panels_.cell.data() + (panel * shape_.warps + warp) * kSlots;
      for (int slot = 0; slot < kSlots; ++slot) {
        if (cells[slot] == 0) continue;
        const int64_t edges = slots[slot] < 0 ? -1 : EdgesOf(cells[slot], panel, &at);
        if (edges < 0) return false;
        (*left)[slots[slot]] -= edges;
      }
    }
    return IsStep(at);  // the kernel reads one step ahead
  }

  bool IsStep(int64_t at) const { return at <= static_cast<int64_t>(panels_.stream.size()) - step_; }

  // The edges of a cell, whose steps begin at *at, which is moved behind them; -1: it has some that are none.
  int64_t EdgesOf(uint16_t cell, int64_t panel, int64_t* at) const {
    const int64_t direct = cell >> 8, pairs = cell & 0xff;
    const int64_t direct_steps = (direct + 2 * shape_.groups - 1) / (2 * shape_.groups), steps = (pairs + 1) / 2;
    if (*at > static_cast<int64_t>(panels_.stream.size()) - (direct_steps + steps) * step_) return -1;
    const uint16_t* entries = panels_.stream.data() + *at;
    *at += (direct_steps + steps) * step_;
    for (int64_t i = 0; i < direct; ++i) {
      const uint32_t source = entries[2 * i] | static_cast<uint32_t>(entries[2 * i + 1]) << 16;
      if (source >= static_cast<uint64_t>(adjacency_.cols)) return -1;
    }
    entries += direct_steps * step_;
    int64_t edges = direct;
    for (int64_t i = 0; i < steps * step_; ++i) {
      const bool half = i / step_ == steps - 1 && pairs % 2 == 1;  // a last step of two edges for each group
      if (half && i % kEntries >= kEntries / 2) continue;
      if (entries[i] % shape_.pitch() != 0) return -1;
      const int64_t place = entries[i] / shape_.pitch();
      if (place == shape_.places - 1) continue;
      if (place >= shape_.places || panels_.source[panel * shape_.places + place] < 0) return -1;
      ++edges;
    }
    return edges;
  }

  const SourcePanels& panels_;
  const CsrView& adjacency_;
  const PanelShape& shape_;
  const int64_t blocks_, count_, pieces_, step_;
  std::vector<const PanelPiece*> piece_of_sums_;
};

}  // namespace

StatusOr<SourcePanels> ReadSourcePanels(const LayoutInput& input, const CsrView& adjacency, const PanelShape& shape,
                                        ThreadPool& pool) {
  const int64_t most = SourcePanelsLayout::BytesBound(adjacency.rows, adjacency.nnz);
  SourcePanels panels;
  VICINAL_RETURN_IF_ERROR(input.Fill("source", most / 4, &panels.source));
  VICINAL_RETURN_IF_ERROR(input.Fill("stream", most / 2, &panels.stream));
  VICINAL_RETURN_IF_ERROR(input.Fill("weight", most / 4, &panels.weight));
  VICINAL_RETURN_IF_ERROR(input.Fill("pieces", MaxPanelPieces(adjacency.rows, shape), &panels.pieces));
  VICINAL_RETURN_IF_ERROR(input.Fill("begin", most / 8, &panels.begin));
  VICINAL_RETURN_IF_ERROR(input.Fill("first_piece", adjacency.rows + 1, &panels.first_piece));
  VICINAL_RETURN_IF_ERROR(input.Fill("cell", most / 2, &panels.cell));
  VICINAL_RETURN_IF_ERROR(input.Fill("row", adjacency.rows + shape.rows(), &panels.row));
  const std::string problem = SourcePanelsCheck(panels, adjacency, shape).Problem(pool);
  if (!problem.empty()) return input.Bad(problem);
  return panels;
}

}  // namespace vicinal::cuda
