// SPDX-License-Identifier: Apache-2.0
// A message function as data: values in an order in which each comes after those it reads, and how the last ones are
// reduced over in-edges. Models write such programs (layer type MessagePassing), kernels carry them out; both know this
// form. A program without reductions computes rows from rows. Immutable once made.
//
// A value is a row of `width` numbers per edge (j -> i), or per row. Programs are checked where they are made: widths
// match, indices are in range, numbers are finite.
#ifndef VICINAL_ENGINE_BASE_EDGE_PROGRAM_H_
#define VICINAL_ENGINE_BASE_EDGE_PROGRAM_H_

#include <cstdint>
#include <vector>

#include "engine/base/vocabulary.h"

namespace vicinal {

enum class EdgeOp {
  kSource,    // columns [first, first + width) of row j of source matrix `index`
  kTarget,    // likewise of row i of target matrix `index`
  kFeatures,  // columns [first, first + width) of the edge's features
  kWeight,    // the edge's weight; 1 in an adjacency without weights
  kNumber,    // `number`
  kRow,       // parameter `index`, the same for all edges
  // a op b, column by column; one of them may have a single column, which then meets all of the other.
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kMin,
  kMax,
  kActivation,  // activation(a)
  kLog,         // natural
  kAbs,
  kLinear,  // a W^T + b for parameters `index`, W [width, width of a], and `bias` [width] or -1
  kDot,     // `width` numbers: the sums of a * b over as many equal parts of their columns
  kSum,     // likewise the sums of a
  kRepeat,  // each column of a as often as width / width of a
  kSlice,   // columns [first, first + width) of a
  kConcat,  // `parts` side by side
};

struct EdgeValue {
  EdgeOp op = EdgeOp::kNumber;
  int64_t width = 1;
  int32_t a = -1, b = -1;  // values before this one
  int32_t index = -1;      // of a matrix or parameter
  int32_t bias = -1;       // kLinear: a parameter
  int64_t first = 0;
  float number = 0.0f;
  Activation activation;
  std::vector<int32_t> parts = {};  // kConcat: values before this one

  friend bool operator==(const EdgeValue&, const EdgeValue&) = default;
};

// How a value becomes one row per target. A target without in-edges gets 0.
enum class EdgeReduce {
  kSum,
  kMean,
  kMax,
  kMin,
  kVar,      // the mean square of differences from the mean
  kStd,      // its root, 0 where the variance is at most 1e-5 (PyTorch Geometric's StdAggregation)
  kSoftmax,  // sum_j s_j m_j / sum_j s_j for s = exp(score); a score per column, per equal part of them, or one
};

struct EdgeResult {
  EdgeReduce reduce = EdgeReduce::kSum;
  int32_t value = -1;
  int32_t score = -1;  // kSoftmax
};

struct EdgeProgram {
  bool over_edges = true;  // false: `values` are of rows, kTarget reads them, and `results` has one entry, not reduced
  std::vector<EdgeValue> values;
  std::vector<EdgeResult> results;   // side by side
  int32_t sources = 0, targets = 0;  // matrices: inputs of a step, sources first
  int64_t edge_width = 0;            // features of each edge; 0: not read

  int64_t width() const {
    int64_t sum = 0;
    for (const EdgeResult& result : results) sum += values[result.value].width;
    return sum;
  }
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_BASE_EDGE_PROGRAM_H_
