// SPDX-License-Identifier: Apache-2.0
// The kinds of a program's nodes. Each kind's NodeTraits are in one file of this folder.
#ifndef VICINAL_ENGINE_PLAN_NODE_KINDS_NODE_KIND_H_
#define VICINAL_ENGINE_PLAN_NODE_KINDS_NODE_KIND_H_

namespace vicinal::internal {

enum class NodeKind {
  kLinear,           // inputs: x
  kPropagate,        // inputs: x; with a weight, the result after `inner` is multiplied by it
  kPropagateLinear,  // inputs: x, the sparse input; aggregated and multiplied in one step
  kAttention,        // inputs: values, scores [N, 2K] (source's, then target's); v2: values, queries; dot: keys too
  kRow,              // inputs: a;  a * scale + shift, then the epilogue
  kMax,              // inputs: a, b
  kMultiply,         // inputs: a, b
  kSlice,            // inputs: a; columns from `first_column` on
  kSoftmax,          // inputs: a
  kLogSoftmax,       // inputs: a
  kNormalize,        // inputs: a
  kLayerNorm,        // inputs: a
  kGraphNorm,        // inputs: a
  kReadout,          // inputs: a
  kExpand,           // inputs: a, one row per graph
  kDensify,          // inputs: the sparse input
  kMessageReduce,    // inputs: u, v; the two halves of the message MLP's first layer, already multiplied; or u alone
  kExpression,       // inputs: sources, then targets, of an expression over edges
  kRowExpression,    // inputs: targets, of an expression over rows
  kGate,             // inputs: out, skip
  kNarrow,           // inputs: a; the same in the 16-bit storage of the output
  kMedian,           // inputs: a
  kSort,             // inputs: a
  kConcat,           // inputs side by side; PlaceConcats removes it
};

struct NodeTraits;

// One per kind, each defined in this folder.
extern const NodeTraits kLinearTraits;
extern const NodeTraits kPropagateTraits;
extern const NodeTraits kPropagateLinearTraits;
extern const NodeTraits kAttentionTraits;
extern const NodeTraits kRowTraits;
extern const NodeTraits kMaxTraits;
extern const NodeTraits kMultiplyTraits;
extern const NodeTraits kSliceTraits;
extern const NodeTraits kSoftmaxTraits;
extern const NodeTraits kLogSoftmaxTraits;
extern const NodeTraits kNormalizeTraits;
extern const NodeTraits kLayerNormTraits;
extern const NodeTraits kGraphNormTraits;
extern const NodeTraits kReadoutTraits;
extern const NodeTraits kExpandTraits;
extern const NodeTraits kDensifyTraits;
extern const NodeTraits kMessageReduceTraits;
extern const NodeTraits kExpressionTraits;
extern const NodeTraits kRowExpressionTraits;
extern const NodeTraits kGateTraits;
extern const NodeTraits kNarrowTraits;
extern const NodeTraits kMedianTraits;
extern const NodeTraits kSortTraits;
extern const NodeTraits kConcatTraits;

// In the order of NodeKind.
inline constexpr const NodeTraits* kNodeTraits[] = {
    &kLinearTraits,        &kPropagateTraits,     &kPropagateLinearTraits,
    &kAttentionTraits,     &kRowTraits,           &kMaxTraits,
    &kMultiplyTraits,      &kSliceTraits,         &kSoftmaxTraits,
    &kLogSoftmaxTraits,    &kNormalizeTraits,     &kLayerNormTraits,
    &kGraphNormTraits,     &kReadoutTraits,       &kExpandTraits,
    &kDensifyTraits,       &kMessageReduceTraits, &kExpressionTraits,
    &kRowExpressionTraits, &kGateTraits,          &kNarrowTraits,
    &kMedianTraits,        &kSortTraits,          &kConcatTraits,
};

inline const NodeTraits& TraitsOf(NodeKind kind) { return *kNodeTraits[static_cast<int>(kind)]; }

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_NODE_KINDS_NODE_KIND_H_
