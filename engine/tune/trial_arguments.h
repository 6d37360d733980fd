// SPDX-License-Identifier: Apache-2.0
// The arguments of a trial's runs: matrices of the sizes of the work, filled with one pattern of numbers.
#ifndef VICINAL_ENGINE_TUNE_TRIAL_ARGUMENTS_H_
#define VICINAL_ENGINE_TUNE_TRIAL_ARGUMENTS_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/api/tuning.h"
#include "engine/base/status.h"
#include "engine/device/row_stride.h"
#include "engine/kernels/operations.h"
#include "engine/tune/trial.h"
#include "engine/tune/work.h"

namespace vicinal::internal {

// Matrices up to this total size exist several times.
inline constexpr int64_t kSmallBytes = int64_t{4} << 20, kMiddleBytes = int64_t{64} << 20;
// Upper bound of the bytes that a previous step would leave in the caches.
inline constexpr int64_t kRenewedBytes = int64_t{64} << 20;

// The repeated pattern of all matrices.
class Pattern {
 public:
  Pattern() : values_(kCount) {
    uint64_t state = 1;
    for (float& value : values_) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      value = static_cast<float>(static_cast<int32_t>(state >> 32)) * 0x1p-31f;
      // The upper half twice: both 16-bit halves are also finite, normal numbers.
      const uint32_t upper = std::bit_cast<uint32_t>(value) >> 16;
      value = std::bit_cast<float>(upper << 16 | upper);
    }
  }
  const float* data() const { return values_.data(); }

  static constexpr int64_t kCount = 1 << 16;
  static constexpr int64_t kBytes = kCount * static_cast<int64_t>(sizeof(float));

 private:
  std::vector<float> values_;
};

// Device memory with the same values each time.
class Matrices {
 public:
  Matrices(Device* device, const Pattern& pattern) : device_(device), pattern_(pattern) {}

  StatusOr<float*> Allocate(int64_t count) {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(float));
    VICINAL_ASSIGN_OR_RETURN(Buffer buffer, device_->Allocate(static_cast<size_t>(bytes)));
    for (int64_t done = 0; done < bytes; done += Pattern::kBytes) {
      const int64_t part = std::min(bytes - done, Pattern::kBytes);
      VICINAL_RETURN_IF_ERROR(device_->CopyFromHost(buffer.as<char>() + done, pattern_.data(), part));
    }
    buffers_.push_back(std::move(buffer));
    return buffers_.back().as<float>();
  }
  StatusOr<MatrixView> Matrix(int64_t rows, int64_t cols) {
    VICINAL_ASSIGN_OR_RETURN(float* const data, Allocate(rows * RowStrideFor(cols)));
    return MatrixView{data, rows, cols, RowStrideFor(cols)};
  }

  std::vector<Buffer> Take() { return std::move(buffers_); }

 private:
  Device* device_;
  const Pattern& pattern_;
  std::vector<Buffer> buffers_;
};

// The memory that a run gathers from.
struct Gathered {
  char* data = nullptr;
  int64_t bytes = 0;
};

// The arguments only read it; the trial owns it.
template <class T>
inline Gathered AllOf(BasicMatrixView<const T> matrix) {
  return {reinterpret_cast<char*>(const_cast<T*>(matrix.data)),
          matrix.rows * matrix.stride * static_cast<int64_t>(sizeof(T))};
}

inline std::vector<Gathered> GatheredBy(const AggregateArgs& args) {
  return {args.src16.empty() ? AllOf(args.src) : AllOf(args.src16)};
}
inline std::vector<Gathered> GatheredBy(const AttentionArgs& args) { return {AllOf(args.value)}; }
inline std::vector<Gathered> GatheredBy(const DenseUpdateArgs& args) { return {AllOf(args.src)}; }
inline std::vector<Gathered> GatheredBy(const ExpressionArgs& args) {
  std::vector<Gathered> gathered;
  for (const ConstMatrixView& source : args.sources)
    if (!source.empty()) gathered.push_back(AllOf(source));
  return gathered;
}

inline int64_t ProgramMatrixBytes(const EdgeProgram& program, int64_t rows, int64_t cols, int64_t edges) {
  const ProgramSizes sizes = SizesOf(program);
  int64_t floats = rows * RowStrideFor(program.width()) + edges * program.edge_width;
  for (int32_t i = 0; i < program.sources; ++i) floats += cols * RowStrideFor(sizes.sources[i]);
  for (int32_t i = 0; i < program.targets; ++i) floats += rows * RowStrideFor(sizes.targets[i]);
  return floats * static_cast<int64_t>(sizeof(float));
}

// Upper bound of one turn's matrices.
inline int64_t MatrixBytes(const TrialInput& input, int64_t rows, int64_t cols) {
  const TuningKey& key = input.key;
  if (IsExpression(key)) return ProgramMatrixBytes(*input.program, rows, cols, input.adjacency.nnz);
  const int64_t stride = RowStrideFor(key.width * key.heads), scores = RowStrideFor(key.heads);
  if (IsProduct(key)) {
    const int64_t floats = rows * (stride + RowStrideFor(key.outputs)) + key.outputs;
    return floats * static_cast<int64_t>(sizeof(float));
  }
  int64_t floats = (rows + cols) * stride + cols;
  if (key.operation == "attention") floats += (rows + cols) * std::max(stride, scores) + stride;
  return floats * static_cast<int64_t>(sizeof(float));
}

inline int64_t NumTurns(int64_t bytes) { return bytes <= kSmallBytes ? 3 : bytes <= kMiddleBytes ? 2 : 1; }

inline StatusOr<AggregateArgs> MakeArgs(const TrialInput& input, const AggregateProblem& problem, Matrices* matrices) {
  AggregateArgs args;
  args.problem = problem;
  args.adjacency = input.adjacency;
  if (problem.storage == Storage::kFloat32) {
    VICINAL_ASSIGN_OR_RETURN(args.src, matrices->Matrix(problem.cols, problem.width));
  } else {
    // Two 16-bit elements per float, normal numbers in either storage (Pattern): kernels may have a slower path for
    // non-finite values, which must not be timed.
    const int64_t stride = RowStrideFor(problem.width);
    VICINAL_ASSIGN_OR_RETURN(float* const data, matrices->Allocate((problem.cols * stride + 1) / 2));
    args.src16 = {reinterpret_cast<const uint16_t*>(data), problem.cols, problem.width, stride};
  }
  if (input.key.weights == EdgeWeights::kPerSource) {
    VICINAL_ASSIGN_OR_RETURN(args.src_scale, matrices->Allocate(problem.cols));
  }
  VICINAL_ASSIGN_OR_RETURN(args.dst, matrices->Matrix(problem.rows, problem.width));
  return args;
}

inline StatusOr<AttentionArgs> MakeArgs(const TrialInput& input, const AttentionProblem& problem, Matrices* matrices) {
  AttentionArgs args;
  args.problem = problem;
  args.adjacency = input.adjacency;
  const int64_t columns = problem.heads * problem.head_width;
  VICINAL_ASSIGN_OR_RETURN(args.value, matrices->Matrix(problem.cols, columns));
  if (problem.kind == AttentionKind::kGat) {
    VICINAL_ASSIGN_OR_RETURN(args.score_src, matrices->Matrix(problem.cols, problem.heads));
    VICINAL_ASSIGN_OR_RETURN(args.score_dst, matrices->Matrix(problem.rows, problem.heads));
  } else {
    VICINAL_ASSIGN_OR_RETURN(args.query, matrices->Matrix(problem.rows, columns));
  }
  if (problem.kind == AttentionKind::kGatV2) {
    VICINAL_ASSIGN_OR_RETURN(args.att, matrices->Allocate(columns));
  }
  if (problem.kind == AttentionKind::kDot) {
    VICINAL_ASSIGN_OR_RETURN(args.key, matrices->Matrix(problem.cols, columns));
  }
  args.score_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(problem.head_width)));
  VICINAL_ASSIGN_OR_RETURN(args.dst, matrices->Matrix(problem.rows, problem.concat ? columns : problem.head_width));
  return args;
}

inline StatusOr<DenseUpdateArgs> MakeArgs(const TrialInput& input, const DenseUpdateProblem& problem,
                                          Matrices* matrices) {
  DenseUpdateArgs args;
  args.problem = problem;
  VICINAL_ASSIGN_OR_RETURN(args.src, matrices->Matrix(problem.rows, problem.in_width));
  if (input.key.epilogue) {
    VICINAL_ASSIGN_OR_RETURN(args.epilogue.bias, matrices->Allocate(problem.out_width));
    args.epilogue.activation.kind = ActivationKind::kRelu;
  }
  VICINAL_ASSIGN_OR_RETURN(args.dst, matrices->Matrix(problem.rows, problem.out_width));
  return args;
}

// Without parameters, which each candidate packs for itself.
inline StatusOr<ExpressionArgs> MakeArgs(const TrialInput& input, const ExpressionProblem& problem,
                                         Matrices* matrices) {
  ExpressionArgs args;
  args.problem = problem;
  args.adjacency = input.adjacency;
  const ProgramSizes sizes = SizesOf(*input.program);
  for (int32_t i = 0; i < input.program->sources; ++i) {
    VICINAL_ASSIGN_OR_RETURN(args.sources[i], matrices->Matrix(problem.cols, sizes.sources[i]));
  }
  for (int32_t i = 0; i < input.program->targets; ++i) {
    VICINAL_ASSIGN_OR_RETURN(args.targets[i], matrices->Matrix(problem.rows, sizes.targets[i]));
  }
  if (input.program->edge_width > 0) {
    args.edge.width = input.program->edge_width;
    args.edge.sent = input.adjacency;
    VICINAL_ASSIGN_OR_RETURN(args.edge.values, matrices->Allocate(problem.edges * args.edge.width));
  }
  VICINAL_ASSIGN_OR_RETURN(args.dst, matrices->Matrix(problem.rows, problem.code->width));
  return args;
}

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_TUNE_TRIAL_ARGUMENTS_H_
