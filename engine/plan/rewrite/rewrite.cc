// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/rewrite/rewrite.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/plan/node_kinds/node_traits.h"

namespace vicinal::internal {
namespace {

ValueId AddValue(Value value, Program* program) {
  program->values.push_back(value);
  return static_cast<ValueId>(program->values.size() - 1);
}

// Makes the input dense for all nodes that cannot read sparse input.
void DensifyInput(Program* program) {
  ValueId dense = -1;
  const auto replace = [&](ValueId* value) {
    if (*value != kInputValue) return;
    if (dense < 0) dense = AddValue({program->values[kInputValue].width}, program);
    *value = dense;
  };
  for (Node& node : program->nodes) {
    if (!TraitsOf(node.kind).reads_sparse_input) {
      for (ValueId& input : node.inputs) replace(&input);
    }
    replace(&node.epilogue.residual);
  }
  replace(&program->output);
  if (dense < 0) return;
  Node node;
  node.kind = NodeKind::kDensify;
  node.inputs = {kInputValue};
  node.output = dense;
  program->nodes.insert(program->nodes.begin(), std::move(node));
  program->Tell("the sparse input is made dense, because some step needs it");
}

// Scores as a product: [att_src W; att_dst W] [2K, F], to multiply the same input as W. With W null, to multiply W's
// result.
ParametersRef ScoreWeights(const AttentionStep& attention, const ProductWeight* weight) {
  const int64_t heads = attention.heads, width = attention.head_width;
  auto scores = std::make_shared<Parameters>();
  scores->rows = 2 * heads;
  scores->cols = weight != nullptr ? weight->cols : heads * width;
  scores->values.assign(scores->rows * scores->cols, 0.0);
  std::vector<double> multiplied(weight != nullptr ? weight->cols : 0);
  for (int64_t row = 0; row < scores->rows; ++row) {
    const std::vector<float>& att = row < heads ? attention.att_src->values : attention.att_dst->values;
    double* out = scores->values.data() + row * scores->cols;
    for (int64_t c = row % heads * width; c < (row % heads + 1) * width; ++c) {
      if (weight == nullptr) {
        out[c] = att[c];
        continue;
      }
      weight->CopyRow(c, multiplied.data());
      for (int64_t f = 0; f < weight->cols; ++f) out[f] += static_cast<double>(att[c]) * multiplied[f];
    }
  }
  return scores;
}

// The share of scores [2K] that comes from a bias of W x.
ParametersRef ScoreBias(const AttentionStep& attention, const ParametersRef& bias) {
  if (bias == nullptr) return nullptr;
  auto column = std::make_shared<Parameters>(*bias);  // as a W with one column
  std::swap(column->rows, column->cols);
  auto scores = std::make_shared<Parameters>(*ScoreWeights(attention, MadeWeight(std::move(column)).get()));
  std::swap(scores->rows, scores->cols);
  return scores;
}

bool CanJoin(const Node& node) { return node.kind == NodeKind::kLinear && node.epilogue.residual < 0; }

// For the first node of each group of products that can be joined: the whole group, in order.
std::vector<std::vector<int>> Siblings(const Program& program) {
  std::vector<std::vector<int>> siblings(program.nodes.size());
  std::vector<std::vector<int>> firsts(program.values.size());  // of the products of each value: one per activation
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    if (!CanJoin(node)) continue;
    std::vector<int>& known = firsts[node.inputs[0]];
    auto first = std::find_if(known.begin(), known.end(), [&](int other) {
      return program.nodes[other].epilogue.activation == node.epilogue.activation;
    });
    if (first == known.end()) first = known.insert(first, static_cast<int>(i));
    siblings[*first].push_back(static_cast<int>(i));
  }
  return siblings;
}

// One node with the stacked W and bias of all `members`.
Node Stack(const std::vector<const Node*>& members) {
  Node joined = *members[0];
  std::vector<ProductWeightRef> weights;
  auto bias = std::make_shared<Parameters>();
  bool any_bias = false;
  for (const Node* member : members) {
    weights.push_back(member->weight);
    if (member->epilogue.bias != nullptr) {
      any_bias = true;
      bias->values.insert(bias->values.end(), member->epilogue.bias->values.begin(),
                          member->epilogue.bias->values.end());
    } else {
      bias->values.insert(bias->values.end(), member->weight->rows, 0.0);
    }
    AddLayers(member->layers, &joined);
  }
  joined.weight = Stacked(weights);
  bias->rows = 1;
  bias->cols = joined.weight->rows;
  joined.epilogue.bias = any_bias ? std::move(bias) : nullptr;
  return joined;
}

// Linear(Propagate(input)) becomes one node.
void FusePropagateOfSparse(Program* program) {
  const std::vector<int> uses = CountUses(*program);
  const std::vector<int> producers = FindProducers(*program);
  for (Node& linear : program->nodes) {
    if (linear.kind != NodeKind::kLinear || producers[linear.inputs[0]] < 0 || uses[linear.inputs[0]] != 1) continue;
    const Node& propagate = program->nodes[producers[linear.inputs[0]]];
    if (propagate.kind != NodeKind::kPropagate || propagate.inputs[0] != kInputValue || !propagate.epilogue.empty())
      continue;
    if (propagate.reduce == Reduce::kMin) continue;  // no kernel takes minima of sparse rows
    linear.kind = NodeKind::kPropagateLinear;
    linear.inputs = propagate.inputs;
    linear.adjacency = propagate.adjacency;
    linear.reduce = propagate.reduce;
    linear.self_scale = propagate.self_scale;
    program->Tell(absl::StrCat(LayerNames(*program, linear),
                               ": aggregates and multiplies the sparse input in one step, as a ",
                               std::string(ToString(linear.reduce)), " must come before the product"));
  }
  *program = Schedule(std::move(*program));
}

}  // namespace

Program PlaceSparseInput(Program program, bool crowded_input) {
  if (!program.sparse_input) return program;
  if (!crowded_input) FusePropagateOfSparse(&program);
  DensifyInput(&program);
  return program;
}

Program AddAttentionScores(Program program) {
  const std::vector<int> producers = FindProducers(program);
  const size_t count = program.nodes.size();
  for (size_t i = 0; i < count; ++i) {
    if (program.nodes[i].kind != NodeKind::kAttention || program.nodes[i].attention.kind != AttentionKind::kGat)
      continue;
    const AttentionStep attention = program.nodes[i].attention;
    const ValueId projected = program.nodes[i].inputs[0];
    Node scores;
    scores.kind = NodeKind::kLinear;
    scores.layers = {program.nodes[i].layers.front()};
    scores.output = AddValue({2 * attention.heads, program.values[projected].per_graph}, &program);
    const Node* product = producers[projected] >= 0 ? &program.nodes[producers[projected]] : nullptr;
    if (product != nullptr && product->kind == NodeKind::kLinear && product->output == projected && CanJoin(*product) &&
        product->epilogue.activation.kind == ActivationKind::kNone) {
      scores.inputs = product->inputs;
      scores.weight = MadeWeight(ScoreWeights(attention, product->weight.get()));
      scores.epilogue.bias = ScoreBias(attention, product->epilogue.bias);
    } else {
      scores.inputs = {projected};
      scores.weight = MadeWeight(ScoreWeights(attention, nullptr));
    }
    program.nodes[i].inputs = {projected, scores.output};
    program.nodes.push_back(std::move(scores));
  }
  return Schedule(std::move(program));
}

Program JoinSiblings(Program program) {
  // The joined product takes the place of its first member. Readers of the members now read slices.
  std::vector<Node> kept;
  std::vector<char> gone(program.nodes.size(), 0);
  const std::vector<std::vector<int>> siblings = Siblings(program);
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    if (gone[i]) continue;
    if (siblings[i].size() < 2) {
      kept.push_back(std::move(program.nodes[i]));
      continue;
    }
    std::vector<const Node*> members;
    for (const int member : siblings[i]) members.push_back(&program.nodes[member]), gone[member] = 1;
    Node joined = Stack(members);
    joined.output = AddValue({joined.weight->rows, program.values[members[0]->output].per_graph}, &program);
    int64_t offset = 0;
    for (const Node* member : members) {
      Value& value = program.values[member->output];
      value.parent = joined.output;
      value.offset = offset;
      offset += value.width;
    }
    program.Tell(absl::StrCat(LayerNames(program, joined), ": ", members.size(),
                              " products of the same rows are joined into one, with ", offset, " columns"));
    kept.push_back(std::move(joined));
  }
  program.nodes = std::move(kept);
  return Schedule(std::move(program));
}

Program PlaceConcats(Program program) {
  const std::vector<int> producers = FindProducers(program);
  std::vector<Node> nodes;
  for (Node& node : program.nodes) {
    if (node.kind != NodeKind::kConcat) {
      nodes.push_back(std::move(node));
      continue;
    }
    int64_t offset = 0;
    for (ValueId input : node.inputs) {
      const Value& value = program.values[input];
      const bool made_here = producers[input] >= 0 && value.parent < 0;
      ValueId part = input;
      if (!made_here) {
        Node copy;
        copy.kind = NodeKind::kRow;
        copy.inputs = {input};
        copy.layers = node.layers;
        copy.output = part = AddValue({value.width, value.per_graph}, &program);
        nodes.push_back(std::move(copy));
      }
      program.values[part].parent = node.output;
      program.values[part].offset = offset;
      offset += program.values[part].width;
    }
  }
  program.nodes = std::move(nodes);
  return program;
}

Program RewriteModel(const Model& model, ValueId output, bool sparse_input, const RewriteSizes& sizes,
                     bool crowded_input, const std::function<bool()>& stop) {
  Program program = LowerModel(model, output, sparse_input);
  const std::function<Program(Program)> passes[] = {
      [](Program p) { return AbsorbRows(std::move(p), /*residuals=*/false); },
      [&](Program p) { return OrderProducts(std::move(p), sizes, stop); },
      [](Program p) { return AbsorbRows(std::move(p), /*residuals=*/true); },
      [&](Program p) { return PlaceSparseInput(std::move(p), crowded_input); },
      AddAttentionScores,
      JoinSiblings,
  };
  for (const auto& pass : passes) {
    program = pass(std::move(program));
    if (stop && stop()) return program;
  }
  if (program.output == kInputValue) {
    // The input itself is requested.
    Node copy;
    copy.inputs = {kInputValue};
    copy.output = program.output = AddValue({program.values[kInputValue].width}, &program);
    program.nodes.push_back(std::move(copy));
  }
  return PlaceConcats(std::move(program));
}

}  // namespace vicinal::internal
