// SPDX-License-Identifier: Apache-2.0
// What source_panels prepares from an adjacency, on the host: streams are read as the kernel reads them, and every edge
// comes out once, with its weight.
#include "engine/cuda/aggregate/source_panels/source_panels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/engine/cuda/host_csr.h"

namespace vicinal::cuda {
namespace {

// Every row reads sources of its neighbourhood and a few from anywhere (beyond 2^16, too); row 70 is a hub, some rows
// are empty, edges stand up to `copies` times. Weights tell edges apart.
HostCsr Neighbourhoods(int64_t rows, int64_t cols, int64_t degree, int64_t hub_edges, int copies) {
  std::mt19937 random(7);
  HostCsr graph;
  graph.cols = cols;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t edges = row == 70 ? hub_edges : row % 9 == 0 ? 0 : degree + row % 5;
    for (int64_t e = 0; e < edges; ++e) {
      const int64_t near = (row / 64 * 80 + static_cast<int64_t>(random() % 80)) % cols;
      const auto source = static_cast<int32_t>(e % 4 == 0 ? static_cast<int64_t>(random() % cols) : near);
      graph.col.insert(graph.col.end(), e % 11 == 3 ? copies : 1, source);
    }
    std::sort(graph.col.begin() + graph.row_ptr.back(), graph.col.end());
    graph.row_ptr.push_back(static_cast<int64_t>(graph.col.size()));
  }
  for (size_t e = 0; e < graph.col.size(); ++e) graph.value.push_back(static_cast<float>(e));
  return graph;
}

using Edges = std::map<std::tuple<int64_t, int32_t, float>, int>;

Edges EdgesOf(const HostCsr& graph) {
  Edges edges;
  for (int64_t row = 0; row < graph.rows(); ++row) {
    for (int64_t e = graph.row_ptr[row]; e < graph.row_ptr[row + 1]; ++e) {
      ++edges[{row, graph.col[e], graph.value.empty() ? 1.0f : graph.value[e]}];
    }
  }
  return edges;
}

// Reads a warp's part of a piece.
class Reader {
 public:
  Reader(const SourcePanels& panels, const PanelShape& shape, const PanelPiece& piece, int warp)
      : panels_(panels),
        shape_(shape),
        piece_(piece),
        warp_(warp),
        at_(panels.begin[int64_t{piece.sums} * shape.warps + warp]) {}

  void Read(Edges* edges) {
    for (int panel = piece_.first; panel < piece_.first + piece_.count; ++panel) {
      for (int slot = 0; slot < kSlots; ++slot) {
        const int cell = panels_.cell[(int64_t{panel} * shape_.warps + warp_) * kSlots + slot];
        const int32_t within = panels_.row[(int64_t{piece_.block} * shape_.warps + warp_) * kSlots + slot];
        EXPECT_TRUE(within >= 0 || cell == 0);
        ReadCell(int64_t{piece_.block} * shape_.rows() + within, panel, cell, edges);
      }
    }
  }

 private:
  int64_t step() const { return kEntries * shape_.groups; }
  float Weight(int64_t at) const { return panels_.weight.empty() ? 1.0f : panels_.weight[at]; }

  void ReadCell(int64_t row, int panel, int cell, Edges* edges) {
    for (int direct = cell >> 8; direct > 0; direct -= 2 * shape_.groups, at_ += step()) {
      for (int i = 0; i < std::min(direct, 2 * shape_.groups); ++i) {
        const int64_t at = at_ + 2 * i;
        ++(*edges)[{row, panels_.stream[at] | panels_.stream[at + 1] << 16, Weight(at)}];
      }
    }
    for (int pairs = cell & 255; pairs > 0; pairs -= 2, at_ += step()) {
      for (int group = 0; group < shape_.groups; ++group) {
        for (int i = 0; i < (pairs > 1 ? 4 : 2); ++i) ReadStaged(row, panel, at_ + group * kEntries + i, edges);
      }
    }
  }

  void ReadStaged(int64_t row, int panel, int64_t at, Edges* edges) {
    ASSERT_EQ(panels_.stream[at] % shape_.pitch(), 0);
    const int place = panels_.stream[at] / shape_.pitch();
    if (place == shape_.places - 1) {
      EXPECT_EQ(Weight(at), 1.0f);
      return;
    }
    const int32_t source = panels_.source[int64_t{panel} * shape_.places + place];
    ASSERT_GE(source, 0);
    ++(*edges)[{row, source, Weight(at)}];
  }

  const SourcePanels& panels_;
  const PanelShape& shape_;
  const PanelPiece piece_;
  const int warp_;
  int64_t at_;
};

void ExpectAllEdgesOnce(HostCsr graph, const PanelShape& shape) {
  ThreadPool pool(2);
  for (const bool weighted : {true, false}) {
    if (!weighted) graph.value.clear();
    const SourcePanels panels = MakePanels(graph.view(), shape, pool);
    EXPECT_EQ(panels.weight.size(), weighted ? panels.stream.size() : 0);
    Edges edges;
    for (const PanelPiece& piece : panels.pieces) {
      EXPECT_LE(panels.first_piece[piece.block], piece.sums);
      EXPECT_LT(piece.sums, panels.first_piece[piece.block + 1]);
      for (int warp = 0; warp < shape.warps; ++warp) Reader(panels, shape, piece, warp).Read(&edges);
    }
    EXPECT_EQ(edges, EdgesOf(graph));
    EXPECT_LE(static_cast<int64_t>(panels.pieces.size()), MaxPanelPieces(graph.rows(), shape));
  }
}

TEST(SourcePanelsTest, EveryEdgeIsInOneCell) {
  for (const int uses : {2, 4, 1'000'000}) {
    SCOPED_TRACE(uses);
    ExpectAllEdgesOnce(Neighbourhoods(1'000, 200'000, 20, 900, 1), {16, 1, 64, uses});
    ExpectAllEdgesOnce(Neighbourhoods(3'000, 2'000, 60, 5'000, 2), {32, 2, 256, uses});
    ExpectAllEdgesOnce(Neighbourhoods(3'000, 2'000, 60, 5'000, 2), {32, 8, 1024, uses});
  }
}

TEST(SourcePanelsTest, CellsThatAreTooFullSpill) {
  // 900 copies of an edge are more than a cell holds, and 70'000 direct edges more than one panel does.
  ExpectAllEdgesOnce(Neighbourhoods(200, 500, 20, 40, 900), {16, 1, 64, 2});
  ExpectAllEdgesOnce(Neighbourhoods(200, 200'000, 20, 70'000, 1), {16, 1, 64, 4});
}

TEST(SourcePanelsTest, BlocksAreCutIntoPiecesOfEqualCost) {
  ThreadPool pool(1);
  const PanelShape shape = {16, 1, 64, 2};
  const SourcePanels panels = MakePanels(Neighbourhoods(300, 20'000, 3'000, 10, 1).view(), shape, pool);
  EXPECT_GT(panels.pieces.size(), 100u);
  int64_t all = 0, most = 0;
  for (const PanelPiece& piece : panels.pieces) {
    EXPECT_GE(piece.count, 1);
    all += piece.count;
    most = std::max<int64_t>(most, piece.count);
  }
  EXPECT_EQ(all * shape.places, static_cast<int64_t>(panels.source.size()));
  EXPECT_LE(most, all / 100);
}

TEST(SourcePanelsTest, StagedPercentIsWhatBlocksShare) {
  // Four rows of a block read source 0, one row source 1 twice, and each row one source of its own.
  HostCsr graph;
  graph.cols = 1'000;
  for (int64_t row = 0; row < 256; ++row) {
    if (row % 128 < 4) graph.col.push_back(0);
    if (row % 128 == 4) graph.col.insert(graph.col.end(), 2, 1);
    graph.col.push_back(static_cast<int32_t>(2 + row));
    graph.row_ptr.push_back(static_cast<int64_t>(graph.col.size()));
  }
  EXPECT_EQ(StagedPercent(graph.view(), {16, 1, 64, 4}), 100 * 8 / 268);
  EXPECT_EQ(StagedPercent(graph.view(), {16, 1, 64, 2}), 100 * 12 / 268);
  EXPECT_EQ(StagedPercent(graph.view(), {16, 1, 64, 5}), 0);
  HostCsr empty;
  empty.row_ptr.resize(10, 0);
  EXPECT_EQ(StagedPercent(empty.view(), {16, 1, 64, 2}), 0);
}

TEST(SourcePanelsTest, ThreadsDoNotShow) {
  ThreadPool one(1), three(3);
  const HostCsr graph = Neighbourhoods(2'000, 3'000, 30, 900, 2);
  const PanelShape shape = {16, 4, 128, 2};
  const SourcePanels a = MakePanels(graph.view(), shape, one), b = MakePanels(graph.view(), shape, three);
  EXPECT_EQ(a.source, b.source);
  EXPECT_EQ(a.stream, b.stream);
  EXPECT_EQ(a.weight, b.weight);
  EXPECT_EQ(a.begin, b.begin);
  EXPECT_EQ(a.row, b.row);
}

TEST(SourcePanelsTest, NoEdgesNoPieces) {
  ThreadPool pool(1);
  HostCsr graph;
  graph.cols = 10;
  graph.row_ptr.resize(301, 0);
  const SourcePanels panels = MakePanels(graph.view(), {16, 1, 64, 2}, pool);
  EXPECT_TRUE(panels.pieces.empty());
  EXPECT_EQ(panels.first_piece.size(), 4u);
}

}  // namespace
}  // namespace vicinal::cuda
