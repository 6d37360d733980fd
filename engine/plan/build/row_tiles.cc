// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/build/row_tiles.h"

#include <algorithm>

#include "engine/plan/node_kinds/node_traits.h"

namespace vicinal::internal {
namespace {

// First and last node that touch a root, the last that writes it, and whether some node gathers it. The output is read
// after the last node.
struct Touched {
  int first = -1;
  int last = -1;
  int written = -1;
  bool gathered = false;
};

class TileFinder {
 public:
  TileFinder(const Program& program, const std::function<bool(int)>& can_cut) : program_(program), can_cut_(can_cut) {
    touched_.resize(program.values.size());
    const int count = static_cast<int>(program.nodes.size());
    for (int i = 0; i < count; ++i) {
      const Node& node = program.nodes[static_cast<size_t>(i)];
      ForEachRead(node, [&](ValueId value) { Touch(value, i); });
      Touch(node.output, i);
      touched_[RootOf(node.output)].written = i;
      for (size_t input = 0; input < node.inputs.size(); ++input) {
        if (Gathers(node, TraitsOf(node.kind), input)) touched_[RootOf(node.inputs[input])].gathered = true;
      }
    }
    Touch(program.output, count);
  }

  std::vector<TiledNodes> Find() const {
    std::vector<TiledNodes> found;
    const int count = static_cast<int>(program_.nodes.size());
    for (int begin = 0; begin < count;) {
      int end = begin;
      while (end < count && CanJoin(begin, end)) ++end;
      TiledNodes group = Trimmed(begin, end - 1);
      if (!group.stored.empty()) found.push_back(std::move(group));
      begin = std::max(end, begin + 1);
    }
    return found;
  }

 private:
  size_t RootOf(ValueId value) const { return static_cast<size_t>(PlaceOf(program_, value).root); }
  void Touch(ValueId value, int node) {
    Touched& touched = touched_[RootOf(value)];
    if (touched.first < 0) touched.first = node;
    touched.last = std::max(touched.last, node);
  }

  // Whether node `i` may follow [begin, i): it gathers nothing that one of these writes.
  bool CanJoin(int begin, int i) const {
    const Node& node = program_.nodes[static_cast<size_t>(i)];
    const NodeTraits& traits = TraitsOf(node.kind);
    if (traits.locality == Locality::kGraph || traits.row_per_graph || !can_cut_(i)) return false;
    if (program_.values[static_cast<size_t>(node.output)].per_graph) return false;
    // The row itself is read in the sources, which stay whole.
    if (node.self_scale != 0.0) return false;
    for (size_t input = 0; input < node.inputs.size(); ++input) {
      const ValueId value = node.inputs[input];
      if (program_.values[static_cast<size_t>(value)].per_graph) return false;
      if (value == kInputValue && program_.sparse_input) return false;
      if (Gathers(node, traits, input) && touched_[RootOf(value)].written >= begin) return false;
    }
    return true;
  }

  // Only touched within [first, last], and never gathered.
  bool StaysWithin(size_t root, int first, int last) const {
    const Touched& touched = touched_[root];
    return root != static_cast<size_t>(kInputValue) && touched.first >= first && touched.last <= last &&
           !touched.gathered;
  }

  // Without nodes at both ends that touch nothing that is stored by blocks.
  TiledNodes Trimmed(int first, int last) const {
    TiledNodes group = {last + 1, first - 1, {}};
    for (int i = first; i <= last; ++i) {
      const size_t root = RootOf(program_.nodes[static_cast<size_t>(i)].output);
      const Touched& touched = touched_[root];
      if (touched.written != i || !StaysWithin(root, first, last)) continue;  // counted once
      group.stored.push_back(static_cast<ValueId>(root));
      group.first = std::min(group.first, touched.first);
      group.last = std::max(group.last, touched.last);
    }
    return group;
  }

  const Program& program_;
  const std::function<bool(int)>& can_cut_;
  std::vector<Touched> touched_;  // by root
};

}  // namespace

int64_t TileRows(int64_t nodes) {
  constexpr int64_t kStep = 64, kMost = 16384, kBlocks = 16;
  const int64_t rows = (nodes + kBlocks - 1) / kBlocks;
  return std::min(kMost, (rows + kStep - 1) / kStep * kStep);
}

std::vector<TiledNodes> FindTiledNodes(const Program& program, const std::function<bool(int node)>& can_cut) {
  return TileFinder(program, can_cut).Find();
}

}  // namespace vicinal::internal
