// SPDX-License-Identifier: Apache-2.0
// Builds an adjacency's panels. Each block of rows is independent: it counts the uses of its sources and builds their
// panels, the edges of each cell and the warps' streams. Then blocks are cut into pieces and concatenated.
#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

#include "engine/cuda/aggregate/source_panels/source_panels.h"
#include "engine/cuda/runtime/send.h"

namespace vicinal::cuda {
namespace {

// Fixed cost of a panel, in stream entries. Calculated, not measured: copying 64 KB at a multiprocessor's share of an
// H200's L2 bandwidth takes 1,750 cycles, and a staged edge about 3.
constexpr int64_t kPanelCost = 512;
// Cost of a piece: its sums are written and read again, as many bytes as two panels, possibly from memory.
constexpr int64_t kPieceCost = 2 * kPanelCost;
constexpr int64_t kSampledBlocks = 64;

struct Edge {
  int32_t source;  // or its place in the panel, for staged edges
  float weight;
};

// The edges of one row of the block. Those of panel p are [begin[p], begin[p + 1]) of `staged`.
struct RowEdges {
  std::vector<Edge> staged, direct;
  std::vector<int32_t> begin;
};

// The result for one block of rows.
struct Block {
  int64_t panels = 0;
  std::vector<int32_t> source;  // sources of all panels, concatenated; -1: none
  std::vector<int32_t> row;     // [warps, kSlots]
  std::vector<uint16_t> cell;   // [panels, warps, kSlots]
  std::vector<uint16_t> stream;
  std::vector<float> weight;
  std::vector<int64_t> begin;       // [warps, panels] start of each panel in `stream`
  std::vector<int64_t> cost = {0};  // [panels + 1] cumulative cost before each panel
};

class BlockMaker {
 public:
  BlockMaker(const CsrView& adjacency, const PanelShape& shape)
      : adjacency_(adjacency), shape_(shape), uses_(adjacency.cols, 0), rows_(shape.rows()) {}

  void Make(int64_t number, Block* block) {
    first_ = number * shape_.rows();
    count_ = std::min<int64_t>(shape_.rows(), adjacency_.rows - first_);
    block_ = block;
    FindPanels();
    SortEdges();
    AddPanelsForDirectEdges();
    AssignSlots();
    block->cell.resize(block->panels * shape_.rows());
    for (int warp = 0; warp < shape_.warps; ++warp) {
      for (int64_t panel = 0; panel < block->panels; ++panel) {
        block->begin.push_back(static_cast<int64_t>(block->stream.size()));
        for (int slot = 0; slot < kSlots; ++slot) {
          const int32_t row = block->row[warp * kSlots + slot];
          if (row >= 0) block->cell[(panel * shape_.warps + warp) * kSlots + slot] = WriteCell(rows_[row], panel);
        }
      }
    }
    AddUpCosts();
  }

 private:
  int64_t EdgesOf(int64_t row) const { return adjacency_.row_ptr[first_ + row + 1] - adjacency_.row_ptr[first_ + row]; }

  // Chooses the staged sources. Sets uses_ to ~place for them and to 0 for all others.
  void FindPanels() {
    std::vector<int32_t> found;
    for (int64_t e = adjacency_.row_ptr[first_]; e < adjacency_.row_ptr[first_ + count_]; ++e) {
      if (uses_[adjacency_.col[e]]++ == 0) found.push_back(adjacency_.col[e]);
    }
    std::vector<int32_t>& staged = block_->source;
    for (const int32_t source : found) {
      if (uses_[source] >= shape_.uses) staged.push_back(source);
    }
    std::sort(staged.begin(), staged.end(),
              [&](int32_t a, int32_t b) { return uses_[a] != uses_[b] ? uses_[a] > uses_[b] : a < b; });
    for (const int32_t source : found) uses_[source] = 0;
    for (size_t i = 0; i < staged.size(); ++i) uses_[staged[i]] = ~static_cast<int32_t>(i);
    block_->panels = (static_cast<int64_t>(staged.size()) + sources_ - 1) / sources_;
  }

  void SortEdges() {
    for (int64_t row = 0; row < count_; ++row) SortRow(first_ + row, &rows_[row]);
    for (const int32_t source : block_->source) uses_[source] = 0;
  }

  // Sorts the row's edges into staged ones, by panel, and direct ones.
  void SortRow(int64_t row, RowEdges* edges) {
    const int64_t begin = adjacency_.row_ptr[row], end = adjacency_.row_ptr[row + 1];
    std::vector<int32_t> counts(block_->panels, 0);
    const auto count_in = [&](int32_t place) { return place < 0 ? nullptr : &counts[place / sources_]; };
    for (int64_t e = begin; e < end; ++e) {
      int32_t* const count = count_in(~uses_[adjacency_.col[e]]);
      if (count != nullptr && *count < max_staged_) ++*count;
    }
    edges->begin.assign(1, 0);
    for (const int32_t count : counts) edges->begin.push_back(edges->begin.back() + count);
    edges->staged.resize(edges->begin.back());
    edges->direct.clear();
    std::fill(counts.begin(), counts.end(), 0);
    for (int64_t e = begin; e < end; ++e) {
      const float weight = adjacency_.value != nullptr ? adjacency_.value[e] : 1.0f;
      const int32_t place = ~uses_[adjacency_.col[e]];
      int32_t* const count = count_in(place);
      if (count != nullptr && *count < max_staged_) {
        edges->staged[edges->begin[place / sources_] + (*count)++] = {static_cast<int32_t>(place % sources_), weight};
      } else {
        edges->direct.push_back({adjacency_.col[e], weight});
      }
    }
  }

  void AddPanelsForDirectEdges() {
    size_t most = 0;
    for (int64_t row = 0; row < count_; ++row) most = std::max(most, rows_[row].direct.size());
    block_->panels = std::max(block_->panels, (static_cast<int64_t>(most) + kMaxDirect - 1) / kMaxDirect);
    block_->source.resize(block_->panels * sources_, -1);
    for (int64_t row = 0; row < count_; ++row) {
      rows_[row].begin.resize(block_->panels + 1, rows_[row].begin.back());
    }
  }

  // Assigns rows in descending order of length, each to the warp with the fewest edges so far among those with a free
  // slot.
  void AssignSlots() {
    std::vector<int32_t> order(count_);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return EdgesOf(a) > EdgesOf(b); });
    block_->row.assign(shape_.rows(), -1);
    std::vector<int64_t> edges(shape_.warps, 0), rows(shape_.warps, 0);
    for (const int32_t row : order) {
      int best = -1;
      for (int warp = 0; warp < shape_.warps; ++warp) {
        if (rows[warp] < kSlots && (best < 0 || edges[warp] < edges[best])) best = warp;
      }
      block_->row[best * kSlots + rows[best]++] = row;
      edges[best] += EdgesOf(row);
    }
  }

  int64_t FirstDirect(const RowEdges& edges, int64_t panel) const {
    return static_cast<int64_t>(edges.direct.size()) * panel / block_->panels;
  }

  // Appends a cell's edges to the stream and returns the cell.
  uint16_t WriteCell(const RowEdges& edges, int64_t panel) {
    const int64_t first_direct = FirstDirect(edges, panel), direct = FirstDirect(edges, panel + 1) - first_direct;
    for (int64_t i = 0; i < direct; ++i) {
      const Edge& edge = edges.direct[first_direct + i];
      const uint32_t source = static_cast<uint32_t>(edge.source);
      const int64_t at = i % (2 * shape_.groups) * 2;
      if (at == 0) AddStep();
      Write(at, static_cast<uint16_t>(source), edge.weight);
      Write(at + 1, static_cast<uint16_t>(source >> 16), 1.0f);
    }
    const int64_t staged = edges.begin[panel + 1] - edges.begin[panel], pairs = PairsOf(staged);
    const int64_t of_step = kEntries * shape_.groups;
    for (int64_t i = 0; i < staged; ++i) {
      const Edge& edge = edges.staged[edges.begin[panel] + i];
      const int64_t step = i / of_step, within = i % of_step;
      if (within == 0) AddStep();
      // In the last step, a group may have only two edges.
      const int64_t at = 2 * step + 1 == pairs ? within / 2 * kEntries + within % 2 : within;
      Write(at, static_cast<uint16_t>(edge.source * shape_.pitch()), edge.weight);
    }
    return static_cast<uint16_t>(pairs | direct << 8);
  }
  int64_t PairsOf(int64_t staged) const { return (staged + 2 * shape_.groups - 1) / (2 * shape_.groups); }

  // Appends a step of padding.
  void AddStep() {
    const size_t entries = block_->stream.size() + kEntries * shape_.groups;
    block_->stream.resize(entries, static_cast<uint16_t>(sources_ * shape_.pitch()));
    if (adjacency_.value != nullptr) block_->weight.resize(entries, 1.0f);
  }
  // Writes entry `at` of the last step.
  void Write(int64_t at, uint16_t entry, float weight) {
    const int64_t begin = static_cast<int64_t>(block_->stream.size()) - kEntries * shape_.groups;
    block_->stream[begin + at] = entry;
    if (adjacency_.value != nullptr) block_->weight[begin + at] = weight;
  }

  void AddUpCosts() {
    const auto end_of = [this](int64_t i) {
      return i < static_cast<int64_t>(block_->begin.size()) ? block_->begin[i]
                                                            : static_cast<int64_t>(block_->stream.size());
    };
    // A panel costs as much as its longest warp, as warps wait for each other at its end.
    for (int64_t panel = 0; panel < block_->panels; ++panel) {
      int64_t longest = 0;
      for (int64_t i = panel; i < shape_.warps * block_->panels; i += block_->panels) {
        longest = std::max(longest, end_of(i + 1) - block_->begin[i]);
      }
      block_->cost.push_back(block_->cost.back() + kPanelCost + shape_.warps * longest);
    }
  }

  const CsrView& adjacency_;
  const PanelShape shape_;
  const int64_t sources_ = shape_.places - 1;                          // per panel
  const int64_t max_staged_ = int64_t{kMaxPairs} * 2 * shape_.groups;  // per cell
  std::vector<int32_t> uses_;
  std::vector<RowEdges> rows_;
  int64_t first_ = 0, count_ = 0;  // rows of the block
  Block* block_ = nullptr;
};

// Panels [begin, end) of a block.
struct Cut {
  int64_t block, begin, end, cost;
};

// Cuts blocks into pieces of at most about `longest` cost.
std::vector<Cut> CutBlocks(const std::vector<Block>& blocks, int64_t longest) {
  std::vector<Cut> cuts;
  for (size_t b = 0; b < blocks.size(); ++b) {
    const std::vector<int64_t>& cost = blocks[b].cost;
    const int64_t pieces = (cost.back() + longest - 1) / longest;
    int64_t begin = 0;
    for (int64_t p = 0; p < pieces; ++p) {
      const auto after = std::upper_bound(cost.begin(), cost.end(), cost.back() * (p + 1) / pieces);
      const int64_t end = after - cost.begin() - 1;
      if (end == begin) continue;
      cuts.push_back({static_cast<int64_t>(b), begin, end, cost[end] - cost[begin] + kPieceCost});
      begin = end;
    }
  }
  return cuts;
}

bool MoreExpensive(const Cut& a, const Cut& b) { return a.cost > b.cost; }

// The makespan: pieces are taken by the next free multiprocessor in descending order of cost. Then all multiprocessors
// read the sums of the pieces.
int64_t Makespan(std::vector<Cut> cuts, int64_t multiprocessors) {
  std::stable_sort(cuts.begin(), cuts.end(), MoreExpensive);
  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<int64_t>> free_at(
      std::greater<int64_t>(), std::vector<int64_t>(multiprocessors, 0));
  int64_t end = 0;
  for (const Cut& cut : cuts) {
    const int64_t done = free_at.top() + cut.cost;
    end = std::max(end, done);
    free_at.pop();
    free_at.push(done);
  }
  return end + static_cast<int64_t>(cuts.size()) * kPieceCost / multiprocessors;
}

// The cut with the shortest makespan among those into 3 to 6.5 pieces per multiprocessor, which runs one at a time.
std::vector<Cut> BestCut(const std::vector<Block>& blocks, int64_t multiprocessors) {
  const int64_t fewest = std::min(3 * multiprocessors, kMaxWantedPieces);
  const int64_t most = std::min(13 * multiprocessors / 2, kMaxWantedPieces);
  int64_t cost = 0;
  for (const Block& block : blocks) cost += block.cost.back();
  std::vector<Cut> best;
  int64_t best_end = std::numeric_limits<int64_t>::max();
  for (int64_t wanted = fewest; wanted <= most; wanted += std::max<int64_t>(fewest / 8, 1)) {
    std::vector<Cut> cuts = CutBlocks(blocks, cost / wanted + 1);
    const int64_t end = Makespan(cuts, multiprocessors);
    if (end >= best_end) continue;
    best_end = end;
    best = std::move(cuts);
  }
  return best;
}

void AppendPiece(const Block& block, const Cut& cut, const PanelShape& shape, SourcePanels* all) {
  const int64_t first = static_cast<int64_t>(all->source.size()) / shape.places;
  const int64_t before = static_cast<int64_t>(all->stream.size());
  all->pieces.push_back({static_cast<int32_t>(first + cut.begin), static_cast<int32_t>(cut.end - cut.begin),
                         static_cast<int32_t>(all->pieces.size()), static_cast<int32_t>(cut.block)});
  for (int warp = 0; warp < shape.warps; ++warp) {
    all->begin.push_back(before + block.begin[warp * block.panels + cut.begin]);
  }
}

void AppendBlock(const Block& block, const PanelShape& shape, SourcePanels* all) {
  const int64_t sources = shape.places - 1;
  for (int64_t panel = 0; panel < block.panels; ++panel) {
    const auto begin = block.source.begin() + panel * sources;
    all->source.insert(all->source.end(), begin, begin + sources);
    all->source.push_back(-1);
  }
  all->cell.insert(all->cell.end(), block.cell.begin(), block.cell.end());
  all->row.insert(all->row.end(), block.row.begin(), block.row.end());
  all->stream.insert(all->stream.end(), block.stream.begin(), block.stream.end());
  all->weight.insert(all->weight.end(), block.weight.begin(), block.weight.end());
}

}  // namespace

SourcePanels MakePanels(const CsrView& adjacency, const PanelShape& shape, ThreadPool& pool) {
  std::vector<Block> blocks((adjacency.rows + shape.rows() - 1) / shape.rows());
  std::vector<std::unique_ptr<BlockMaker>> makers(pool.num_threads());
  pool.ParallelFor(static_cast<int64_t>(blocks.size()), [&](int64_t b, int thread) {
    if (makers[thread] == nullptr) makers[thread] = std::make_unique<BlockMaker>(adjacency, shape);
    makers[thread]->Make(b, &blocks[b]);
  });
  SourcePanels all;
  int64_t entries = kEntries * shape.groups, panels = 0;
  for (const Block& block : blocks) {
    panels += block.panels;
    entries += static_cast<int64_t>(block.stream.size());
  }
  all.source.reserve(panels * shape.places);
  all.stream.reserve(entries);
  if (adjacency.value != nullptr) all.weight.reserve(entries);
  const std::vector<Cut> cuts = BestCut(blocks, shape.multiprocessors);
  auto cut = cuts.begin();
  for (size_t b = 0; b < blocks.size(); ++b) {
    all.first_piece.push_back(static_cast<int32_t>(all.pieces.size()));
    for (; cut != cuts.end() && cut->block == static_cast<int64_t>(b); ++cut) AppendPiece(blocks[b], *cut, shape, &all);
    AppendBlock(blocks[b], shape, &all);
    blocks[b] = {};
  }
  all.first_piece.push_back(static_cast<int32_t>(all.pieces.size()));
  // Padding, as the kernel reads one step ahead.
  all.stream.resize(entries, 0);
  if (adjacency.value != nullptr) all.weight.resize(entries, 1.0f);
  std::stable_sort(all.pieces.begin(), all.pieces.end(),
                   [&](const PanelPiece& a, const PanelPiece& b) { return MoreExpensive(cuts[a.sums], cuts[b.sums]); });
  return all;
}

int StagedPercent(const CsrView& adjacency, const PanelShape& shape) {
  const int64_t blocks = (adjacency.rows + shape.rows() - 1) / shape.rows();
  const int64_t stride = (blocks + kSampledBlocks - 1) / kSampledBlocks;
  std::vector<int32_t> uses(adjacency.cols, 0);
  int64_t edges = 0, staged = 0;
  for (int64_t block = 0; block < blocks; block += stride) {
    const int64_t begin = adjacency.row_ptr[block * shape.rows()];
    const int64_t end = adjacency.row_ptr[std::min((block + 1) * shape.rows(), adjacency.rows)];
    edges += end - begin;
    for (int64_t e = begin; e < end; ++e) ++uses[adjacency.col[e]];
    for (int64_t e = begin; e < end; ++e) staged += uses[adjacency.col[e]] >= shape.uses;
    for (int64_t e = begin; e < end; ++e) uses[adjacency.col[e]] = 0;
  }
  return edges > 0 ? static_cast<int>(100 * staged / edges) : 0;
}

StatusOr<std::shared_ptr<const SourcePanelsLayout>> SourcePanelsLayout::Upload(const SourcePanels& panels,
                                                                               Device& device) {
  auto layout = std::make_shared<SourcePanelsLayout>();
  VICINAL_ASSIGN_OR_RETURN(layout->source_, Send(panels.source, device));
  VICINAL_ASSIGN_OR_RETURN(layout->stream_, Send(panels.stream, device));
  VICINAL_ASSIGN_OR_RETURN(layout->weight_, Send(panels.weight, device));
  VICINAL_ASSIGN_OR_RETURN(layout->pieces_, Send(panels.pieces, device));
  VICINAL_ASSIGN_OR_RETURN(layout->begin_, Send(panels.begin, device));
  VICINAL_ASSIGN_OR_RETURN(layout->first_piece_, Send(panels.first_piece, device));
  VICINAL_ASSIGN_OR_RETURN(layout->cell_, Send(panels.cell, device));
  VICINAL_ASSIGN_OR_RETURN(layout->row_, Send(panels.row, device));
  return std::shared_ptr<const SourcePanelsLayout>(std::move(layout));
}

FlatLayout SourcePanelsLayout::Flatten() const {
  FlatLayout flat;
  const auto add = [&](const char* name, const Buffer& buffer) {
    flat.arrays.push_back({name, buffer.data(), static_cast<int64_t>(buffer.bytes())});
  };
  add("source", source_);
  add("stream", stream_);
  add("weight", weight_);
  add("pieces", pieces_);
  add("begin", begin_);
  add("first_piece", first_piece_);
  add("cell", cell_);
  add("row", row_);
  return flat;
}

int64_t SourcePanelsLayout::BytesBound(int64_t rows, int64_t edges) {
  // A panel takes less than its entries, of which it has many.
  const int64_t entries = MaxEntries(rows, edges);
  return 10 * entries + 8 * rows + (1 << 20);
}

int64_t SourcePanelsLayout::size_bytes() const {
  int64_t bytes = 0;
  for (const Buffer* buffer : {&source_, &stream_, &weight_, &pieces_, &begin_, &first_piece_, &cell_, &row_}) {
    bytes += static_cast<int64_t>(buffer->bytes());
  }
  return bytes;
}

}  // namespace vicinal::cuda
