// SPDX-License-Identifier: Apache-2.0
// Values of message functions while a layer is read: typed by their width, equal ones are one value, so that what two
// expressions share is computed once. They are EdgeValues over all that expressions may name; lowering
// (lower_message.h) makes a program of what must be computed per edge.
#ifndef VICINAL_ENGINE_MODEL_EXPRESSIONS_EXPRESSIONS_H_
#define VICINAL_ENGINE_MODEL_EXPRESSIONS_EXPRESSIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/base/edge_program.h"
#include "engine/base/status.h"
#include "engine/model/step.h"

namespace vicinal::internal {

// Limits of one layer. Documents are untrusted.
inline constexpr int64_t kMaxExpressionText = 1 << 16;     // bytes
inline constexpr int kMaxExpressionDepth = 64;             // parentheses within each other
inline constexpr size_t kMaxExpressionValues = 1024;       // all operations of a layer
inline constexpr int64_t kMaxExpressionWidth = 1 << 16;    // columns of a value
inline constexpr int64_t kMaxExpressionColumns = 1 << 16;  // of all values of an edge

// What a value depends on.
inline constexpr uint8_t kOfSource = 1, kOfTarget = 2, kOfEdge = 4;

// Source and target matrices: the layer's inputs by number, then these.
inline constexpr int32_t kDegreeMatrix = 1 << 20;     // [1]: number of in-edges
inline constexpr int32_t kAggregateMatrix = 1 << 21;  // of an update: what the messages were reduced to
inline constexpr int32_t kOutDegreeMatrix = 1 << 22;  // [1]: number of out-edges

class Expressions {
 public:
  // A value, or INVALID_ARGUMENT (without a reason) with a message that says why its operands do not fit or that there
  // are too many.
  StatusOr<int32_t> Leaf(EdgeOp op, int32_t index, int64_t width);
  StatusOr<int32_t> Number(double number);
  StatusOr<int32_t> Row(const WeightRef& parameter);
  StatusOr<int32_t> Binary(EdgeOp op, int32_t a, int32_t b);
  StatusOr<int32_t> Activate(int32_t a, Activation activation);
  StatusOr<int32_t> Unary(EdgeOp op, int32_t a);  // kLog, kAbs
  // W [out, width of a]; `bias` [out] or null.
  StatusOr<int32_t> Linear(int32_t a, const WeightRef& weight, const WeightRef& bias);
  StatusOr<int32_t> Dot(int32_t a, int32_t b, int64_t parts);
  StatusOr<int32_t> Sum(int32_t a, int64_t parts);
  StatusOr<int32_t> Repeat(int32_t a, int64_t times);
  StatusOr<int32_t> Slice(int32_t a, int64_t first, int64_t end);
  StatusOr<int32_t> Concat(std::vector<int32_t> parts);

  const EdgeValue& operator[](int32_t value) const { return values_[value]; }
  uint8_t depends(int32_t value) const { return depends_[value]; }
  bool IsNumber(int32_t value) const { return values_[value].op == EdgeOp::kNumber; }
  const std::vector<WeightRef>& parameters() const { return parameters_; }
  // Whether `value` reads the matrix `index`, or is computed from what does.
  bool Reads(int32_t value, EdgeOp op, int32_t index) const;
  // The same with sources read at the target: what a node computes for its out-edges, it can compute for itself.
  // REQUIRES: `value` depends on sources at most.
  StatusOr<int32_t> AtTarget(int32_t value);

 private:
  bool IsConstant(int32_t value) const { return IsNumber(value) || values_[value].op == EdgeOp::kRow; }
  StatusOr<int32_t> FoldRows(EdgeOp op, int32_t a, int32_t b);
  StatusOr<int32_t> Add(EdgeValue value);
  int32_t ParameterOf(const WeightRef& weight);

  std::vector<EdgeValue> values_;
  std::vector<uint8_t> depends_;
  std::map<std::string, int32_t> known_;  // by a value's own bytes
  std::vector<WeightRef> parameters_;
  std::map<int32_t, int32_t> at_target_;
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_EXPRESSIONS_EXPRESSIONS_H_
