// SPDX-License-Identifier: Apache-2.0
// From a model's steps to the program a plan runs, as a chain of pure passes, each a function from program to program
// that keeps what is computed and makes it cheaper. Decisions depend on widths and on whether the input is sparse
// (thinly or crowded), never on the graph's size, so that a model's order of evaluation, and with it every bit, is
// the same for all graphs and batches.
#ifndef VICINAL_ENGINE_PLAN_REWRITE_REWRITE_H_
#define VICINAL_ENGINE_PLAN_REWRITE_REWRITE_H_

#include <functional>
#include <string>

#include "engine/base/status.h"
#include "engine/model/model.h"
#include "engine/plan/rewrite/program.h"

namespace vicinal::internal {

// Sizes that sentences about decisions speak of; they decide nothing.
struct RewriteSizes {
  int64_t nodes = 0;
  int64_t edges = 0;
  int64_t input_nnz = 0;  // of a sparse input
};

// All passes below, in their order. REQUIRES: `output` is a value of `model`.
// `crowded_input`: FeatureShape::crowded. `stop`: whether nobody waits for the program any more; may be empty. Asked
// between the passes; what is returned after it said so can be anything.
Program RewriteModel(const Model& model, ValueId output, bool sparse_input, const RewriteSizes& sizes,
                     bool crowded_input = false, const std::function<bool()>& stop = nullptr);

// --- passes, in order ---

// Steps that `output` needs, one node each; steps that change nothing vanish.
Program LowerModel(const Model& model, ValueId output, bool sparse_input);
// Row-wise nodes (biases, BatchNorm, activations) go into the node before them where its value is not needed otherwise:
// into weights (in double) or into its epilogue. With `residuals`, sums too, into the aggregating side if there is a
// choice.
Program AbsorbRows(Program program, bool residuals);
// Linear(Propagate(x)) and Propagate(Linear(x)) are equal for sums and means: the narrower side is aggregated, and a
// sparse input is always multiplied first. A bias in between stays where it is and holds both.
Program OrderProducts(Program program, const RewriteSizes& sizes, const std::function<bool()>& stop = nullptr);
// What cannot read a sparse input: Linear(Propagate max (x)) becomes one node; for the rest the input is made dense,
// once; where the input is crowded, for that too.
Program PlaceSparseInput(Program program, bool crowded_input);
// GAT's scores att . (W x) as further rows att W of the product that makes W x, or as a product of their own.
Program AddAttentionScores(Program program);
// Products of the same value become one with stacked weights; readers get slices of its columns.
Program JoinSiblings(Program program);
// Concatenation by having producers write into slices of the result; copies where a value cannot move.
Program PlaceConcats(Program program);

// GCN's weights over a graph without weights are d_i * d_j: two factors per node in place of a weight per edge. d_i
// goes into the aggregation's store, d_j into the store of the product before it where nobody else reads that, else it
// is read with the source. Runs last, and for graphs without weights only; adds no values.
Program FactorWeights(Program program);

// Rows that are gathered along edges are kept in `storage`, so that half the bytes move; what is summed, multiplied and
// answered stays float32. For those who asked for it. REQUIRES: a 16-bit storage.
Program NarrowGathers(Program program, Storage storage);

// Why the device's kernel for this kPropagate does not multiply what it sums up by W [out_width, width]; empty: it
// does.
using ProductRefusal = std::function<std::string(const Node& propagate, int64_t out_width)>;
// A product that alone reads what an aggregation stores becomes the end of it, so that the rows between them are never
// stored: one launch less. Runs after all of the above. It may depend on sizes and on what was measured, for it changes
// no bit: whoever multiplies so adds in the order of the products that stand alone.
Program FuseProducts(Program program, const ProductRefusal& refuses);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_REWRITE_REWRITE_H_
