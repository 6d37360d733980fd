// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/message/expression/encode_program.h"

#include <algorithm>
#include <cstdint>
#include <map>

namespace vicinal::cuda {
namespace {

TileOp OpOf(EdgeOp op) {
  switch (op) {
    case EdgeOp::kAdd:
      return TileOp::kAdd;
    case EdgeOp::kSubtract:
      return TileOp::kSubtract;
    case EdgeOp::kMultiply:
      return TileOp::kMultiply;
    case EdgeOp::kDivide:
      return TileOp::kDivide;
    case EdgeOp::kMin:
      return TileOp::kMin;
    case EdgeOp::kMax:
      return TileOp::kMax;
    case EdgeOp::kLog:
      return TileOp::kLog;
    case EdgeOp::kAbs:
      return TileOp::kAbs;
    case EdgeOp::kLinear:
      return TileOp::kLinear;
    case EdgeOp::kDot:
      return TileOp::kDot;
    case EdgeOp::kSum:
      return TileOp::kSum;
    case EdgeOp::kRepeat:
      return TileOp::kRepeat;
    default:
      return TileOp::kCopy;
  }
}

TilePlace PlaceOf(EdgePlace place) {
  switch (place) {
    case EdgePlace::kRegister:
      return TilePlace::kRegister;
    case EdgePlace::kSource:
      return TilePlace::kSource;
    case EdgePlace::kTarget:
      return TilePlace::kTarget;
    case EdgePlace::kFeatures:
      return TilePlace::kFeatures;
    case EdgePlace::kWeight:
      return TilePlace::kWeight;
    case EdgePlace::kRow:
      return TilePlace::kRow;
    default:
      return TilePlace::kNumber;
  }
}

TileReduce ReduceOf(EdgeReduce reduce) {
  switch (reduce) {
    case EdgeReduce::kSum:
      return TileReduce::kSum;
    case EdgeReduce::kMean:
      return TileReduce::kMean;
    case EdgeReduce::kMax:
      return TileReduce::kMax;
    case EdgeReduce::kMin:
      return TileReduce::kMin;
    case EdgeReduce::kVar:
      return TileReduce::kVariance;
    case EdgeReduce::kStd:
      return TileReduce::kDeviation;
    case EdgeReduce::kSoftmax:
      return TileReduce::kSoftmax;
  }
  return TileReduce::kSum;
}

int32_t FloatsOf(TileReduce reduce) {
  if (reduce == TileReduce::kSoftmax) return kSoftmaxFloats;
  return reduce == TileReduce::kVariance || reduce == TileReduce::kDeviation ? kSpreadFloats : kPlainFloats;
}

class Encoder {
 public:
  Encoder(const EdgeCode& code, const std::vector<const void*>& parameters) : code_(code), parameters_(parameters) {
    PlaceRegisters();
  }

  TileProgram Encode() {
    for (const EdgeInstruction& instruction : code_.instructions) Add(instruction);
    for (const EdgeCodeResult& result : code_.results) AddResult(result);
    TileShape& shape = program_.shape;
    shape.instructions = static_cast<int32_t>(program_.instructions.size());
    shape.results = static_cast<int32_t>(program_.results.size());
    shape.registers = registers_;
    shape.width = static_cast<int32_t>(code_.width);
    shape.edge_width = static_cast<int32_t>(code_.edge_width);
    shape.over_edges = code_.over_edges;
    return std::move(program_);
  }

 private:
  // What EdgeCode's registers hold, by their offset, without the room up to whole vectors.
  void PlaceRegisters() {
    std::map<int64_t, int64_t> widths;
    const auto note = [&widths](const EdgeOperand& operand) {
      if (operand.place != EdgePlace::kRegister) return;
      int64_t& width = widths[operand.offset];
      width = std::max(width, operand.first + operand.width);
    };
    for (const EdgeInstruction& instruction : code_.instructions) {
      note(instruction.a);
      note(instruction.b);
      note(instruction.to);
    }
    for (const auto& [offset, width] : widths) {
      places_[offset] = registers_;
      registers_ += static_cast<int32_t>(width);
    }
  }

  int32_t RegisterOf(const EdgeOperand& operand) const {
    return places_.at(operand.offset) + static_cast<int32_t>(operand.first);
  }

  const float* Parameter(int32_t index) const {
    return index < 0 ? nullptr : static_cast<const float*>(parameters_[index]);
  }

  TileOperand OperandOf(const EdgeOperand& from) const {
    TileOperand operand;
    operand.place = PlaceOf(from.place);
    operand.first = static_cast<int32_t>(from.first);
    operand.width = static_cast<int32_t>(from.width);
    operand.number = from.number;
    if (from.place == EdgePlace::kRegister) operand.first = RegisterOf(from);
    if (from.place == EdgePlace::kRow) operand.row = Parameter(from.index);
    if (from.place == EdgePlace::kSource || from.place == EdgePlace::kTarget) operand.matrix = from.index;
    return operand;
  }

  void Add(const EdgeInstruction& from) {
    TileInstruction made;
    made.op = OpOf(from.op);
    made.width = static_cast<int32_t>(from.to.width);
    made.to = RegisterOf(from.to);
    made.activation = from.activation;
    made.a = OperandOf(from.a);
    made.b = OperandOf(from.b);
    made.weight = Parameter(from.weight);
    made.bias = Parameter(from.bias);
    program_.instructions.push_back(made);
  }

  int32_t NewRegisters(int32_t count) {
    registers_ += count;
    return registers_ - count;
  }

  // The registers of a message or a score.
  int32_t Kept(const EdgeOperand& operand) {
    if (operand.place == EdgePlace::kRegister) return RegisterOf(operand);
    TileInstruction copy;
    copy.width = static_cast<int32_t>(operand.width);
    copy.to = NewRegisters(copy.width);
    copy.a = OperandOf(operand);
    program_.instructions.push_back(copy);
    return copy.to;
  }

  void AddResult(const EdgeCodeResult& from) {
    TileResult result;
    result.reduce = ReduceOf(from.reduce);
    result.value = Kept(from.value);
    result.width = static_cast<int32_t>(from.value.width);
    if (result.reduce == TileReduce::kSoftmax) {
      const auto scores = static_cast<int32_t>(from.score.width);
      result.score = Kept(from.score);
      result.score_columns = static_cast<int32_t>(from.value.width) / scores;
      result.top = NewRegisters(scores);
      result.share = NewRegisters(scores);
    }
    result.first = first_;
    result.first_total = program_.shape.total_floats;
    first_ += result.width;
    program_.shape.widest = std::max(program_.shape.widest, result.width);
    program_.shape.total_floats += FloatsOf(result.reduce) * result.width;
    program_.results.push_back(result);
  }

  const EdgeCode& code_;
  const std::vector<const void*>& parameters_;
  std::map<int64_t, int32_t> places_;  // first register, by the offset of EdgeCode's
  int32_t registers_ = 0, first_ = 0;
  TileProgram program_;
};

}  // namespace

TileProgram EncodeProgram(const EdgeCode& code, const std::vector<const void*>& parameters) {
  return Encoder(code, parameters).Encode();
}

TileProgram ProgramWithoutParameters(const EdgeCode& code) {
  return EncodeProgram(code, std::vector<const void*>(code.is_matrix.size(), nullptr));
}

}  // namespace vicinal::cuda
