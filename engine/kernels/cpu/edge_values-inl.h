// SPDX-License-Identifier: Apache-2.0
// One tile of edges through the instructions of an EdgeCode: loops over edges and, inside, over columns with vectors.
// Narrow values (up to four columns) are packed, so their loops run across edges. Every number depends on its own edge
// alone. Compiled once per instruction set.
#if defined(VICINAL_ENGINE_KERNELS_CPU_EDGE_VALUES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VICINAL_ENGINE_KERNELS_CPU_EDGE_VALUES_INL_H_
#undef VICINAL_ENGINE_KERNELS_CPU_EDGE_VALUES_INL_H_
#else
#define VICINAL_ENGINE_KERNELS_CPU_EDGE_VALUES_INL_H_
#endif

#include "engine/kernels/cpu/expression_tiles.h"
#include "engine/kernels/cpu/lane_sums-inl.h"
#include "engine/kernels/cpu/message_layers-inl.h"
#include "engine/kernels/expression.h"
#include "hwy/contrib/math/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

// The edges of a tile. Without edges, "sources" and "targets" are the rows themselves.
struct EdgeTile {
  int64_t edges = 0;
  int64_t self[kMostTileEdges];     // 0, 1, 2 ...
  int64_t nowhere[kMostTileEdges];  // zeros
  int64_t source[kMostTileEdges];
  int64_t target[kMostTileEdges];
  float weight[kMostTileEdges];
  const float* features[kMostTileEdges];
};

// The rows of an operand: that of edge e begins at base + index[e] * stride.
struct OperandRows {
  const float* base = nullptr;
  const int64_t* index = nullptr;
  int64_t stride = 0;

  VICINAL_INLINE const float* operator[](int64_t e) const { return base + index[e] * stride; }
};

struct AddOp {
  static VICINAL_INLINE VF Of(VF a, VF b) { return hn::Add(a, b); }
};
struct SubtractOp {
  static VICINAL_INLINE VF Of(VF a, VF b) { return hn::Sub(a, b); }
};
struct MultiplyOp {
  static VICINAL_INLINE VF Of(VF a, VF b) { return hn::Mul(a, b); }
};
struct DivideOp {
  static VICINAL_INLINE VF Of(VF a, VF b) { return hn::Div(a, b); }
};
struct MinOp {
  static VICINAL_INLINE VF Of(VF a, VF b) { return ExtremeOf<Reduce::kMin>(a, b); }
};
struct MaxOp {
  static VICINAL_INLINE VF Of(VF a, VF b) { return ExtremeOf<Reduce::kMax>(a, b); }
};

// log x: -infinity at 0, NaN below. Out of line, as it is long.
static HWY_NOINLINE HWY_MAYBE_UNUSED VF Logarithm(VF x) {
  const Floats d;
  const VF zero = hn::Zero(d), infinity = hn::Set(d, HUGE_VALF);
  VF y = hn::Log(d, x);
  y = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), y);
  y = hn::IfThenElse(hn::Eq(x, infinity), infinity, y);
  y = hn::IfThenElse(hn::Lt(x, zero), hn::NaN(d), y);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

class EdgeValues {
 public:
  EdgeValues(const ExpressionArgs& args, const TileSizes& sizes, float* registers)
      : args_(args), sizes_(sizes), registers_(registers) {
    for (int64_t e = 0; e < kMostTileEdges; ++e) tile.self[e] = e, tile.nowhere[e] = 0;
  }

  EdgeTile tile;

  // REQUIRES: tile is set, to at most sizes.edges edges.
  void Compute() {
    for (first_ = 0; first_ < tile.edges; first_ += sizes_.pass) {
      edges_ = Smaller(sizes_.pass, tile.edges - first_);
      for (const EdgeInstruction& instruction : args_.problem.code->instructions) Execute(instruction);
    }
  }

  VICINAL_INLINE OperandRows RowsOf(const EdgeOperand& operand) const {
    switch (operand.place) {
      case EdgePlace::kRegister:
        return {Register(operand), tile.self, operand.stride};
      case EdgePlace::kSource: {
        const ConstMatrixView& view = args_.sources[operand.index];
        return {view.data + operand.first, tile.source, view.stride};
      }
      case EdgePlace::kTarget: {
        const ConstMatrixView& view = args_.targets[operand.index];
        return {view.data + operand.first, tile.target, view.stride};
      }
      case EdgePlace::kRow:
        return {static_cast<const float*>((*args_.parameters)[operand.index]) + operand.first, tile.nowhere, 0};
      case EdgePlace::kWeight:
        return {tile.weight, tile.self, 1};
      default:
        return {&operand.number, tile.nowhere, 0};
    }
  }

  VICINAL_INLINE float* Register(const EdgeOperand& operand) const {
    return registers_ + operand.offset * sizes_.edges + operand.first;
  }

 private:
  // The row of a register of the first edge of this pass.
  VICINAL_INLINE float* First(const EdgeOperand& operand) const { return Register(operand) + first_ * operand.stride; }
  // The rows of an operand from the first edge of this pass on.
  VICINAL_INLINE OperandRows PassRows(const EdgeOperand& operand) const {
    OperandRows rows = RowsOf(operand);
    rows.index += first_;
    return rows;
  }
  // Where rows that lie one after the other begin.
  VICINAL_INLINE const float* FlatRows(const EdgeOperand& operand) const {
    return IsOne(operand) ? &operand.number : First(operand);
  }

  HWY_NOINLINE void Execute(const EdgeInstruction& i) {
    switch (i.op) {
      case EdgeOp::kAdd:
        return Binary<AddOp>(i);
      case EdgeOp::kSubtract:
        return Binary<SubtractOp>(i);
      case EdgeOp::kMultiply:
        return Binary<MultiplyOp>(i);
      case EdgeOp::kDivide:
        return Binary<DivideOp>(i);
      case EdgeOp::kMin:
        return Binary<MinOp>(i);
      case EdgeOp::kMax:
        return Binary<MaxOp>(i);
      case EdgeOp::kLog:
        return Unary(i, [](VF x) { return Logarithm(x); });
      case EdgeOp::kAbs:
        return Unary(i, [](VF x) { return hn::Abs(x); });
      case EdgeOp::kActivation:
        return Unary(i, [](VF x) { return x; });
      case EdgeOp::kLinear:
        return Linear(i);
      case EdgeOp::kDot:
      case EdgeOp::kSum:
        return SumParts(i);
      case EdgeOp::kRepeat:
        return Repeat(i);
      default:
        return Copy(i);
    }
  }

  // Whether the rows of an operand lie one after the other, `width` columns each.
  static VICINAL_INLINE bool IsPacked(const EdgeOperand& operand, int64_t width) {
    return operand.place == EdgePlace::kRegister && operand.width == width && operand.stride == width;
  }
  static VICINAL_INLINE bool IsOne(const EdgeOperand& operand) { return operand.place == EdgePlace::kNumber; }

  template <class Op>
  VICINAL_INLINE void Binary(const EdgeInstruction& i) {
    const int64_t width = i.to.width;
    if (i.to.stride == width && (IsPacked(i.a, width) || IsOne(i.a)) && (IsPacked(i.b, width) || IsOne(i.b)))
      return Flat<Op>(i);
    if (i.a.width == 1 && width > 1) return Rows<Op, true, false>(i);
    if (i.b.width == 1 && width > 1) return Rows<Op, false, true>(i);
    Rows<Op, false, false>(i);
  }

  template <class Op>
  HWY_NOINLINE void Flat(const EdgeInstruction& i) {
    const int64_t count = edges_ * i.to.width;
    const float *const a = FlatRows(i.a), *const b = FlatRows(i.b);
    float* const to = First(i.to);
    const bool one_a = IsOne(i.a), one_b = IsOne(i.b);
    const VF all_a = hn::Set(Floats(), *a), all_b = hn::Set(Floats(), *b);
    for (int64_t k = 0; k < count; k += kLanes) {
      const VF x = one_a ? all_a : LoadSome(a + k, count - k), y = one_b ? all_b : LoadSome(b + k, count - k);
      StoreSome(Activate(Op::Of(x, y), i.activation), to + k, count - k);
    }
  }

  template <class Op, bool kOneA, bool kOneB>
  HWY_NOINLINE void Rows(const EdgeInstruction& i) {
    const OperandRows rows_a = PassRows(i.a), rows_b = PassRows(i.b);
    const int64_t width = i.to.width, stride = i.to.stride;
    float* to = First(i.to);
    for (int64_t e = 0; e < edges_; ++e, to += stride) {
      const float *const a = rows_a[e], *const b = rows_b[e];
      const VF all_a = hn::Set(Floats(), *a), all_b = hn::Set(Floats(), *b);
      for (int64_t c = 0; c < width; c += kLanes) {
        const VF x = kOneA ? all_a : LoadSome(a + c, width - c), y = kOneB ? all_b : LoadSome(b + c, width - c);
        StoreSome(Activate(Op::Of(x, y), i.activation), to + c, width - c);
      }
    }
  }

  template <class F>
  VICINAL_INLINE void Unary(const EdgeInstruction& i, const F& f) {
    const OperandRows rows = PassRows(i.a);
    float* to = First(i.to);
    int64_t edges = edges_, width = i.to.width;
    // Packed rows are one long row.
    if (i.to.stride == width && IsPacked(i.a, width)) width *= edges, edges = 1;
    for (int64_t e = 0; e < edges; ++e, to += i.to.stride) {
      const float* const a = rows[e];
      for (int64_t c = 0; c < width; c += kLanes)
        StoreSome(Activate(f(LoadSome(a + c, width - c)), i.activation), to + c, width - c);
    }
  }

  HWY_NOINLINE void Copy(const EdgeInstruction& i) {
    const bool featured = i.a.place == EdgePlace::kFeatures;
    const OperandRows rows = PassRows(i.a);
    const int64_t width = i.to.width;
    float* to = First(i.to);
    for (int64_t e = 0; e < edges_; ++e, to += i.to.stride) {
      const float* const a = featured ? tile.features[first_ + e] + i.a.first : rows[e];
      for (int64_t c = 0; c < width; c += kLanes)
        StoreSome(Activate(LoadSome(a + c, width - c), i.activation), to + c, width - c);
    }
  }

  // a W^T + b. Few outputs are sums over columns; more are panels of 16, as in message MLPs.
  HWY_NOINLINE void Linear(const EdgeInstruction& i) {
    const float* const weight = static_cast<const float*>((*args_.parameters)[i.weight]);
    const float* const bias = i.bias >= 0 ? static_cast<const float*>((*args_.parameters)[i.bias]) : nullptr;
    if (i.to.width > 4) {
      return ApplyLayer(
          {First(i.a), First(i.to), i.a.stride, i.to.stride, i.a.width, i.to.width, {weight, bias, i.activation}},
          edges_);
    }
    const OperandRows rows = PassRows(i.a);
    LaneSums sums;
    for (int64_t e = 0; e < edges_; ++e) {
      for (int64_t h = 0; h < i.to.width; ++h)
        sums.Add(Products(rows[e], weight + h * i.a.width, i.a.width), First(i.to) + e * i.to.stride + h);
    }
    sums.Flush();
    if (bias == nullptr && i.activation.kind == ActivationKind::kNone) return;
    for (int64_t e = 0; e < edges_; ++e) {
      float* const to = First(i.to) + e * i.to.stride;
      VF x = LoadSome(to, i.to.width);
      if (bias != nullptr) x = hn::Add(x, LoadSome(bias, i.to.width));
      StoreSome(Activate(x, i.activation), to, i.to.width);
    }
  }

  HWY_NOINLINE void SumParts(const EdgeInstruction& i) {
    const OperandRows rows = PassRows(i.a), others = PassRows(i.b);
    const int64_t parts = i.to.width, width = i.a.width / parts;
    LaneSums sums;
    for (int64_t e = 0; e < edges_; ++e) {
      float* const to = First(i.to) + e * i.to.stride;
      for (int64_t k = 0; k < parts; ++k) {
        const float* const a = rows[e] + k * width;
        sums.Add(i.op == EdgeOp::kDot ? Products(a, others[e] + k * width, width) : Terms(a, width), to + k);
      }
    }
    sums.Flush();
    if (i.activation.kind == ActivationKind::kNone) return;
    for (int64_t e = 0; e < edges_; ++e) {
      float* const to = First(i.to) + e * i.to.stride;
      for (int64_t c = 0; c < parts; c += kLanes)
        StoreSome(Activate(LoadSome(to + c, parts - c), i.activation), to + c, parts - c);
    }
  }

  HWY_NOINLINE void Repeat(const EdgeInstruction& i) {
    const OperandRows rows = PassRows(i.a);
    const int64_t times = i.to.width / i.a.width;
    float* to = First(i.to);
    for (int64_t e = 0; e < edges_; ++e, to += i.to.stride) {
      const float* const a = rows[e];
      for (int64_t k = 0; k < i.a.width; ++k) {
        const VF x = Activate(hn::Set(Floats(), a[k]), i.activation);
        for (int64_t c = 0; c < times; c += kLanes) StoreSome(x, to + k * times + c, times - c);
      }
    }
  }

  static VICINAL_INLINE VF Products(const float* a, const float* b, int64_t width) {
    VF sum = hn::Zero(Floats());
    for (int64_t c = 0; c < width; c += kLanes)
      sum = hn::MulAdd(LoadSome(a + c, width - c), LoadSome(b + c, width - c), sum);
    return sum;
  }
  static VICINAL_INLINE VF Terms(const float* a, int64_t width) {
    VF sum = hn::Zero(Floats());
    for (int64_t c = 0; c < width; c += kLanes) sum = hn::Add(LoadSome(a + c, width - c), sum);
    return sum;
  }

  const ExpressionArgs& args_;
  const TileSizes sizes_;
  float* const registers_;         // [register_floats, sizes.edges]
  int64_t first_ = 0, edges_ = 0;  // of this pass
};

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // VICINAL_ENGINE_KERNELS_CPU_EDGE_VALUES_INL_H_
