// SPDX-License-Identifier: Apache-2.0
// Two passes over the edges, strip by strip. The first counts each strip's edges by part of the columns, which decides
// the dense tiles; if whole blocks decide, they are counted before. The second sets mask bits and writes the remaining
// edges. Temporary memory: one number per part of the columns and thread, one per pair of blocks.
#include "engine/cuda/common/masked_tiles.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

namespace vicinal::cuda {
namespace {

constexpr int32_t kNoTile = -1;

// The part of each of `count` places.
std::vector<int32_t> PartOfEach(const std::vector<int64_t>& borders, int64_t count) {
  std::vector<int32_t> part_of(count);
  for (size_t part = 0; part + 1 < borders.size(); ++part) {
    std::fill(part_of.begin() + borders[part], part_of.begin() + borders[part + 1], static_cast<int32_t>(part));
  }
  return part_of;
}

// The block of each part between `borders`.
std::vector<int32_t> BlockOfEach(const std::vector<int64_t>& borders, const std::vector<int64_t>& blocks) {
  std::vector<int32_t> block_of;
  for (size_t part = 0, block = 0; part + 1 < borders.size(); ++part) {
    while (blocks[block + 1] <= borders[part]) ++block;
    block_of.push_back(static_cast<int32_t>(block));
  }
  return block_of;
}

class Builder {
 public:
  Builder(const CsrView& host, const TileRule& rule, ThreadPool& pool)
      : host_(host),
        rule_(rule),
        pool_(pool),
        num_strips_(static_cast<int64_t>(rule.strips.size()) - 1),
        part_of_(PartOfEach(rule.columns, host.cols)),
        dense_(num_strips_),
        edges_of_(num_strips_),
        by_part_(pool.num_threads(), std::vector<int32_t>(rule.columns.size(), 0)) {
    result_.rest_row_ptr.assign(host.rows + 1, 0);
  }

  MaskedTiles Build() {
    if (!rule_.row_blocks.empty()) DecideBlocks();
    pool_.ParallelFor(num_strips_, [&](int64_t strip, int thread) { Count(strip, by_part_[thread]); });
    std::partial_sum(result_.rest_row_ptr.begin(), result_.rest_row_ptr.end(), result_.rest_row_ptr.begin());
    result_.rest_col.resize(result_.rest_row_ptr.back());
    if (weighted()) result_.rest_value.resize(result_.rest_row_ptr.back());
    PlaceTiles();
    for (std::vector<int32_t>& tile_of : by_part_) std::fill(tile_of.begin(), tile_of.end(), kNoTile);
    pool_.ParallelFor(num_strips_, [&](int64_t strip, int thread) { Fill(strip, by_part_[thread]); });
    return std::move(result_);
  }

 private:
  bool weighted() const { return host_.value != nullptr; }

  // Calls body(row, edge, part of its column, whether it cannot be in a mask) for each edge of a strip.
  template <class Body>
  void ForEdges(int64_t strip, const Body& body) const {
    for (int64_t row = rule_.strips[strip]; row < rule_.strips[strip + 1]; ++row) {
      for (int64_t e = host_.row_ptr[row]; e < host_.row_ptr[row + 1]; ++e) {
        const bool copy = e > host_.row_ptr[row] && host_.col[e] == host_.col[e - 1];
        body(row, e, part_of_[host_.col[e]], copy || (weighted() && !ExactInTerms(host_.value[e])));
      }
    }
  }

  // Which pairs of blocks are dense. Parallel over the blocks of rows, each of which has counts of its own.
  void DecideBlocks() {
    strip_block_ = BlockOfEach(rule_.strips, rule_.row_blocks);
    part_block_ = BlockOfEach(rule_.columns, rule_.column_blocks);
    const int64_t row_blocks = static_cast<int64_t>(rule_.row_blocks.size()) - 1;
    column_blocks_ = static_cast<int64_t>(rule_.column_blocks.size()) - 1;
    std::vector<int64_t> strips(row_blocks, 0), parts(column_blocks_, 0);
    for (const int32_t block : strip_block_) ++strips[block];
    for (const int32_t block : part_block_) ++parts[block];
    std::vector<int64_t> first_strip(row_blocks + 1, 0);
    std::partial_sum(strips.begin(), strips.end(), first_strip.begin() + 1);
    block_dense_.assign(row_blocks * column_blocks_, 0);
    pool_.ParallelFor(row_blocks, [&](int64_t block, int) {
      std::vector<int64_t> edges(column_blocks_, 0);
      for (int64_t strip = first_strip[block]; strip < first_strip[block + 1]; ++strip) {
        ForEdges(strip, [&](int64_t, int64_t, int32_t part, bool unfit) { edges[part_block_[part]] += !unfit; });
      }
      for (int64_t other = 0; other < column_blocks_; ++other) {
        block_dense_[block * column_blocks_ + other] =
            edges[other] > 0 && edges[other] >= rule_.min_edges * strips[block] * parts[other];
      }
    });
  }

  bool Dense(int64_t strip, int32_t part, int32_t edges) const {
    if (block_dense_.empty()) return edges >= rule_.min_edges;
    return block_dense_[strip_block_[strip] * column_blocks_ + part_block_[part]] != 0;
  }

  // Counts a strip's edges per part of the columns in `edges`, which is all 0 before and after.
  void Count(int64_t strip, std::vector<int32_t>& edges) {
    std::vector<int32_t> touched;
    ForEdges(strip, [&](int64_t, int64_t, int32_t part, bool unfit) {
      if (unfit && !rule_.copies_count) return;
      if (edges[part]++ == 0) touched.push_back(part);
    });
    std::sort(touched.begin(), touched.end());
    for (const int32_t part : touched) {
      if (!Dense(strip, part, edges[part])) edges[part] = kNoTile;
    }
    int64_t in_masks = 0;
    ForEdges(strip, [&](int64_t row, int64_t, int32_t part, bool unfit) {
      if (unfit || edges[part] == kNoTile) {
        ++result_.rest_row_ptr[row + 1];
      } else {
        ++in_masks;
      }
    });
    for (const int32_t part : touched) {
      if (edges[part] != kNoTile) dense_[strip].push_back(part);
      edges[part] = 0;
    }
    edges_of_[strip] = in_masks;
  }

  void PlaceTiles() {
    result_.first_tile.assign(num_strips_ + 1, 0);
    first_value_.assign(num_strips_ + 1, 0);
    for (int64_t s = 0; s < num_strips_; ++s) {
      result_.first_tile[s + 1] = result_.first_tile[s] + static_cast<int64_t>(dense_[s].size());
      first_value_[s + 1] = first_value_[s] + edges_of_[s];
    }
    const int64_t tiles = result_.first_tile.back();
    result_.tile_column.resize(tiles);
    result_.masks.assign(tiles * kTileRows, 0);
    if (!weighted()) return;
    result_.values.resize(first_value_.back());
    result_.first_value.resize(tiles);
    result_.row_offsets.resize(tiles * kTileRows);
  }

  // Writes a strip's masks and remaining edges. `tile_of` (per part of the columns) is all kNoTile before and after.
  void Fill(int64_t strip, std::vector<int32_t>& tile_of) {
    const std::vector<int32_t>& dense = dense_[strip];
    const int64_t first_tile = result_.first_tile[strip];
    for (size_t i = 0; i < dense.size(); ++i) {
      tile_of[dense[i]] = static_cast<int32_t>(i);
      result_.tile_column[first_tile + static_cast<int64_t>(i)] = static_cast<int32_t>(rule_.columns[dense[i]]);
    }
    int64_t rest = result_.rest_row_ptr[rule_.strips[strip]];
    ForEdges(strip, [&](int64_t row, int64_t edge, int32_t part, bool unfit) {
      if (unfit || tile_of[part] == kNoTile) {
        result_.rest_col[rest] = host_.col[edge];
        if (weighted()) result_.rest_value[rest] = host_.value[edge];
        ++rest;
      } else {
        MaskOf(strip, first_tile + tile_of[part], row) |= BitOf(edge, part);
      }
    });
    if (weighted()) FillValues(strip, tile_of);
    for (const int32_t part : dense) tile_of[part] = kNoTile;
  }

  uint64_t& MaskOf(int64_t strip, int64_t tile, int64_t row) {
    return result_.masks[tile * kTileRows + row - rule_.strips[strip]];
  }
  uint64_t BitOf(int64_t edge, int32_t part) const { return uint64_t{1} << (host_.col[edge] - rule_.columns[part]); }

  // The weights of a strip whose masks are complete.
  void FillValues(int64_t strip, const std::vector<int32_t>& tile_of) {
    const int64_t first_tile = result_.first_tile[strip];
    int64_t next = first_value_[strip];
    for (int64_t tile = first_tile; tile < result_.first_tile[strip + 1]; ++tile) {
      result_.first_value[tile] = next;
      for (int64_t row = 0; row < kTileRows; ++row) {
        result_.row_offsets[tile * kTileRows + row] = static_cast<uint16_t>(next - result_.first_value[tile]);
        next += std::popcount(result_.masks[tile * kTileRows + row]);
      }
    }
    ForEdges(strip, [&](int64_t row, int64_t edge, int32_t part, bool unfit) {
      if (unfit || tile_of[part] == kNoTile) return;
      const int64_t tile = first_tile + tile_of[part];
      const uint64_t before = MaskOf(strip, tile, row) & (BitOf(edge, part) - 1);
      result_.values[result_.first_value[tile] + result_.row_offsets[tile * kTileRows + row - rule_.strips[strip]] +
                     std::popcount(before)] = host_.value[edge];
    });
  }

  const CsrView& host_;
  const TileRule& rule_;
  ThreadPool& pool_;
  const int64_t num_strips_;
  const std::vector<int32_t> part_of_;         // per column
  std::vector<std::vector<int32_t>> dense_;    // parts of columns, per strip
  std::vector<int64_t> edges_of_;              // in masks, per strip
  std::vector<int64_t> first_value_;           // [strips + 1]
  std::vector<std::vector<int32_t>> by_part_;  // per thread: a number per part of columns
  // Only if whole blocks decide.
  std::vector<int32_t> strip_block_, part_block_;
  int64_t column_blocks_ = 0;
  std::vector<char> block_dense_;  // [row blocks, column blocks]
  MaskedTiles result_;
};

}  // namespace

MaskedTiles FindMaskedTiles(const CsrView& adjacency, const TileRule& rule, ThreadPool& pool) {
  return Builder(adjacency, rule, pool).Build();
}

std::vector<int64_t> EvenBorders(int64_t count, int64_t step) {
  std::vector<int64_t> borders = {0};
  while (borders.back() < count) borders.push_back(std::min(count, borders.back() + step));
  return borders;
}

std::vector<int64_t> CutEach(std::span<const int64_t> borders, int64_t most) {
  std::vector<int64_t> cut = {0};
  for (size_t b = 1; b < borders.size(); ++b) {
    const int64_t begin = borders[b - 1], size = borders[b] - begin, pieces = (size + most - 1) / most;
    for (int64_t piece = 1; piece <= pieces; ++piece) cut.push_back(begin + size * piece / pieces);
  }
  return cut;
}

bool ExactInTerms(float x) {
  if (!std::isfinite(x)) return false;
  for (int term = 0; term < 3; ++term) x -= std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0xffff0000u);
  return x == 0.0f;
}

}  // namespace vicinal::cuda
