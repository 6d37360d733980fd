// SPDX-License-Identifier: Apache-2.0
// Reference expressions: the instructions of an EdgeCode edge by edge and column by column, in double precision, and
// one pass over a row's edges for its reductions.
#include <algorithm>
#include <cmath>
#include <memory>

#include "engine/kernels/cpu/edge_features.h"
#include "engine/kernels/cpu/kernels.h"
#include "engine/kernels/cpu/reference.h"

namespace vicinal::internal {
namespace {

// One edge (j -> i), or one row.
struct EdgeAt {
  int64_t source = 0, target = 0;
  double weight = 1.0;
  const float* features = nullptr;  // null: the program reads none
};

// The values of one edge at a time.
class Registers {
 public:
  Registers(const ExpressionArgs& args, double* memory) : args_(args), memory_(memory) {}

  void Compute(const EdgeAt& edge) {
    edge_ = edge;
    for (const EdgeInstruction& instruction : args_.problem.code->instructions) {
      for (int64_t c = 0; c < instruction.to.width; ++c) {
        memory_[instruction.to.offset + instruction.to.first + c] =
            ReferenceActivate(instruction.activation, Column(instruction, c));
      }
    }
  }

  // Column `c` of an operand; of a single one, that one.
  double At(const EdgeOperand& operand, int64_t c) const {
    const int64_t column = operand.first + (operand.width == 1 ? 0 : c);
    switch (operand.place) {
      case EdgePlace::kRegister:
        return memory_[operand.offset + column];
      case EdgePlace::kSource:
        return args_.sources[operand.index].row(edge_.source)[column];
      case EdgePlace::kTarget:
        return args_.targets[operand.index].row(edge_.target)[column];
      case EdgePlace::kFeatures:
        return edge_.features != nullptr ? edge_.features[column] : 0.0;
      case EdgePlace::kWeight:
        return edge_.weight;
      case EdgePlace::kRow:
        return Parameter(operand.index)[column];
      default:
        return operand.number;
    }
  }

 private:
  const float* Parameter(int32_t index) const { return static_cast<const float*>((*args_.parameters)[index]); }

  double Column(const EdgeInstruction& i, int64_t c) const {
    switch (i.op) {
      case EdgeOp::kAdd:
        return At(i.a, c) + At(i.b, c);
      case EdgeOp::kSubtract:
        return At(i.a, c) - At(i.b, c);
      case EdgeOp::kMultiply:
        return At(i.a, c) * At(i.b, c);
      case EdgeOp::kDivide:
        return At(i.a, c) / At(i.b, c);
      case EdgeOp::kMin:
        return ReferenceExtreme(Reduce::kMin, At(i.a, c), At(i.b, c));
      case EdgeOp::kMax:
        return ReferenceExtreme(Reduce::kMax, At(i.a, c), At(i.b, c));
      case EdgeOp::kLog:
        return std::log(At(i.a, c));
      case EdgeOp::kAbs:
        return std::abs(At(i.a, c));
      case EdgeOp::kLinear:
        return LinearColumn(i, c);
      case EdgeOp::kDot:
      case EdgeOp::kSum:
        return PartSum(i, c);
      case EdgeOp::kRepeat:
        return At(i.a, c * i.a.width / i.to.width);
      default:
        return At(i.a, c);
    }
  }

  double LinearColumn(const EdgeInstruction& i, int64_t c) const {
    double sum = i.bias >= 0 ? Parameter(i.bias)[c] : 0.0;
    for (int64_t k = 0; k < i.a.width; ++k) sum += At(i.a, k) * Parameter(i.weight)[c * i.a.width + k];
    return sum;
  }

  double PartSum(const EdgeInstruction& i, int64_t part) const {
    const int64_t width = i.a.width / i.to.width;
    double sum = 0.0;
    for (int64_t c = part * width; c < (part + 1) * width; ++c)
      sum += At(i.a, c) * (i.op == EdgeOp::kDot ? At(i.b, c) : 1.0);
    return sum;
  }

  const ExpressionArgs& args_;
  double* const memory_;
  EdgeAt edge_;
};

// The reductions of a row so far, in `state`: of each result what EdgeCodeResult::state_floats counts.
class RowReductions {
 public:
  RowReductions(const ExpressionArgs& args, double* state) : args_(args), code_(*args.problem.code), state_(state) {}

  void Start() {
    std::fill_n(state_, code_.state_floats, 0.0);
    edges_ = 0;
  }

  void Join(const Registers& values) {
    ++edges_;
    double* state = state_;
    for (const EdgeCodeResult& result : code_.results) {
      const int64_t stride = (result.value.width + 15) / 16 * 16;
      if (result.reduce == EdgeReduce::kSoftmax) {
        JoinWeighted(result, values, state, state + stride);
      } else {
        for (int64_t c = 0; c < result.value.width; ++c)
          JoinColumn(result.reduce, values.At(result.value, c), state + c, state + stride + c);
      }
      state += result.state_floats;
    }
  }

  void Store(int64_t row) const {
    const double* state = state_;
    int64_t col = 0;
    for (const EdgeCodeResult& result : code_.results) {
      for (int64_t c = 0; c < result.value.width; ++c, ++col)
        args_.dst.row(row)[col] = ReferenceEpilogue(args_.epilogue, Result(result, state, c), row, col);
      state += result.state_floats;
    }
  }

 private:
  // `spread`: only of variances.
  void JoinColumn(EdgeReduce reduce, double x, double* state, double* spread) const {
    if (reduce == EdgeReduce::kSum || reduce == EdgeReduce::kMean) {
      *state += x;
    } else if (reduce == EdgeReduce::kMax || reduce == EdgeReduce::kMin) {
      const Reduce extreme = reduce == EdgeReduce::kMax ? Reduce::kMax : Reduce::kMin;
      *state = edges_ == 1 ? x : ReferenceExtreme(extreme, *state, x);
    } else {
      const double before = x - *state;
      *state += before / static_cast<double>(edges_);
      *spread += before * (x - *state);
    }
  }

  // `largest` is followed by the sums of weights.
  void JoinWeighted(const EdgeCodeResult& result, const Registers& values, double* state, double* largest) const {
    const int64_t scores = result.score.width, part = result.value.width / scores;
    double* const totals = largest + (scores + 15) / 16 * 16;
    for (int64_t k = 0; k < scores; ++k) {
      const double score = values.At(result.score, k);
      const double most = edges_ == 1 ? score : ReferenceExtreme(Reduce::kMax, largest[k], score);
      // While all scores are -infinity, their shares are 0: -infinity less itself is no number.
      const double base = std::isinf(most) && most < 0.0 ? 0.0 : most;
      const double shrink = edges_ == 1 ? 0.0 : std::exp(largest[k] - base), share = std::exp(score - base);
      largest[k] = most;
      totals[k] = totals[k] * shrink + share;
      for (int64_t c = k * part; c < (k + 1) * part; ++c)
        state[c] = state[c] * shrink + share * values.At(result.value, c);
    }
  }

  double Result(const EdgeCodeResult& result, const double* state, int64_t c) const {
    if (edges_ == 0) return 0.0;
    const int64_t stride = (result.value.width + 15) / 16 * 16, scores = result.score.width;
    const auto count = static_cast<double>(edges_);
    switch (result.reduce) {
      case EdgeReduce::kMean:
        return state[c] / count;
      case EdgeReduce::kVar:
        return state[stride + c] / count;
      case EdgeReduce::kStd:
        return state[stride + c] / count <= 1e-5 ? 0.0 : std::sqrt(state[stride + c] / count);
      case EdgeReduce::kSoftmax:
        return state[c] / state[stride + (scores + 15) / 16 * 16 + c * scores / result.value.width];
      default:
        return state[c];
    }
  }

  const ExpressionArgs& args_;
  const EdgeCode& code_;
  double* const state_;
  int64_t edges_ = 0;
};

class ReferenceExpression final : public ReferenceWeighted<ExpressionKernel> {
 public:
  // One edge's registers, and the state of one row.
  size_t ScratchBytes(const ExpressionProblem& problem, const KernelConfig&, int) const override {
    return static_cast<size_t>(problem.code->register_floats + problem.code->state_floats) * sizeof(double);
  }

  Status Run(DeviceContext&, const ExpressionArgs& args, void* scratch) const override {
    const EdgeCode& code = *args.problem.code;
    double* const memory = static_cast<double*>(scratch);
    Registers values(args, memory);
    code.over_edges ? OverEdges(args, memory + code.register_floats, &values) : OverRows(args, &values);
    return OkStatus();
  }

 private:
  static void OverEdges(const ExpressionArgs& args, double* state, Registers* values) {
    const CsrView& a = args.adjacency;
    RowReductions reductions(args, state);
    for (int64_t i = 0; i < args.dst.rows; ++i) {
      EdgeFeaturesOfRow features;
      if (args.problem.code->edge_width > 0) features = EdgeFeaturesOfRow(args.edge, i);
      reductions.Start();
      for (int64_t e = a.row_ptr[i]; e < a.row_ptr[i + 1]; ++e) {
        EdgeAt edge = {a.col[e], i, a.value != nullptr ? a.value[e] : 1.0f};
        if (args.problem.code->edge_width > 0) edge.features = features.At(e - a.row_ptr[i]);
        values->Compute(edge);
        reductions.Join(*values);
      }
      reductions.Store(i);
    }
  }

  static void OverRows(const ExpressionArgs& args, Registers* values) {
    const EdgeOperand& result = args.problem.code->results[0].value;
    for (int64_t i = 0; i < args.dst.rows; ++i) {
      EdgeAt row;
      row.target = i;
      values->Compute(row);
      for (int64_t c = 0; c < result.width; ++c)
        args.dst.row(i)[c] = ReferenceEpilogue(args.epilogue, values->At(result, c), i, c);
    }
  }
};

}  // namespace

std::unique_ptr<const ExpressionKernel> MakeReferenceExpression() { return std::make_unique<ReferenceExpression>(); }

}  // namespace vicinal::internal
