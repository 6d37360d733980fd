// SPDX-License-Identifier: Apache-2.0
// Values of expressions that are computed per node, as steps. Each is computed once, whichever end of an edge reads it.
#ifndef VICINAL_ENGINE_MODEL_EXPRESSIONS_NODE_VALUES_H_
#define VICINAL_ENGINE_MODEL_EXPRESSIONS_NODE_VALUES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/model/expressions/expressions.h"
#include "engine/model/layer_type.h"

namespace vicinal::internal {

// A part of the argument of a product: columns [column, column + width of value) of W, times `scale`.
struct ProductTerm {
  int32_t value = -1;
  int64_t column = 0;
  double scale = 1.0;
};

// Matrices that a program reads, by value. A step has few of them: if there are more, they are one, side by side.
class ProgramMatrices {
 public:
  int32_t IndexOf(ValueId value);
  // The inputs of a step. Values of `op` in `program` are moved if matrices were joined.
  std::vector<ValueId> Inputs(EdgeOp op, StepList& steps, EdgeProgram* program);

 private:
  std::vector<ValueId> values_;
};

class NodeValues {
 public:
  NodeValues(const LayerContext& context, const AdjacencySpec& adjacency, Expressions* expressions)
      : context_(context), adjacency_(adjacency), made_(*expressions) {
    adjacency_.weighting = EdgeWeighting::kNone;
  }

  // The matrix of `value`, which depends on one end at most, and not on the edge.
  StatusOr<ValueId> Of(int32_t value);
  // W's columns of `terms`, added up: the weight by which a common value of all terms is multiplied.
  WeightRef Columns(const WeightRef& weight, const std::vector<ProductTerm>& terms) const;
  // The terms of `argument`: parts of concatenations and, with `sums`, of sums and multiples.
  void Split(int32_t argument, bool sums, int64_t column, double scale, std::vector<ProductTerm>* terms) const;
  // The product of `terms`, all of them values of nodes, plus `bias`, which may be null.
  StatusOr<ValueId> Product(const WeightRef& weight, const WeightRef& bias, const std::vector<ProductTerm>& terms);
  // The number of in-edges [N, 1] or, as kMax, 1 where there are any; `out`: of out-edges.
  ValueId Degree(Reduce reduce, bool out = false);
  // What aggregates are, once they are known.
  void SetAggregate(ValueId value) { aggregate_ = value; }
  // x + y, of one width.
  ValueId Add(ValueId x, ValueId y) { return context_.steps.Emit(AddStep{}, {x, y}, context_.steps.width(x)); }

 private:
  StatusOr<ValueId> Make(int32_t value);
  // By a step of its kind. -1: there is none.
  StatusOr<ValueId> ByStep(const EdgeValue& value);
  // Of a value of nodes and a number or a row of parameters.
  StatusOr<ValueId> WithConstant(const EdgeValue& value);
  StatusOr<ValueId> Joined(const EdgeValue& value);
  // By one expression over rows, down to products and matrices.
  StatusOr<ValueId> ByRows(int32_t value);
  StatusOr<int32_t> Put(int32_t value, bool root, ExpressionStep* step, EdgeProgram* program, ProgramMatrices* matrices,
                        std::map<int32_t, int32_t>* put);
  WeightRef ParameterOf(int32_t index) const { return index < 0 ? nullptr : made_.parameters()[index]; }

  const LayerContext& context_;
  AdjacencySpec adjacency_;
  Expressions& made_;
  std::map<int32_t, ValueId> known_;
  std::map<std::pair<Reduce, bool>, ValueId> degrees_;
  ValueId aggregate_ = -1;
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_EXPRESSIONS_NODE_VALUES_H_
