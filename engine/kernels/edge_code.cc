// SPDX-License-Identifier: Apache-2.0
// Turns an EdgeProgram into instructions on registers. Values that exist already (columns of a source, a target, the
// edge's features, a parameter, a number) are operands and are not copied, but for narrow ones, whose loops run across
// edges, and inputs of products, whose rows must be registers. Slices of registers are views. A register returns to the
// free ones after the last read of its value.
#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "engine/base/check.h"
#include "engine/kernels/expression.h"

namespace vicinal {
namespace {

class EdgeCompiler {
 public:
  EdgeCompiler(const EdgeProgram& program, size_t parameters) : program_(program) {
    code_.over_edges = program.over_edges;
    code_.edge_width = program.edge_width;
    code_.width = program.width();
    code_.is_matrix.assign(parameters, false);
    last_read_.assign(program.values.size(), -1);
    places_.resize(program.values.size());
    owner_.assign(program.values.size(), -1);
  }

  EdgeCode Compile() {
    FindLastReads();
    for (size_t v = 0; v < program_.values.size(); ++v) {
      if (last_read_[v] < 0) continue;
      Add(static_cast<int32_t>(v));
      Release(static_cast<int32_t>(v));
    }
    for (const EdgeResult& result : program_.results) {
      code_.results.push_back({result.reduce, places_[result.value], {}, {}, StateFloats(result)});
      if (result.score >= 0) AddShares(places_[result.score], &code_.results.back());
      code_.state_floats += code_.results.back().state_floats;
    }
    return std::move(code_);
  }

 private:
  int32_t end() const { return static_cast<int32_t>(program_.values.size()); }

  template <class F>
  void ForEachRead(const EdgeValue& value, const F& f) const {
    if (value.a >= 0) f(value.a);
    if (value.b >= 0) f(value.b);
    for (const int32_t part : value.parts) f(part);
  }

  // A view is read as long as what it views.
  void FindLastReads() {
    for (const EdgeResult& result : program_.results) {
      last_read_[result.value] = end();
      if (result.score >= 0) last_read_[result.score] = end();
    }
    for (int32_t v = end() - 1; v >= 0; --v) {
      if (last_read_[v] < 0) continue;
      const EdgeValue& value = program_.values[v];
      const int32_t until = value.op == EdgeOp::kSlice ? last_read_[v] : v;
      ForEachRead(value, [&](int32_t read) { last_read_[read] = std::max(last_read_[read], until); });
    }
  }

  EdgeOperand Allocate(int32_t value) {
    const int64_t width = program_.values[value].width, stride = RegisterStride(width);
    std::vector<int64_t>& free = free_[stride];
    EdgeOperand to = {EdgePlace::kRegister, 0, 0, code_.register_floats, stride, width};
    if (free.empty()) {
      code_.register_floats += stride;
    } else {
      to.offset = free.back();
      free.pop_back();
    }
    owner_[value] = value;
    return to;
  }

  // Frees the registers of values that are read last by value `v`.
  void Release(int32_t v) {
    ForEachRead(program_.values[v], [&](int32_t read) {
      // A slice is read no longer than what it views.
      for (;; read = program_.values[read].a) {
        if (last_read_[read] == v && owner_[read] == read) {
          free_[places_[read].stride].push_back(places_[read].offset);
          owner_[read] = -1;
        }
        if (program_.values[read].op != EdgeOp::kSlice) return;
      }
    });
  }

  static EdgeOperand Leaf(EdgePlace place, const EdgeValue& value) {
    return {place, value.index, value.first, 0, 0, value.width, value.number};
  }

  void Add(int32_t v) {
    const EdgeValue& value = program_.values[v];
    switch (value.op) {
      case EdgeOp::kNumber:
        places_[v] = Leaf(EdgePlace::kNumber, value);
        return;
      case EdgeOp::kRow:
        places_[v] = Leaf(EdgePlace::kRow, value);
        return;
      case EdgeOp::kSource:
        code_.gathered += value.width;
        return AddLeaf(v, Leaf(EdgePlace::kSource, value));
      case EdgeOp::kTarget:
        return AddLeaf(v, Leaf(EdgePlace::kTarget, value));
      case EdgeOp::kFeatures:
        return AddLeaf(v, Leaf(EdgePlace::kFeatures, value));
      case EdgeOp::kWeight:
        return AddLeaf(v, Leaf(EdgePlace::kWeight, value));
      case EdgeOp::kSlice:
        return AddSlice(v);
      case EdgeOp::kConcat:
        return AddConcat(v);
      default:
        return AddInstruction(v);
    }
  }

  // Narrow leaves and features become registers.
  void AddLeaf(int32_t v, const EdgeOperand& leaf) {
    places_[v] = leaf;
    if (leaf.width > 4 && leaf.place != EdgePlace::kFeatures) return;
    places_[v] = Allocate(v);
    Copy(leaf, places_[v]);
  }

  void AddSlice(int32_t v) {
    const EdgeValue& value = program_.values[v];
    EdgeOperand view = places_[value.a];
    view.first += value.first;
    view.width = value.width;
    places_[v] = view;
    // Loops over narrow values need packed rows. A copy of what is part of a wider row.
    if (value.width <= 4 && view.place == EdgePlace::kRegister) {
      const EdgeOperand to = Allocate(v);
      Copy(view, to);
      places_[v] = to;
    }
  }

  void AddConcat(int32_t v) {
    EdgeOperand to = Allocate(v);
    places_[v] = to;
    for (const int32_t part : program_.values[v].parts) {
      to.width = program_.values[part].width;
      Copy(places_[part], to);
      to.first += to.width;
    }
  }

  // The register that holds `value`, as inputs of products must be: all columns of it.
  EdgeOperand AsRegister(int32_t value) {
    const EdgeOperand& place = places_[value];
    if (place.place == EdgePlace::kRegister) return place;
    EdgeOperand to = place;
    to.place = EdgePlace::kRegister;
    to.first = 0;
    to.stride = RegisterStride(place.width);
    to.offset = code_.register_floats;
    code_.register_floats += to.stride;
    Copy(place, to);
    return places_[value] = to;
  }

  void AddInstruction(int32_t v) {
    const EdgeValue& value = program_.values[v];
    EdgeInstruction made;
    made.op = value.op;
    made.weight = value.op == EdgeOp::kLinear ? value.index : -1;
    made.bias = value.bias;
    if (made.weight >= 0) code_.is_matrix[made.weight] = true;
    // An activation joins the instruction that computes its argument, if nothing else reads that.
    if (value.op == EdgeOp::kActivation && last_read_[value.a] == v && owner_[value.a] == value.a &&
        JoinActivation(v, value))
      return;
    if (value.op == EdgeOp::kActivation) made.activation = value.activation;
    made.a = value.op == EdgeOp::kLinear ? AsRegister(value.a) : places_[value.a];
    if (value.b >= 0) made.b = places_[value.b];
    made.to = places_[v] = Allocate(v);
    Emit(made);
  }

  bool JoinActivation(int32_t v, const EdgeValue& value) {
    EdgeInstruction& last = code_.instructions.back();
    const EdgeOperand& place = places_[value.a];
    const bool same = last.to.offset == place.offset && last.to.width == place.width && last.to.first == place.first;
    if (!same || place.width != value.width || last.activation.kind != ActivationKind::kNone) return false;
    last.activation = value.activation;
    places_[v] = place;
    owner_[value.a] = -1;
    owner_[v] = v;
    code_.operations += static_cast<double>(value.width);
    return true;
  }

  void Copy(const EdgeOperand& from, const EdgeOperand& to) {
    EdgeInstruction copy;
    copy.op = EdgeOp::kSlice;
    copy.a = from;
    copy.to = to;
    Emit(copy);
  }

  void Emit(const EdgeInstruction& made) {
    const auto width = static_cast<double>(made.to.width);
    const bool reduces = made.op == EdgeOp::kDot || made.op == EdgeOp::kSum;
    code_.operations += made.op == EdgeOp::kLinear ? 2 * width * static_cast<double>(made.a.width)
                        : reduces                  ? 2 * static_cast<double>(made.a.width)
                                                   : width;
    code_.instructions.push_back(made);
  }

  void AddShares(const EdgeOperand& score, EdgeCodeResult* result) {
    result->score = score;
    const int64_t stride = RegisterStride(score.width);
    result->shares = {EdgePlace::kRegister, 0, 0, code_.register_floats, stride, score.width};
    code_.register_floats += stride;
    code_.operations += 20.0 * static_cast<double>(score.width);
  }

  int64_t StateFloats(const EdgeResult& result) const {
    const int64_t stride = (program_.values[result.value].width + 15) / 16 * 16;
    const bool spread = result.reduce == EdgeReduce::kVar || result.reduce == EdgeReduce::kStd;
    if (result.reduce != EdgeReduce::kSoftmax) return (spread ? 2 : 1) * stride;
    return stride + 2 * ((program_.values[result.score].width + 15) / 16 * 16);
  }

  const EdgeProgram& program_;
  EdgeCode code_;
  std::vector<int32_t> last_read_;                // the value that reads it last; end(): a result; -1: none
  std::vector<EdgeOperand> places_;               // of each value
  std::vector<int32_t> owner_;                    // the value itself while it has a register of its own, otherwise -1
  std::map<int64_t, std::vector<int64_t>> free_;  // offsets of free registers, by stride
};

}  // namespace

std::shared_ptr<const EdgeCode> CompileEdgeProgram(const EdgeProgram& program, size_t parameters) {
  return std::make_shared<const EdgeCode>(EdgeCompiler(program, parameters).Compile());
}

}  // namespace vicinal
