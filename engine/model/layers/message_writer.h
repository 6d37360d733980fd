// SPDX-License-Identifier: Apache-2.0
// The expressions of a convolution that is written in C++: what MessagePassing reads from a text. The first operation
// that fails decides; what is written after it has no effect, so that a layer asks once, at the end.
#ifndef VICINAL_ENGINE_MODEL_LAYERS_MESSAGE_WRITER_H_
#define VICINAL_ENGINE_MODEL_LAYERS_MESSAGE_WRITER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/expressions/lower_message.h"

namespace vicinal::internal {

class MessageWriter {
 public:
  explicit MessageWriter(const LayerContext& context) : context_(context) {}

  // The rows of input `input` at an edge's source and target; in an update, the node's.
  int32_t Source(int32_t input) { return Leaf(EdgeOp::kSource, input, WidthOf(input)); }
  int32_t Target(int32_t input) { return Leaf(EdgeOp::kTarget, input, WidthOf(input)); }
  int32_t Degree() { return Leaf(EdgeOp::kTarget, kDegreeMatrix, 1); }
  int32_t Features(int64_t width) { return Leaf(EdgeOp::kFeatures, -1, width); }
  int32_t Weight() { return Leaf(EdgeOp::kWeight, -1, 1); }
  // In an update: what the messages were reduced to.
  int32_t Aggregate(int64_t width) { return Leaf(EdgeOp::kTarget, kAggregateMatrix, width); }
  int32_t Leaf(EdgeOp op, int32_t index, int64_t width) {
    return Put([&] { return made_.Leaf(op, index, width); });
  }
  int32_t Number(double number) {
    return Put([&] { return made_.Number(number); });
  }
  int32_t Binary(EdgeOp op, int32_t a, int32_t b) {
    return Put([&] { return made_.Binary(op, a, b); });
  }
  int32_t Add(int32_t a, int32_t b) { return Binary(EdgeOp::kAdd, a, b); }
  int32_t Multiply(int32_t a, int32_t b) { return Binary(EdgeOp::kMultiply, a, b); }
  int32_t Log(int32_t a) {
    return Put([&] { return made_.Unary(EdgeOp::kLog, a); });
  }
  int32_t Activate(int32_t a, Activation activation) {
    if (activation.kind == ActivationKind::kNone) return a;
    return Put([&] { return made_.Activate(a, activation); });
  }
  int32_t Linear(int32_t a, const WeightRef& weight, const WeightRef& bias = nullptr) {
    return Put([&] { return made_.Linear(a, weight, bias); });
  }
  int32_t Dot(int32_t a, int32_t b, int64_t parts) {
    return Put([&] { return made_.Dot(a, b, parts); });
  }
  int32_t DotRow(int32_t a, const WeightRef& row, int64_t parts) {
    const int32_t b = Put([&] { return made_.Row(row); });
    return Dot(a, b, parts);
  }
  int32_t Slice(int32_t a, int64_t first, int64_t count) {
    return Put([&] { return made_.Slice(a, first, first + count); });
  }
  int32_t Concat(std::vector<int32_t> parts) {
    return Put([&] { return made_.Concat(std::move(parts)); });
  }

  // The layer's output. BAD_ARCHITECTURE at the layer: an operation failed, or edges compute too much.
  StatusOr<ValueId> Lower(const MessageDeclaration& declaration) {
    if (!status_.ok()) {
      return BadArchitecture(context_.declaration.field,
                             context_.Describe() + " is too large: " + std::string(status_.message()));
    }
    return LowerMessage(context_, declaration, &made_);
  }

 private:
  int64_t WidthOf(int32_t input) const { return context_.steps.width(context_.inputs[input]); }
  template <class Make>
  int32_t Put(Make make) {
    if (!status_.ok()) return -1;
    const StatusOr<int32_t> made = make();
    if (made.ok()) return *made;
    status_ = made.status();
    return -1;
  }

  const LayerContext& context_;
  Expressions made_;
  Status status_;
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_LAYERS_MESSAGE_WRITER_H_
