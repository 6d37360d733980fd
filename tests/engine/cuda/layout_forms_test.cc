// SPDX-License-Identifier: Apache-2.0
// The flat forms of layouts, on the host: what is stored and read again is the same, byte by byte, and a form that was
// tampered with is refused, or indexes nothing outside of the adjacency. Needs no GPU: the CPU keeps the arrays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/cuda/aggregate/dense_tiles/detail/dense_tiles_form.h"
#include "engine/cuda/aggregate/length_sorted_rows/length_sorted_rows.h"
#include "engine/cuda/aggregate/rows/row_work_form.h"
#include "engine/cuda/aggregate/source_panels/detail/source_panels_form.h"
#include "engine/cuda/published/partition_dual/detail/edge_blocks.h"
#include "engine/cuda/published/staged_rows/detail/staged_edges.h"
#include "tests/engine/cuda/host_csr.h"
#include "tests/engine/cuda/layout_form_testing.h"

namespace vicinal::cuda {
namespace {

template <class T>
std::string Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// Reads a form; the layout that came of it as a form again, or why there is none.
using Reader = std::function<StatusOr<MemoryInput>(const MemoryInput& input)>;
// Changes bytes, sizes and numbers at random, some to values that are likely to lie outside. What is accepted is read
// to the same form: nothing that was not looked at gets through to a kernel. Returns how many were refused.
int64_t Tamper(const MemoryInput& whole, const Reader& read) {
  std::mt19937 random(9);
  int64_t refused = 0;
  for (int round = 0; round < 400; ++round) {
    MemoryInput input = whole;
    auto array = std::next(input.arrays.begin(), static_cast<int64_t>(random() % input.arrays.size()));
    std::string& bytes = array->second;
    if (round % 8 == 0 && !input.numbers.empty()) {
      std::next(input.numbers.begin(), static_cast<int64_t>(random() % input.numbers.size()))->second +=
          round % 16 == 0 ? -3 : int64_t{1} << 40;
    } else if (round % 8 == 1) {
      bytes.resize(bytes.size() / 2);
    } else if (round % 8 == 2) {
      bytes += std::string(24, '\1');
    } else if (!bytes.empty()) {
      const size_t at = random() % bytes.size() / 4 * 4;
      const int32_t values[] = {-1, -2, 0, 1 << 30, static_cast<int32_t>(random() % 1000)};
      std::memcpy(&bytes[at], &values[random() % 5], std::min<size_t>(4, bytes.size() - at));
    }
    const auto result = read(input);
    if (result.ok()) {
      EXPECT_TRUE(result->arrays == input.arrays) << array->first;
    } else {
      EXPECT_EQ(result.status().code(), StatusCode::kDataLoss) << result.status();
      ++refused;
    }
  }
  return refused;
}

class LayoutFormsTest : public ::testing::Test {
 protected:
  ThreadPool pool_{2};
  const std::unique_ptr<Device> device_ = MakeCpuDevice(1);
};

TEST_F(LayoutFormsTest, ListsOfWork) {
  for (const auto& [nodes, hub] : {std::pair{900, 500}, {9'000, 5'000}}) {
    const HostCsr graph = CommunityGraph(nodes, hub);
    const CsrView view = graph.view(), borders = {view.rows, view.cols, view.nnz, view.row_ptr, nullptr, nullptr};
    const int64_t part = PartEdges(view.nnz);
    const LengthSortedConfig sorted = {.part = 64};
    const RowCuts plain_cuts = {part, BlockEdges(view.nnz), [part](int64_t count, int64_t, int64_t index) {
                                  return std::min(count, part * index);
                                }};
    const RowCuts sorted_cuts = {sorted.part, sorted.part, PartBegin};
    for (const auto& [work, cuts] : {std::pair{MakeRowWork(borders, pool_), plain_cuts},
                                     {MakeLengthSortedWork(borders, sorted, pool_), sorted_cuts}}) {
      ASSERT_FALSE(work.splits.empty());
      const auto layout = RowWorkLayout::Upload(work, *device_);
      ASSERT_TRUE(layout.ok());
      const MemoryInput whole(FlattenRowWork(**layout));
      EXPECT_EQ(whole.arrays.at("items"), Bytes(work.items));
      const Reader read = [&, &cuts = cuts](const MemoryInput& input) -> StatusOr<MemoryInput> {
        VICINAL_ASSIGN_OR_RETURN(const RowWork again, ReadRowWork(input, borders, cuts));
        VICINAL_ASSIGN_OR_RETURN(const auto uploaded, RowWorkLayout::Upload(again, *device_));
        return MemoryInput(FlattenRowWork(*uploaded));
      };
      const auto again = read(whole);
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_TRUE(again->arrays == whole.arrays && again->numbers == whole.numbers);
      EXPECT_GT(Tamper(whole, read), 120);
      const HostCsr other = CommunityGraph(nodes, hub - 1);
      EXPECT_FALSE(ReadRowWork(whole, other.view(), cuts).ok()) << "of another graph";
    }
  }
}

TEST_F(LayoutFormsTest, EdgeBlocks) {
  for (const bool weighted : {false, true}) {
    HostCsr graph = CommunityGraph(900, 500);
    if (weighted) graph.value.assign(graph.col.size(), 0.5f);
    const CsrView view = graph.view();
    const auto groups = NeighborGroupLayout::Upload({}, *device_);
    const HostEdgeBlocks blocks = BuildEdgeBlocks(view, EdgeBlockRule(view, {}, 0, 40), pool_);
    ASSERT_FALSE(blocks.tile_column.empty());
    const auto flat = [&](const HostEdgeBlocks& host) {
      return MemoryInput((*EdgeBlocksLayout::Upload(host, *groups, *device_))->Flatten());
    };
    const MemoryInput whole = flat(blocks);
    EXPECT_EQ(whole.arrays.at("masks"), Bytes(blocks.masks));
    EXPECT_EQ(whole.arrays.at("values"), Bytes(blocks.values));
    EXPECT_EQ(blocks.values.empty(), !weighted);
    EXPECT_EQ(whole.arrays.at("rest_col"), Bytes(blocks.rest_col));
    const Reader read = [&](const MemoryInput& input) -> StatusOr<MemoryInput> {
      VICINAL_ASSIGN_OR_RETURN(const HostEdgeBlocks again, ReadEdgeBlocks(input, view, 40));
      return flat(again);
    };
    const auto again = read(whole);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(again->arrays == whole.arrays);
    EXPECT_GT(Tamper(whole, read), 120);
  }
}

TEST_F(LayoutFormsTest, StagedEdges) {
  for (const bool weighted : {false, true}) {
    HostCsr graph = CommunityGraph(900, 500);
    if (weighted) graph.value.assign(graph.col.size(), 0.5f);
    const CsrView view = graph.view();
    const HostStagedEdges edges = BuildStagedEdges(view, 50, pool_);
    ASSERT_GE(edges.partitions(), 1);
    const auto flat = [&](const HostStagedEdges& host) {
      return MemoryInput((*StagedEdgesLayout::Upload(host, *device_))->Flatten());
    };
    const MemoryInput whole = flat(edges);
    EXPECT_EQ(whole.arrays.at("local"), Bytes(edges.local));
    const Reader read = [&](const MemoryInput& input) -> StatusOr<MemoryInput> {
      VICINAL_ASSIGN_OR_RETURN(const HostStagedEdges again, ReadStagedEdges(input, view));
      return flat(again);
    };
    const auto again = read(whole);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(again->arrays == whole.arrays);
    EXPECT_GT(Tamper(whole, read), 100);
  }
}

TEST_F(LayoutFormsTest, DenseTiles) {
  const HostCsr graph = CommunityGraph(900, 500);
  const CsrView view = graph.view();
  const HostDenseTiles tiles = FindDenseTiles(view, 64, pool_);
  ASSERT_FALSE(tiles.tile_col.empty());
  const auto flat = [&](const HostDenseTiles& host) {
    LayoutSource source(view, {}, *device_);
    return MemoryInput(FlattenDenseTiles(**DenseTilesLayout::Upload(host, view, source)));
  };
  const MemoryInput whole = flat(tiles);
  EXPECT_EQ(whole.arrays.at("tile_col"), Bytes(tiles.tile_col));
  EXPECT_EQ(whole.arrays.at("masks"), Bytes(tiles.masks));
  const Reader read = [&](const MemoryInput& input) -> StatusOr<MemoryInput> {
    VICINAL_ASSIGN_OR_RETURN(const HostDenseTiles again, ReadDenseTiles(input, view, 64));
    return flat(again);
  };
  const auto again = read(whole);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->arrays == whole.arrays);
  EXPECT_GT(Tamper(whole, read), 150);
}

TEST_F(LayoutFormsTest, SourcePanels) {
  for (const bool weighted : {false, true}) {
    for (const int groups : {1, 4}) {
      HostCsr graph = CommunityGraph(900, 500);
      if (weighted) graph.value.assign(graph.col.size(), 0.5f);
      const CsrView view = graph.view();
      const PanelShape shape = {.warps = 16, .groups = groups, .places = 64, .uses = 4};
      const SourcePanels panels = MakePanels(view, shape, pool_);
      ASSERT_GT(panels.pieces.size(), 1u);
      ASSERT_TRUE(std::any_of(panels.cell.begin(), panels.cell.end(), [](uint16_t cell) { return (cell & 0xff) > 0; }));
      ASSERT_TRUE(std::any_of(panels.cell.begin(), panels.cell.end(), [](uint16_t cell) { return cell >> 8 > 0; }));
      const auto flat = [&](const SourcePanels& host) {
        return MemoryInput((*SourcePanelsLayout::Upload(host, *device_))->Flatten());
      };
      const MemoryInput whole = flat(panels);
      EXPECT_EQ(whole.arrays.at("stream"), Bytes(panels.stream));
      EXPECT_EQ(whole.arrays.at("weight"), Bytes(panels.weight));
      EXPECT_EQ(panels.weight.empty(), !weighted);
      const Reader read = [&](const MemoryInput& input) -> StatusOr<MemoryInput> {
        VICINAL_ASSIGN_OR_RETURN(const SourcePanels again, ReadSourcePanels(input, view, shape, pool_));
        return flat(again);
      };
      const auto again = read(whole);
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_TRUE(again->arrays == whole.arrays);
      EXPECT_GT(Tamper(whole, read), 150);
      const HostCsr other = CommunityGraph(900, 499);
      EXPECT_FALSE(ReadSourcePanels(whole, other.view(), shape, pool_).ok()) << "of another graph";
    }
  }
}

}  // namespace
}  // namespace vicinal::cuda
