// SPDX-License-Identifier: Apache-2.0
// Values of the edges of a tile, column by column, where they stand or as they are computed: the parts that programs
// are made of. A value has two members. OfEdge(edge) gives a function of the column, for threads that take columns of
// one edge; OfColumn(c) gives a function of the edge, for threads that take edges of one column, and has loaded what
// all edges share. An interpreted program stores each value in registers. A compiled one nests those that are used
// once, which then stand in the processor's registers (compile/fuse_program.h). Either way the numbers are the same:
// each depends on its edge and column alone, and each operation is rounded by itself.
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

// Columns of one edge's operand, `step` floats apart.
struct OperandColumns {
  const float* first;
  int64_t step;

  __device__ float operator()(int64_t c) const { return first[c * step]; }
};

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
    __device__ float operator()(int edge) const { return at[edge]; }
  };
  __device__ Column OfColumn(int c) const { return {tile.registers + (first + c) * tile.kStride}; }
  __device__ __forceinline__ auto OfEdge(int edge) const {
    return OperandColumns{tile.registers + first * tile.kStride + edge, tile.kStride};
  }
};

// Columns from kFirst on of rows of nodes, features, registers or a parameter, or one of them, or the weight or a
// number, in a compiled program. What is constant there is a parameter of the template: behind a pointer, the compiler
// would not see it.
template <int kTile, TilePlace kPlace, int kFirst, bool kOneColumn>
struct LeafValue {
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
  __device__ __forceinline__ static float Load(const float* at) {
    if constexpr (kPlace == TilePlace::kRegister || kPlace == TilePlace::kWeight) return *at;
    return __ldg(at);
  }
  __device__ __forceinline__ auto OfEdge(int edge) const {
    if constexpr (kPlace == TilePlace::kNumber) {
      return [x = number](int) { return x; };
    } else if constexpr (kOneColumn || kPlace == TilePlace::kWeight) {
      return [x = Load(At(edge))](int) { return x; };
    } else {
      constexpr int kStep = kPlace == TilePlace::kRegister ? ProgramTile<kTile>::kStride : 1;
      return [at = At(edge)](int c) { return Load(at + c * kStep); };
    }
  }
  __device__ __forceinline__ auto OfColumn(int c) const {
    const int column = kOneColumn ? 0 : c;
    if constexpr (kPlace == TilePlace::kNumber) {
      return [x = number](int) { return x; };
    } else if constexpr (kPlace == TilePlace::kRow) {
      return [x = Load(row + kFirst + column)](int) { return x; };
    } else if constexpr (kPlace == TilePlace::kRegister) {
      return [at = At(0) + column * ProgramTile<kTile>::kStride](int edge) { return at[edge]; };
    } else if constexpr (kPlace == TilePlace::kWeight) {
      return [at = tile.weight](int edge) { return at[edge]; };
    } else if constexpr (kPlace == TilePlace::kFeatures) {
      return [features = tile.features, at = kFirst + column](int edge) { return Load(features[edge] + at); };
    } else {
      const int32_t* const nodes = kPlace == TilePlace::kSource ? tile.source : tile.target;
      return [nodes, data = rows.data + kFirst + column, stride = rows.stride](int edge) {
        return Load(data + nodes[edge] * stride);
      };
    }
  }
};

template <TilePlace kPlace, int kMatrix, int kFirst, int kWidth, int kTile>
__device__ __forceinline__ LeafValue<kTile, kPlace, kFirst, kWidth == 1> Leaf(const ExpressionParams& params,
                                                                              const ProgramTile<kTile>& tile,
                                                                              const float* row, float number) {
  const RowsOfNodes rows = kPlace == TilePlace::kSource   ? params.sources[kMatrix]
                           : kPlace == TilePlace::kTarget ? params.targets[kMatrix]
                                                          : RowsOfNodes();
  return {tile, rows, row, number};
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

  __device__ __forceinline__ auto OfEdge(int edge) const {
    return [first = a.OfEdge(edge), second = b.OfEdge(edge), activation = activation](int c) {
      return Activate(activation, Combine<kOp>(first(c), second(c)));
    };
  }
  __device__ __forceinline__ auto OfColumn(int c) const {
    return [first = a.OfColumn(c), second = b.OfColumn(c), activation = activation](int edge) {
      return Activate(activation, Combine<kOp>(first(edge), second(edge)));
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
    return [first = a.OfEdge(edge), times = times, activation = activation](int c) {
      return Activate(activation, first(c / times));
    };
  }
  __device__ __forceinline__ auto OfColumn(int c) const {
    return [first = a.OfColumn(c / times), activation = activation](int edge) {
      return Activate(activation, first(edge));
    };
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

  struct Weights {
    float w[kInputs], bias;
  };
  __device__ __forceinline__ Weights WeightsOf(int c) const {
    Weights weights;
#pragma unroll
    for (int k = 0; k < kInputs; ++k) weights.w[k] = __ldg(weight + k * stride + c);
    weights.bias = bias != nullptr ? __ldg(bias + c) : 0.0f;
    return weights;
  }
  template <class Inputs>
  __device__ __forceinline__ static float Number(const Weights& weights, const Activation& activation,
                                                 const Inputs& inputs) {
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < kInputs; ++k) sum = fmaf(inputs(k), weights.w[k], sum);
    return Activate(activation, 0.0f + sum + weights.bias);
  }
  __device__ __forceinline__ auto OfEdge(int edge) const {
    return [inputs = a.OfEdge(edge), product = *this](int c) {
      return Number(product.WeightsOf(c), product.activation, inputs);
    };
  }
  __device__ __forceinline__ auto OfColumn(int c) const {
    return [a = a, activation = activation, weights = WeightsOf(c)](int edge) {
      return Number(weights, activation, a.OfEdge(edge));
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
    __device__ __forceinline__ float AddTo(float sum, int c) const { return first(c) + sum; }
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
    __device__ __forceinline__ float AddTo(float sum, int c) const { return fmaf(first(c), second(c), sum); }
  };
  __device__ __forceinline__ OfOneEdge OfEdge(int edge) const { return {a.OfEdge(edge), b.OfEdge(edge)}; }
};
template <class A, class B>
DotTerms(A, B) -> DotTerms<A, B>;

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_MESSAGE_EXPRESSION_DETAIL_EDGE_VALUES_CUH_
