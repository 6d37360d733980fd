// SPDX-License-Identifier: Apache-2.0
// Rewrites a model's steps to the program of a plan, as a chain of pure passes from program to program that make it
// cheaper without changing what is computed. Decisions depend on widths and on whether the input is sparse (and
// crowded), never on the graph's size. So a model's order of operations, and every bit, is the same for all graphs and
// batches.
#ifndef VICINAL_ENGINE_PLAN_REWRITE_REWRITE_H_
#define VICINAL_ENGINE_PLAN_REWRITE_REWRITE_H_

#include <functional>
#include <string>

#include "engine/base/status.h"
#include "engine/model/model.h"
#include "engine/plan/rewrite/program.h"

namespace vicinal::internal {

// Sizes for the sentences about decisions. They do not affect decisions.
struct RewriteSizes {
  int64_t nodes = 0;
  int64_t edges = 0;
  int64_t input_nnz = 0;  // of a sparse input
};

// All passes below, in their order. REQUIRES: `output` is a value of `model`.
// `crowded_input`: FeatureShape::crowded. `stop`, which may be empty, is called between the passes; once it returns
// true, the result is unspecified.
Program RewriteModel(const Model& model, ValueId output, bool sparse_input, const RewriteSizes& sizes,
                     bool crowded_input = false, const std::function<bool()>& stop = nullptr);

// --- passes, in order ---

// One node for each step that `output` needs. Steps without effect are dropped.
Program LowerModel(const Model& model, ValueId output, bool sparse_input);
// Folds row-wise nodes (biases, BatchNorm, activations) into the node before them, if that has no other reader: into
// its weights (in double) or its epilogue. With `residuals` also sums, into the aggregating side if there is a choice.
Program AbsorbRows(Program program, bool residuals);
// Linear(Propagate(x)) and Propagate(Linear(x)) are equal for sums and means: aggregates on the narrower side, and
// always multiplies a sparse input first. A bias in between prevents the swap.
Program OrderProducts(Program program, const RewriteSizes& sizes, const std::function<bool()>& stop = nullptr);
// Handles nodes that cannot read a sparse input: Linear(Propagate max (x)) becomes one node unless the input is
// crowded; for all others the input is made dense, once.
Program PlaceSparseInput(Program program, bool crowded_input);
// Computes GAT's scores att . (W x) as additional rows att W of the product W x, or as a product of their own.
Program AddAttentionScores(Program program);
// Joins products of the same value into one with stacked weights; readers get slices of its columns.
Program JoinSiblings(Program program);
// Removes concatenations: producers write into slices of the result; values that cannot be moved are copied.
Program PlaceConcats(Program program);

// Over a graph without edge weights, GCN's weights are d_i * d_j: one factor per node in place of a weight per edge.
// d_i goes into the aggregation's epilogue, d_j into the epilogue of the product before it if that has no other reader,
// otherwise it is read with the source. Runs after all of the above, and only for unweighted graphs. Adds no values.
Program FactorWeights(Program program);

// Stores rows that are gathered along edges in `storage`, so that half the bytes move; sums, products and results stay
// float32. Only if the request asks for it. REQUIRES: a 16-bit storage.
Program NarrowGathers(Program program, Storage storage);

// Why the device's kernel for this kPropagate cannot multiply its sums by W [out_width, width]; empty: it can.
using ProductRefusal = std::function<std::string(const Node& propagate, int64_t out_width)>;
// Fuses a product into an aggregation that has no other reader: one launch less, and the rows between them are never
// stored. It may depend on sizes and on measurements because it changes no bits: fused products add in the
// order of separate ones.
Program FuseProducts(Program program, const ProductRefusal& why_unsupported);

// Why the messages of a kMessageReduce stay with that operation rather than become `step`; empty: they do not.
using ExpressionRefusal = std::function<std::string(const Node& message_reduce, const ExpressionStep& step)>;
// The next two turn messages into expressions. Last bits differ, so such steps note a reduction order of their own.
// Decisions depend on widths, the device and the process, never on the graph. They run last.
//
// Message networks, EdgeConv's and those of that form.
Program ExpressMessages(Program program, const ExpressionRefusal& why_not);
// activation(W x_j + W x_i) for one W of few inputs and many outputs: computed per edge in place of gathering W x_j, if
// nothing else reads the product.
Program MultiplyPerEdge(Program program, const ExpressionRefusal& why_not);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_REWRITE_REWRITE_H_
