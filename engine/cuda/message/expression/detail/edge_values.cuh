// SPDX-License-Identifier: Apache-2.0
// Values of the edges of a tile, some adjacent columns at a time, where they stand or as they are computed: the parts
// that programs are made of. A value has two members. OfEdge(edge) gives a function of columns, for threads that take
// columns of one edge; OfColumns(c, ColumnCount<n>) gives a function of the edge, for threads that take edges of n
// columns, and has loaded what all edges share. An interpreted program stores each value in registers. A compiled one
// nests those that are used once, which then stand in the processor's registers (compile/fuse_program.h). Either way
// the numbers are the same: each depends on its edge and column alone, and each operation is rounded by itself.
#ifndef VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_DETAIL_EDGE_VALUES_CUH_
#define VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_DETAIL_EDGE_VALUES_CUH_

#include <cmath>
#include <cstdint>

#include "engine/cuda/common/epilogue.cuh"
#include "engine/cuda/common/larger.cuh"
#include "engine/cuda/common/pack.cuh"
#include "engine/cuda/message/expression/tile_params.h"
#include "engine/cuda/message/tile_blocks.cuh"

namespace vicinal::cuda {

// The edges of a tile, or the rows of a program over rows, in shared memory.
template <int kTile>
struct ProgramTile {
  static constexpr int kStride = kTileStride<kTile>;
  static constexpr int kWarpEdges = kTile / (kTileThreads / 32);
  float* registers;        // [registers][kStride]; in global memory where shared memory is too small
  const float** features;  // [kTile], of each edge
  int32_t* source;         // [kTile]
  int32_t* target;         // [kTile]
  int32_t* place;          // [kTile], of each edge in its row or piece
  float* weight;           // [kTile]
  int edges;
};

// How many adjacent columns a function of columns is asked for: f(c, ColumnCount<n>()) is a Pack<n>.
template <int kColumns>
struct ColumnCount {};

// Columns of one edge's operand, `step` floats apart.
struct OperandColumns {
  const float* first;
  int64_t step;

  template <int kColumns>
  __device__ __forceinline__ Pack<kColumns> operator()(int c, ColumnCount<kColumns>) const {
    Pack<kColumns> x;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) x.v[i] = first[(c + i) * step];
    return x;
  }
};

// number(i) for each of some columns.
template <int kColumns, class Number>
__device__ __forceinline__ Pack<kColumns> EachOf(const Number& number) {
  Pack<kColumns> x;
#pragma unroll
  for (int i = 0; i < kColumns; ++i) x.v[i] = number(i);
  return x;
}

// What an operand says: a register, rows of nodes, features, the weight, a parameter or a number.
template <int kTile>
struct OperandValue {
  const ExpressionParams& params;
  const ProgramTile<kTile>& tile;
  const TileOperand& operand;

  __device__ OperandColumns OfEdge(int edge) const {
    const int64_t step = operand.width == 1 ? 0 : 1;
    switch (operand.place) {
      case TilePlace::kRegister:
        return {tile.registers + operand.first * tile.kStride + edge, step * tile.kStride};
      case TilePlace::kSource: {
        const RowsOfNodes& rows = params.sources[operand.matrix];
        return {rows.data + tile.source[edge] * rows.stride + operand.first, step};
      }
      case TilePlace::kTarget: {
        const RowsOfNodes& rows = params.targets[operand.matrix];
        return {rows.data + tile.target[edge] * rows.stride + operand.first, step};
      }
      case TilePlace::kFeatures:
        return {tile.features[edge] + operand.first, step};
      case TilePlace::kWeight:
        return {tile.weight + edge, 0};
      case TilePlace::kRow:
        return {operand.row + operand.first, step};
      default:
        return {&operand.number, 0};
    }
  }
};

// Registers, one per column.
template <int kTile>
struct RegisterValue {
  ProgramTile<kTile> tile;
  int32_t first;

  struct Column {
    static constexpr bool kInRegisters = true;
    const float* at;
    __device__ __forceinline__ Pack<1> operator()(int edge) const { return {at[edge]}; }
  };
  __device__ __forceinline__ Column OfColumns(int c, ColumnCount<1>) const {
    return {tile.registers + (first + c) * tile.kStride};
  }
  __device__ __forceinline__ auto OfEdge(int edge) const {
    return OperandColumns{tile.registers + first * tile.kStride + edge, tile.kStride};
  }
};

// Rows of nodes that were kept (Kept) in the place of registers from `first` on, one after the other.
template <int kTile, int kWidth>
struct KeptRows {
  static constexpr int kStep = kWidth + 4;  // floats from row to row; rows begin in different banks
  ProgramTile<kTile> tile;
  int32_t first;

  __device__ __forceinline__ float* Row(int edge) const { return tile.registers + first * tile.kStride + edge * kStep; }
  __device__ __forceinline__ auto OfEdge(int edge) const {
    return [at = Row(edge)]<int kColumns>(int c, ColumnCount<kColumns>) { return LoadPlain<kColumns>(at + c); };
  }
  template <int kColumns>
  __device__ __forceinline__ auto OfColumns(int c, ColumnCount<kColumns>) const {
    return [at = Row(0) + c](int edge) { return LoadPlain<kColumns>(at + edge * kStep); };
  }
};

// Columns from kFirst on of rows of nodes, features, registers or a parameter, or one of them, or the weight or a
// number, in a compiled program. What is constant there is a parameter of the template: behind a pointer, the compiler
// would not see it.
//
// kInPacks: rows of nodes and parameters are aligned to 16 bytes.
template <int kTile, TilePlace kPlace, int kFirst, bool kOneColumn, bool kInPacks>
struct LeafValue {
  static constexpr bool kOfNodes = kPlace == TilePlace::kSource || kPlace == TilePlace::kTarget;
  static constexpr bool kAligned = kInPacks && kFirst % 4 == 0 && (kOfNodes || kPlace == TilePlace::kRow);
  ProgramTile<kTile> tile;
  RowsOfNodes rows;
  const float* row;
  float number;

  __device__ __forceinline__ const float* At(int edge) const {
    if constexpr (kPlace == TilePlace::kRegister) return tile.registers + kFirst * tile.kStride + edge;
    if constexpr (kPlace == TilePlace::kSource) return rows.data + tile.source[edge] * rows.stride + kFirst;
    if constexpr (kPlace == TilePlace::kTarget) return rows.data + tile.target[edge] * rows.stride + kFirst;
    if constexpr (kPlace == TilePlace::kFeatures) return tile.features[edge] + kFirst;
    if constexpr (kPlace == TilePlace::kWeight) return tile.weight + edge;
    return row + kFirst;
  }
  template <int kColumns>
  __device__ __forceinline__ static Pack<kColumns> Load(const float* at) {
    if constexpr (kPlace == TilePlace::kRegister) {
      return EachOf<kColumns>([&](int i) { return at[i * ProgramTile<kTile>::kStride]; });
    } else if constexpr (kAligned) {
      return LoadReadOnly<kColumns>(at);
    } else {
      return EachOf<kColumns>([&](int i) { return __ldg(at + i); });
    }
  }
  __device__ __forceinline__ float Same(int edge) const {
    if constexpr (kPlace == TilePlace::kNumber) return number;
    if constexpr (kPlace == TilePlace::kRegister || kPlace == TilePlace::kWeight) return *At(edge);
    return __ldg(At(edge));
  }
  static constexpr bool kSame = kOneColumn || kPlace == TilePlace::kWeight || kPlace == TilePlace::kNumber;

  __device__ __forceinline__ auto OfEdge(int edge) const {
    if constexpr (kSame) {
      return [x = Same(edge)]<int kColumns>(int, ColumnCount<kColumns>) { return Pack<kColumns>::Filled(x); };
    } else {
      constexpr int kStep = kPlace == TilePlace::kRegister ? ProgramTile<kTile>::kStride : 1;
      return [at = At(edge)]<int kColumns>(int c, ColumnCount<kColumns>) { return Load<kColumns>(at + c * kStep); };
    }
  }
  template <int kColumns>
  __device__ __forceinline__ auto OfColumns(int c, ColumnCount<kColumns>) const {
    constexpr bool kOfEdges = kOfNodes || kPlace == TilePlace::kFeatures || kPlace == TilePlace::kRegister;
    if constexpr (kSame && !kOfEdges && kPlace != TilePlace::kWeight) {
      return [x = Same(0)](int) { return Pack<kColumns>::Filled(x); };
    } else if constexpr (kSame) {
      return [leaf = *this](int edge) { return Pack<kColumns>::Filled(leaf.Same(edge)); };
    } else if constexpr (kPlace == TilePlace::kRow) {
      return [x = Load<kColumns>(row + kFirst + c)](int) { return x; };
    } else if constexpr (kPlace == TilePlace::kRegister) {
      return [at = At(0) + c * ProgramTile<kTile>::kStride](int edge) { return Load<kColumns>(at + edge); };
    } else if constexpr (kPlace == TilePlace::kFeatures) {
      return [features = tile.features, at = kFirst + c](int edge) { return Load<kColumns>(features[edge] + at); };
    } else {
      const int32_t* const nodes = kPlace == TilePlace::kSource ? tile.source : tile.target;
      return [nodes, data = rows.data + kFirst + c, stride = rows.stride](int edge) {
        return Load<kColumns>(data + nodes[edge] * stride);
      };
    }
  }
};

template <TilePlace kPlace, int kMatrix, int kFirst, int kWidth, bool kInPacks, int kTile>
__device__ __forceinline__ LeafValue<kTile, kPlace, kFirst, kWidth == 1, kInPacks> Leaf(const ExpressionParams& params,
                                                                                        const ProgramTile<kTile>& tile,
                                                                                        const float* row,
                                                                                        float number) {
  const RowsOfNodes rows = kPlace == TilePlace::kSource   ? params.sources[kMatrix]
                           : kPlace == TilePlace::kTarget ? params.targets[kMatrix]
                                                          : RowsOfNodes();
  return {tile, rows, row, number};
}

// Rows of nodes, kept as they are read. For readers that take each column of an edge once.
template <int kTile, int kWidth, class A>
struct Kept {
  KeptRows<kTile, kWidth> rows;
  A a;

  __device__ __forceinline__ auto OfEdge(int edge) const {
    return [of_edge = a.OfEdge(edge), to = rows.Row(edge)]<int kColumns>(int c, ColumnCount<kColumns> count) {
      const Pack<kColumns> x = of_edge(c, count);
      StorePack(to + c, x);
      return x;
    };
  }
};
template <int kWidth, int kTile, class A>
__device__ __forceinline__ Kept<kTile, kWidth, A> Keeping(const ProgramTile<kTile>& tile, int first, const A& a) {
  return {{tile, first}, a};
}

template <TileOp kOp>
struct OpTag {};

// One number of an operation column by column.
template <TileOp kOp>
__device__ __forceinline__ float Combine(float a, float b) {
  if constexpr (kOp == TileOp::kAdd) return a + b;
  if constexpr (kOp == TileOp::kSubtract) return a - b;
  if constexpr (kOp == TileOp::kMultiply) return a * b;
  if constexpr (kOp == TileOp::kDivide) return __fdiv_rn(a, b);
  if constexpr (kOp == TileOp::kMin) return -LargerOf(-a, -b);
  if constexpr (kOp == TileOp::kMax) return LargerOf(a, b);
  if constexpr (kOp == TileOp::kLog) return logf(a);
  if constexpr (kOp == TileOp::kAbs) return fabsf(a);
  return a;
}

// activation(a op b)
template <TileOp kOp, class A, class B>
struct Combined {
  A a;
  B b;
  Activation activation;

  template <int kColumns>
  __device__ __forceinline__ static Pack<kColumns> Of(const Activation& activation, const Pack<kColumns>& x,
                                                      const Pack<kColumns>& y) {
    return EachOf<kColumns>([&](int i) { return Activate(activation, Combine<kOp>(x.v[i], y.v[i])); });
  }
  __device__ __forceinline__ auto OfEdge(int edge) const {
    return [first = a.OfEdge(edge), second = b.OfEdge(edge), activation = activation]<int kColumns>(
               int c, ColumnCount<kColumns> count) { return Of(activation, first(c, count), second(c, count)); };
  }
  template <int kColumns>
  __device__ __forceinline__ auto OfColumns(int c, ColumnCount<kColumns> count) const {
    return [first = a.OfColumns(c, count), second = b.OfColumns(c, count), activation = activation](int edge) {
      return Of(activation, first(edge), second(edge));
    };
  }
};

// Each column of a `times` times.
template <class A>
struct Repeated {
  A a;
  int times;
  Activation activation;

  __device__ __forceinline__ auto OfEdge(int edge) const {
    return
        [first = a.OfEdge(edge), times = times, activation = activation]<int kColumns>(int c, ColumnCount<kColumns>) {
          return EachOf<kColumns>(
              [&](int i) { return Activate(activation, first(Column(c, i, times), ColumnCount<1>()).v[0]); });
        };
  }
  template <int kColumns>
  __device__ __forceinline__ auto OfColumns(int c, ColumnCount<kColumns>) const {
    return [a = a, c, times = times, activation = activation](int edge) {
      return EachOf<kColumns>(
          [&](int i) { return Activate(activation, a.OfColumns(Column(c, i, times), ColumnCount<1>())(edge).v[0]); });
    };
  }

 private:
  // Of column c + i, where c is 0 or follows whole packs: so that the compiler sees where all of a pack read one.
  __device__ __forceinline__ static int Column(int c, int i, int times) {
    return times % 4 == 0 ? c / times : (c + i) / times;
  }
};

// A product of few inputs: activation(a W^T + bias), rounded as MultiplyTile does.
template <int kInputs, class A>
struct NarrowProduct {
  static_assert(kInputs <= kFoldInputs);
  A a;
  const float* weight;  // W^T [kInputs, *], rows `stride` apart
  int64_t stride;
  const float* bias;  // or null
  Activation activation;

  template <int kColumns>
  struct Weights {
    Pack<kColumns> w[kInputs], bias;
  };
  template <int kColumns>
  __device__ __forceinline__ Weights<kColumns> WeightsOf(int c) const {
    Weights<kColumns> weights;
#pragma unroll
    for (int k = 0; k < kInputs; ++k) weights.w[k] = LoadReadOnly<kColumns>(weight + k * stride + c);
    weights.bias = EachOf<kColumns>([&](int i) { return bias != nullptr ? __ldg(bias + c + i) : 0.0f; });
    return weights;
  }
  template <int kColumns, class Inputs>
  __device__ __forceinline__ static Pack<kColumns> Numbers(const Weights<kColumns>& weights,
                                                           const Activation& activation, const Inputs& inputs) {
    Pack<kColumns> sum = Pack<kColumns>::Filled(0.0f);
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      const float x = inputs(k, ColumnCount<1>()).v[0];
#pragma unroll
      for (int i = 0; i < kColumns; ++i) sum.v[i] = fmaf(x, weights.w[k].v[i], sum.v[i]);
    }
    return EachOf<kColumns>([&](int i) { return Activate(activation, 0.0f + sum.v[i] + weights.bias.v[i]); });
  }
  __device__ __forceinline__ auto OfEdge(int edge) const {
    return [inputs = a.OfEdge(edge), product = *this]<int kColumns>(int c, ColumnCount<kColumns>) {
      return Numbers(product.template WeightsOf<kColumns>(c), product.activation, inputs);
    };
  }
  template <int kColumns>
  __device__ __forceinline__ auto OfColumns(int c, ColumnCount<kColumns>) const {
    return [a = a, activation = activation, weights = WeightsOf<kColumns>(c)](int edge) {
      return Numbers(weights, activation, a.OfEdge(edge));
    };
  }
};

// These nest values in a compiled program.
template <TileOp kOp, class A, class B>
__device__ __forceinline__ Combined<kOp, A, B> Combining(const A& a, const B& b, const Activation& activation) {
  return {a, b, activation};
}
template <class A>
__device__ __forceinline__ Repeated<A> Repeating(const A& a, int times, const Activation& activation) {
  return {a, times, activation};
}
template <int kInputs, class A>
__device__ __forceinline__ NarrowProduct<kInputs, A> Multiplying(const A& a, const TileInstruction& product,
                                                                 const Activation& activation) {
  return {a, product.weight, (product.width + 3) / 4 * 4, product.bias, activation};
}

// The terms of sums over columns.
template <class A>
struct SumTerms {
  A a;
  struct OfOneEdge {
    decltype(a.OfEdge(0)) first;
    template <int kColumns>
    __device__ __forceinline__ float AddTo(float sum, int c, ColumnCount<kColumns> count) const {
      const Pack<kColumns> x = first(c, count);
#pragma unroll
      for (int i = 0; i < kColumns; ++i) sum = x.v[i] + sum;
      return sum;
    }
  };
  __device__ __forceinline__ OfOneEdge OfEdge(int edge) const { return {a.OfEdge(edge)}; }
};
template <class A>
SumTerms(A) -> SumTerms<A>;

template <class A, class B>
struct DotTerms {
  A a;
  B b;
  struct OfOneEdge {
    decltype(a.OfEdge(0)) first;
    decltype(b.OfEdge(0)) second;
    template <int kColumns>
    __device__ __forceinline__ float AddTo(float sum, int c, ColumnCount<kColumns> count) const {
      const Pack<kColumns> x = first(c, count), y = second(c, count);
#pragma unroll
      for (int i = 0; i < kColumns; ++i) sum = fmaf(x.v[i], y.v[i], sum);
      return sum;
    }
  };
  __device__ __forceinline__ OfOneEdge OfEdge(int edge) const { return {a.OfEdge(edge), b.OfEdge(edge)}; }
};
template <class A, class B>
DotTerms(A, B) -> DotTerms<A, B>;

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_DETAIL_EDGE_VALUES_CUH_
