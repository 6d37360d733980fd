// SPDX-License-Identifier: Apache-2.0
#include "engine/model/expressions/lower_message.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/model/expressions/match_steps.h"
#include "engine/model/expressions/node_values.h"

namespace vicinal::internal {
namespace {

// Makes the program of what remains per edge.
class EdgeLowering {
 public:
  EdgeLowering(const LayerContext& context, Expressions* expressions, NodeValues* nodes)
      : context_(context), made_(*expressions), nodes_(*nodes) {}

  StatusOr<int32_t> Put(int32_t value) {
    if (const auto known = put_.find(value); known != put_.end()) return known->second;
    VICINAL_ASSIGN_OR_RETURN(const int32_t made, Make(value));
    put_[value] = made;
    return made;
  }

  // The step's program and inputs, once all results are put.
  StatusOr<ExpressionStep> Finish(const MessageDeclaration& declaration, std::vector<EdgeResult> results,
                                  std::vector<ValueId>* inputs) {
    program_.results = std::move(results);
    int64_t columns = 0;
    for (const EdgeValue& value : program_.values) columns += value.width;
    if (columns > kMaxExpressionColumns) {
      return absl::InvalidArgumentError(absl::StrCat("it computes ", columns, " numbers for each edge; at most ",
                                                     kMaxExpressionColumns, " are supported; use narrower values"));
    }
    *inputs = sources_.Inputs(EdgeOp::kSource, context_.steps, &program_);
    const std::vector<ValueId> targets = targets_.Inputs(EdgeOp::kTarget, context_.steps, &program_);
    inputs->insert(inputs->end(), targets.begin(), targets.end());
    if (inputs->empty()) {
      inputs->push_back(context_.input());
      program_.targets = 1;
    }
    const bool featured = std::any_of(program_.values.begin(), program_.values.end(),
                                      [](const EdgeValue& value) { return value.op == EdgeOp::kFeatures; });
    ExpressionStep step;
    step.adjacency = declaration.adjacency;
    step.edge_width = program_.edge_width = featured ? declaration.edge_width : 0;
    if (featured) step.loop_features = declaration.loop_features;
    step.parameters = std::move(parameters_);
    step.program = std::make_shared<const EdgeProgram>(std::move(program_));
    return step;
  }

 private:
  int32_t Add(EdgeValue value) {
    program_.values.push_back(std::move(value));
    return static_cast<int32_t>(program_.values.size()) - 1;
  }
  int32_t Sum(int32_t a, int32_t b) {
    if (a < 0 || b < 0) return std::max(a, b);
    EdgeValue sum;
    sum.op = EdgeOp::kAdd;
    sum.a = a;
    sum.b = b;
    sum.width = program_.values[a].width;
    return Add(std::move(sum));
  }
  int32_t Parameter(const WeightRef& weight) {
    if (weight == nullptr) return -1;
    const auto found = std::find(parameters_.begin(), parameters_.end(), weight);
    if (found != parameters_.end()) return static_cast<int32_t>(found - parameters_.begin());
    parameters_.push_back(weight);
    return static_cast<int32_t>(parameters_.size()) - 1;
  }

  StatusOr<int32_t> Make(int32_t value) {
    const EdgeValue v = made_[value];
    const uint8_t depends = made_.depends(value);
    if (v.op == EdgeOp::kNumber || v.op == EdgeOp::kRow) {
      EdgeValue leaf = v;
      if (v.op == EdgeOp::kRow) leaf.index = Parameter(made_.parameters()[v.index]);
      return Add(std::move(leaf));
    }
    // Copies of what a node has: made where they are read, as a node's row is then narrower.
    const bool widens = v.op == EdgeOp::kConcat || v.op == EdgeOp::kRepeat;
    if (!widens && (depends == kOfSource || depends == kOfTarget || depends == 0)) return PutOfNode(value);
    if (v.op == EdgeOp::kLinear) return PutLinear(v);
    return PutOperation(v);
  }

  // Columns of a matrix of nodes.
  StatusOr<int32_t> PutOfNode(int32_t value) {
    EdgeValue v = made_[value];
    EdgeValue columns;
    columns.width = v.width;
    const bool at_source = made_.depends(value) == kOfSource;
    if (v.op == EdgeOp::kSlice) {
      columns.first = v.first;
      value = v.a;
    }
    VICINAL_ASSIGN_OR_RETURN(const ValueId matrix, nodes_.Of(value));
    columns.op = at_source ? EdgeOp::kSource : EdgeOp::kTarget;
    columns.index = (at_source ? sources_ : targets_).IndexOf(matrix);
    return Add(std::move(columns));
  }

  StatusOr<int32_t> PutOperation(EdgeValue v) {
    for (int32_t* const read : {&v.a, &v.b}) {
      if (*read < 0) continue;
      VICINAL_ASSIGN_OR_RETURN(*read, Put(*read));
    }
    for (int32_t& part : v.parts) {
      VICINAL_ASSIGN_OR_RETURN(part, Put(part));
    }
    return Add(std::move(v));
  }

  // Terms of one end become products with nodes; the rest is one product with what is left of the edge.
  StatusOr<int32_t> PutLinear(const EdgeValue& v) {
    const WeightRef weight = made_.parameters()[v.index];
    WeightRef bias = v.bias >= 0 ? made_.parameters()[v.bias] : nullptr;
    std::vector<ProductTerm> terms, of_source, of_target, of_edge;
    nodes_.Split(v.a, /*sums=*/true, 0, 1.0, &terms);
    for (const ProductTerm& term : terms) {
      const uint8_t depends = made_.depends(term.value);
      (depends == kOfSource ? of_source : depends == kOfTarget || depends == 0 ? of_target : of_edge).push_back(term);
    }
    int32_t sum = -1;
    for (const bool at_source : {true, false}) {
      const std::vector<ProductTerm>& own = at_source ? of_source : of_target;
      if (own.empty()) continue;
      VICINAL_ASSIGN_OR_RETURN(const ValueId product, nodes_.Product(weight, std::exchange(bias, nullptr), own));
      EdgeValue leaf;
      leaf.op = at_source ? EdgeOp::kSource : EdgeOp::kTarget;
      leaf.width = v.width;
      leaf.index = (at_source ? sources_ : targets_).IndexOf(product);
      sum = Sum(sum, Add(std::move(leaf)));
    }
    if (of_edge.empty()) return sum;
    VICINAL_ASSIGN_OR_RETURN(const int32_t product, PutEdgeProduct(weight, bias, of_edge, v.width));
    return Sum(sum, product);
  }

  StatusOr<int32_t> PutEdgeProduct(const WeightRef& weight, const WeightRef& bias,
                                   const std::vector<ProductTerm>& terms, int64_t width) {
    EdgeValue product;
    product.op = EdgeOp::kLinear;
    product.width = width;
    if (terms.size() == 1) {
      VICINAL_ASSIGN_OR_RETURN(product.a, Put(terms[0].value));
      product.index = Parameter(nodes_.Columns(weight, terms));
    } else {
      EdgeValue joined;
      joined.op = EdgeOp::kConcat;
      joined.width = 0;
      std::string key = "parts of " + weight->name;
      for (const ProductTerm& term : terms) {
        VICINAL_ASSIGN_OR_RETURN(const int32_t part, Put(term.value));
        joined.parts.push_back(part);
        joined.width += program_.values[part].width;
        absl::StrAppend(&key, " ", term.column, "+", program_.values[part].width, "*", term.scale);
      }
      product.index = Parameter(Gathered(key, weight, terms, joined.width));
      product.a = Add(std::move(joined));
    }
    product.bias = Parameter(bias);
    return Add(std::move(product));
  }

  // The columns of all terms, one after the other.
  WeightRef Gathered(const std::string& key, const WeightRef& weight, const std::vector<ProductTerm>& terms,
                     int64_t width) {
    const int64_t rows = weight->shape[0], stride = weight->shape[1];
    return context_.tensors.Make(key, {rows, width}, [&](std::vector<float>& values) {
      int64_t at = 0;
      for (int64_t r = 0; r < rows; ++r) {
        for (const ProductTerm& term : terms) {
          for (int64_t c = 0; c < made_[term.value].width; ++c)
            values[at++] = static_cast<float>(term.scale * weight->values[r * stride + term.column + c]);
        }
      }
    });
  }

  const LayerContext& context_;
  Expressions& made_;
  NodeValues& nodes_;
  EdgeProgram program_;
  std::vector<WeightRef> parameters_;
  ProgramMatrices sources_, targets_;
  std::map<int32_t, int32_t> put_;
};

// A product after the reduction instead of before it.
struct LaterProduct {
  WeightRef weight, bias;
  bool mean = false;
};

// Takes the product off the only result, if it is a sum or a mean of products with what only edges have: then N
// products do for E. Products with values of nodes stay: they are made per node already.
bool TakeProduct(const Expressions& made, const NodeValues& nodes, std::vector<EdgeResult>* results,
                 LaterProduct* later) {
  if (results->size() != 1) return false;
  EdgeResult& result = results->front();
  const EdgeValue& v = made[result.value];
  if ((result.reduce != EdgeReduce::kSum && result.reduce != EdgeReduce::kMean) || v.op != EdgeOp::kLinear)
    return false;
  std::vector<ProductTerm> terms;
  nodes.Split(v.a, /*sums=*/true, 0, 1.0, &terms);
  const bool of_edges = std::all_of(terms.begin(), terms.end(), [&](const ProductTerm& term) {
    const uint8_t depends = made.depends(term.value);
    return (depends & kOfEdge) != 0 || depends == (kOfSource | kOfTarget);
  });
  if (!of_edges) return false;
  *later = {made.parameters()[v.index], v.bias >= 0 ? made.parameters()[v.bias] : nullptr,
            result.reduce == EdgeReduce::kMean};
  result.value = v.a;
  return true;
}

// W s for the reduction s, plus the bias once per in-edge or, for a mean, where there are any.
ValueId Multiply(const LayerContext& context, const LaterProduct& later, ValueId reduced, NodeValues* nodes) {
  const int64_t out = later.weight->shape[0];
  const ValueId product = context.steps.Emit(LinearStep{later.weight, nullptr}, {reduced}, out);
  if (later.bias == nullptr) return product;
  const WeightRef column = context.tensors.Make("column " + later.bias->name, {out, 1},
                                                [&](std::vector<float>& values) { values = later.bias->values; });
  const ValueId degree = nodes->Degree(later.mean ? Reduce::kMax : Reduce::kSum);
  return nodes->Add(product, context.steps.Emit(LinearStep{column, nullptr}, {degree}, out));
}

// LowerMessage, whose limits have no place yet.
StatusOr<ValueId> Lower(const LayerContext& context, const MessageDeclaration& declaration, Expressions* expressions) {
  NodeValues nodes(context, declaration.adjacency, expressions);
  std::vector<EdgeResult> results = declaration.results;
  LaterProduct later;
  const bool multiplied = TakeProduct(*expressions, nodes, &results, &later);
  EdgeLowering edges(context, expressions, &nodes);
  for (EdgeResult& result : results) {
    VICINAL_ASSIGN_OR_RETURN(result.value, edges.Put(result.value));
    if (result.score < 0) continue;
    VICINAL_ASSIGN_OR_RETURN(result.score, edges.Put(result.score));
  }
  std::vector<ValueId> inputs;
  VICINAL_ASSIGN_OR_RETURN(const ExpressionStep step, edges.Finish(declaration, std::move(results), &inputs));
  ValueId reduced = EmitMatchingStep(context, step, inputs);
  if (reduced < 0) {
    const int64_t width = step.program->width();
    reduced = context.steps.Emit(step, std::move(inputs), width);
  }
  if (multiplied) reduced = Multiply(context, later, reduced, &nodes);
  if (declaration.update < 0) return reduced;
  nodes.SetAggregate(reduced);
  return nodes.Of(declaration.update);
}

}  // namespace

StatusOr<ValueId> LowerMessage(const LayerContext& context, const MessageDeclaration& declaration,
                               Expressions* expressions) {
  StatusOr<ValueId> lowered = Lower(context, declaration, expressions);
  if (lowered.ok() || DetailOf(lowered.status()).has_value()) return lowered;
  const std::string why = absl::StrCat(context.Describe(), ": ", std::string(lowered.status().message()));
  if (declaration.field.empty()) return BadArchitecture(context.declaration.field, why);
  return BadArchitecture(declaration.field, absl::StrCat(declaration.field, " of ", why));
}

}  // namespace vicinal::internal
