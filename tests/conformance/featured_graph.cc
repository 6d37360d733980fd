// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/featured_graph.h"

#include <algorithm>

#include "tests/conformance/graphs.h"

namespace vicinal::conformance {
namespace {

// Every fifth edge of every other row becomes a loop; the other rows have none, and but for the first only sources
// before their own node, so that a loop that is added is the last. Then columns ascend.
HostGraph SquareGraph(const std::string& name, const std::vector<int64_t>& degrees) {
  HostGraph graph = RandomGraph(name, static_cast<int64_t>(degrees.size()), degrees, 31);
  for (int64_t row = 0; row < graph.rows; ++row) {
    for (int64_t e = graph.row_ptr[row]; e < graph.row_ptr[row + 1]; ++e) {
      if (row % 2 == 0 && e % 5 == 0) graph.col[e] = static_cast<int32_t>(row);
      if (row % 2 == 1) graph.col[e] = static_cast<int32_t>(graph.col[e] % row);
    }
    std::sort(graph.col.begin() + graph.row_ptr[row], graph.col.begin() + graph.row_ptr[row + 1]);
  }
  return graph;
}

// The edges as they are, or without loops and with one that stands where they stood.
void Derive(FeaturedGraph* graph) {
  const HostGraph& sent = graph->sent;
  HostGraph& adjacency = graph->adjacency;
  adjacency = HostGraph{sent.name, sent.rows, sent.cols, {0}, {}, {}};
  const auto add = [&](int64_t source, int64_t row_of) {
    adjacency.col.push_back(static_cast<int32_t>(source));
    graph->rows_of.push_back(row_of);
  };
  for (int64_t row = 0; row < sent.rows; ++row) {
    bool pending = graph->loops != Loops::kAsSent;
    for (int64_t e = sent.row_ptr[row]; e < sent.row_ptr[row + 1]; ++e) {
      if (pending && sent.col[e] >= row) add(row, -1 - row), pending = false;
      if (graph->loops == Loops::kAsSent || sent.col[e] != row) add(sent.col[e], e);
    }
    if (pending) add(row, -1 - row);
    adjacency.row_ptr.push_back(adjacency.edges());
  }
  adjacency.value = RandomVector(adjacency.edges(), 32);
}

}  // namespace

const float* FeaturedGraph::Of(int64_t e) const {
  const int64_t row = rows_of[e];
  if (row >= 0) return values.data() + row * width;
  return loop_values.data() + (loops == Loops::kOwn ? (-1 - row) * width : 0);
}

FeaturedGraph MakeFeatured(const std::string& name, const std::vector<int64_t>& degrees, int64_t width, Loops loops) {
  FeaturedGraph graph;
  graph.loops = loops;
  graph.width = width;
  graph.sent = SquareGraph(name, degrees);
  graph.values = RandomVector(graph.sent.edges() * width, 33);
  graph.loop_values = RandomVector((loops == Loops::kOwn ? graph.sent.rows : 1) * width, 34);
  Derive(&graph);
  return graph;
}

FeaturedGraph FieldOf(const FeaturedGraph& whole) {
  FeaturedGraph field = whole;
  field.rows_of.clear();
  std::vector<int64_t> rows;
  for (int64_t row = whole.adjacency.rows - 1; row >= 0; row -= 3) {
    rows.push_back(row);
    field.nodes.push_back(static_cast<int32_t>(row));
    field.rows_of.insert(field.rows_of.end(), whole.rows_of.begin() + whole.adjacency.row_ptr[row],
                         whole.rows_of.begin() + whole.adjacency.row_ptr[row + 1]);
  }
  field.adjacency = RowsOf(whole.adjacency, rows);
  for (int32_t& col : field.adjacency.col) col = static_cast<int32_t>(whole.adjacency.cols - 1 - col);
  return field;
}

DeviceFeatures::DeviceFeatures(Device& device, const FeaturedGraph& graph)
    : sent_(device, graph.sent),
      adjacency_(device, graph.adjacency),
      values_(device, graph.values),
      loop_values_(device, graph.loop_values),
      nodes_(device, graph.nodes) {
  view_.width = graph.width;
  view_.values = values_.data();
  view_.sent = sent_.view(false);
  view_.one_loop_each = graph.loops != Loops::kAsSent;
  view_.loop_values = loop_values_.data();
  view_.loop_stride = graph.loops == Loops::kOwn ? graph.width : 0;
  view_.nodes = graph.nodes.empty() ? nullptr : nodes_.data();
}

}  // namespace vicinal::conformance
