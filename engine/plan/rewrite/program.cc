// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/rewrite/program.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"

namespace vicinal::internal {
void Program::Tell(std::string decision) {
  if (decisions.size() < kMaxDecisions) {
    decisions.push_back(std::move(decision));
  } else {
    ++untold;
  }
}

Place PlaceOf(const Program& program, ValueId value) {
  Place place{value, 0};
  while (program.values[place.root].parent >= 0) {
    place.offset += program.values[place.root].offset;
    place.root = program.values[place.root].parent;
  }
  return place;
}

std::vector<int> CountUses(const Program& program) {
  std::vector<int> uses(program.values.size(), 0);
  for (const Node& node : program.nodes) ForEachRead(node, [&](ValueId value) { ++uses[value]; });
  ++uses[program.output];
  return uses;
}

std::vector<int> FindProducers(const Program& program) {
  std::vector<int> producers(program.values.size(), -1);
  for (size_t i = 0; i < program.nodes.size(); ++i) producers[program.nodes[i].output] = static_cast<int>(i);
  for (size_t v = 0; v < program.values.size(); ++v) {
    ValueId value = static_cast<ValueId>(v);
    while (producers[value] < 0 && program.values[value].parent >= 0) value = program.values[value].parent;
    producers[v] = producers[value];
  }
  return producers;
}

void RemoveNodes(const std::vector<char>& gone, Program* program) {
  std::vector<Node> left;
  for (size_t i = 0; i < program->nodes.size(); ++i) {
    if (!gone[i]) left.push_back(std::move(program->nodes[i]));
  }
  program->nodes = std::move(left);
}

Program Schedule(Program program) {
  const std::vector<int> producers = FindProducers(program);
  const size_t count = program.nodes.size();
  std::vector<char> needed(count, 0);
  std::vector<int> pending;
  const auto need = [&](ValueId value) {
    const int producer = producers[value];
    if (producer >= 0 && !needed[producer]) needed[producer] = 1, pending.push_back(producer);
  };
  need(program.output);
  while (!pending.empty()) {
    const int node = pending.back();
    pending.pop_back();
    ForEachRead(program.nodes[node], need);
  }
  // The first node in the old order whose inputs are available comes next. Each read is visited once: a model may have
  // thousands of layers that read all before them.
  std::vector<int> missing(count, 0);
  std::vector<std::vector<int>> readers(count);
  std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
  for (size_t i = 0; i < count; ++i) {
    if (!needed[i]) continue;
    ForEachRead(program.nodes[i], [&](ValueId value) {
      if (producers[value] < 0) return;
      readers[producers[value]].push_back(static_cast<int>(i));
      ++missing[i];
    });
    if (missing[i] == 0) ready.push(static_cast<int>(i));
  }
  std::vector<Node> ordered;
  while (!ready.empty()) {
    const int node = ready.top();
    ready.pop();
    ordered.push_back(std::move(program.nodes[node]));
    for (const int reader : readers[node]) {
      if (--missing[reader] == 0) ready.push(reader);
    }
  }
  VICINAL_CHECK(ordered.size() == static_cast<size_t>(std::count(needed.begin(), needed.end(), 1)));
  program.nodes = std::move(ordered);
  return program;
}

void AddLayers(const std::vector<int32_t>& layers, Node* node) {
  for (int32_t layer : layers) {
    if (std::find(node->layers.begin(), node->layers.end(), layer) == node->layers.end()) node->layers.push_back(layer);
  }
}

bool IsLinear(Reduce reduce) { return reduce == Reduce::kSum || reduce == Reduce::kMean; }

std::string LayerNames(const Program& program, const Node& node) {
  constexpr size_t kMaxNames = 16;
  std::string names;
  for (size_t i = 0; i < node.layers.size(); ++i) {
    const int32_t layer = node.layers[i];
    if (layer < 0 || layer >= program.layer_names.size()) continue;
    if (!names.empty()) names += " + ";
    if (i >= kMaxNames) return absl::StrCat(names, node.layers.size() - i, " more");
    names += program.layer_names[layer];
  }
  return names;
}

}  // namespace vicinal::internal
