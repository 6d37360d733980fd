// SPDX-License-Identifier: Apache-2.0
// Row-wise work: affine maps, norms, gathers, readouts, gates, 16-bit rows ("simd_rows").
//
// Idea: one read, one write, everything between in registers. Statistics are in double precision, which memory traffic
// hides.
//
// When it wins: always over the reference; all kinds are bound by memory.
//
// Bytes moved: rows * width * 4 read and written, and as many read for each further operand. Norms over a graph read
// three times (mean, deviation, result).
//
// Determinism: statistics over a segment are sums of blocks of kNormBlock rows in block order, in any thread, so the
// bits do not depend on the number of threads. Readouts add a segment's rows in order, in fixed blocks.
//
// Source: definitions of PyTorch and PyTorch Geometric; the two-pass variance is the textbook one.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "engine/kernels/cpu/kernels.h"
#include "engine/kernels/cpu/segment_order.h"
#include "engine/kernels/cpu/work.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/rowwise_simd.cc"
#include "engine/kernels/cpu/simd_targets.h"
#include "hwy/foreach_target.h"
//
#include "engine/kernels/cpu/gather_rows-inl.h"
#include "engine/kernels/cpu/to_sixteen_bits-inl.h"

#ifndef VICINAL_ENGINE_KERNELS_CPU_ROWWISE_ONCE_
#define VICINAL_ENGINE_KERNELS_CPU_ROWWISE_ONCE_
namespace vicinal::internal {
inline constexpr int64_t kNormBlock = 256;
}  // namespace vicinal::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

VICINAL_INLINE VF Affine(const RowwiseArgs& args, VF x, int64_t col, int64_t count) {
  const Floats d;
  const VF shift = args.shift != nullptr ? LoadSome(args.shift + col, count) : hn::Zero(d);
  return args.scale != nullptr ? hn::MulAdd(x, LoadSome(args.scale + col, count), shift) : hn::Add(x, shift);
}

VICINAL_INLINE void Store(const RowwiseArgs& args, VF x, int64_t row, int64_t col, int64_t count) {
  StoreSome(Finish(x, args.epilogue, row, col, count), args.dst.row(row) + col, count);
}

HWY_NOINLINE void AddRows(const RowwiseArgs& args, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t c = 0; c < args.dst.cols; c += kLanes) {
      const int64_t count = args.dst.cols - c;
      Store(args, Affine(args, LoadSome(args.a.row(i) + c, count), c, count), i, c, count);
    }
  }
}

HWY_NOINLINE void MaxRows(const RowwiseArgs& args, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t c = 0; c < args.dst.cols; c += kLanes) {
      const int64_t count = args.dst.cols - c;
      const VF a = LoadSome(args.a.row(i) + c, count), b = LoadSome(args.b.row(i) + c, count);
      Store(args, ExtremeOf<Reduce::kMax>(a, b), i, c, count);
    }
  }
}

HWY_NOINLINE void MultiplyRows(const RowwiseArgs& args, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t c = 0; c < args.dst.cols; c += kLanes) {
      const int64_t count = args.dst.cols - c;
      const VF a = LoadSome(args.a.row(i) + c, count), b = LoadSome(args.b.row(i) + c, count);
      Store(args, hn::Mul(a, b), i, c, count);
    }
  }
}

// The largest element of a row; unspecified if one is NaN.
VICINAL_INLINE VF LargestOf(const float* row, int64_t cols) {
  const Floats d;
  VF most = hn::Set(d, row[0]);
  for (int64_t c = 0; c < cols; c += kLanes) {
    const VF x = LoadSome(row + c, cols - c);
    most = hn::Max(most, cols - c < kLanes ? hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(cols - c)), x, most) : x);
  }
  return hn::MaxOfLanes(d, most);
}

// A NaN makes the sum and thereby the row NaN. Every element is read before it is stored.
template <bool kLogarithm>
HWY_NOINLINE void SoftmaxRows(const RowwiseArgs& args, int64_t begin, int64_t end) {
  const Floats d;
  const int64_t cols = args.dst.cols;
  if (cols == 0) return;
  for (int64_t i = begin; i < end; ++i) {
    const float* row = args.a.row(i);
    const VF most = LargestOf(row, cols);
    VF sum = hn::Zero(d);
    for (int64_t c = 0; c < cols; c += kLanes) {
      const int64_t count = cols - c;
      VF e = Exp(hn::Sub(LoadSome(row + c, count), most));
      if (count < kLanes) e = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(count)), e);
      sum = hn::Add(sum, e);
    }
    sum = hn::SumOfLanes(d, sum);
    const VF logarithm = hn::Set(d, kLogarithm ? std::log(hn::GetLane(sum)) : 0.0f);
    for (int64_t c = 0; c < cols; c += kLanes) {
      const int64_t count = cols - c;
      const VF x = hn::Sub(LoadSome(row + c, count), most);
      StoreSome(kLogarithm ? hn::Sub(x, logarithm) : hn::Div(Exp(x), sum), args.dst.row(i) + c, count);
    }
  }
}

// Sum over all elements of rows [begin, end) of x, or of (x - mean)^2, in double precision.
#if HWY_TARGET == HWY_SCALAR
template <bool kSquares>
double BlockSum(ConstMatrixView a, int64_t begin, int64_t end, double mean) {
  double sum = 0;
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t c = 0; c < a.cols; ++c) sum += kSquares ? (a.row(i)[c] - mean) * (a.row(i)[c] - mean) : a.row(i)[c];
  }
  return sum;
}
#else
using Doubles = hn::RepartitionToWide<Floats>;
using VDouble = hn::Vec<Doubles>;

// Adds the first `count` lanes of x, which are 0 beyond.
template <bool kSquares>
VICINAL_INLINE VDouble Accumulate(VDouble sum, VF x, VDouble mean, int64_t count) {
  const Doubles dd;
  const hn::Half<Floats> half;
  VDouble low = hn::PromoteTo(dd, hn::LowerHalf(half, x)), high = hn::PromoteTo(dd, hn::UpperHalf(half, x));
  if (!kSquares) return hn::Add(sum, hn::Add(low, high));
  low = hn::Sub(low, mean);
  high = hn::Sub(high, mean);
  if (count < kLanes) {
    const int64_t in_half = kLanes / 2;
    low = hn::IfThenElseZero(hn::FirstN(dd, static_cast<size_t>(Smaller(count, in_half))), low);
    high = hn::IfThenElseZero(hn::FirstN(dd, static_cast<size_t>(count > in_half ? count - in_half : 0)), high);
  }
  return hn::MulAdd(low, low, hn::MulAdd(high, high, sum));
}

template <bool kSquares>
HWY_NOINLINE double BlockSum(ConstMatrixView a, int64_t begin, int64_t end, double mean) {
  const Doubles dd;
  VDouble sum = hn::Zero(dd);
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t c = 0; c < a.cols; c += kLanes) {
      sum = Accumulate<kSquares>(sum, LoadSome(a.row(i) + c, a.cols - c), hn::Set(dd, mean), a.cols - c);
    }
  }
  return hn::GetLane(hn::SumOfLanes(dd, sum));
}
#endif

// A factor for rows before the division by a norm or deviation. It is 2^-32 if the divisor, or a difference from the
// mean, could overflow float32, otherwise 1. As a power of two, it does not change the bits of the quotient.
inline float FactorFor(double divisor) { return divisor < 0x1p100 ? 1.0f : 0x1p-32f; }

HWY_NOINLINE void NormalizeRows(const RowwiseArgs& args, int64_t begin, int64_t end) {
  const ConstMatrixView a{args.a.data, args.a.rows, args.dst.cols, args.a.stride};
  for (int64_t i = begin; i < end; ++i) {
    const double norm = std::sqrt(BlockSum<true>(a, i, i + 1, 0));
    const float factor = FactorFor(norm);
    const VF by = hn::Set(Floats(), factor);
    const VF divisor = hn::Set(Floats(), static_cast<float>((norm < 1e-12 ? 1e-12 : norm) * factor));
    for (int64_t c = 0; c < a.cols; c += kLanes) {
      StoreSome(hn::Div(hn::Mul(LoadSome(a.row(i) + c, a.cols - c), by), divisor), args.dst.row(i) + c, a.cols - c);
    }
  }
}

// dst = epilogue((a - mean) / divisor * scale + shift) for rows [begin, end).
HWY_NOINLINE void StandardizeRows(const RowwiseArgs& args, int64_t begin, int64_t end, double mean, double divisor) {
  const float factor = FactorFor(divisor);
  const VF f = hn::Set(Floats(), factor), m = hn::Set(Floats(), static_cast<float>(mean) * factor);
  const VF by = hn::Set(Floats(), static_cast<float>(divisor * factor));
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t c = 0; c < args.dst.cols; c += kLanes) {
      const int64_t count = args.dst.cols - c;
      const VF x = hn::Div(hn::Sub(hn::Mul(LoadSome(args.a.row(i) + c, count), f), m), by);
      Store(args, Affine(args, x, c, count), i, c, count);
    }
  }
}

HWY_NOINLINE void LayerNormRows(const RowwiseArgs& args, int64_t begin, int64_t end) {
  const ConstMatrixView a{args.a.data, args.a.rows, args.dst.cols, args.a.stride};
  for (int64_t i = begin; i < end; ++i) {
    const double mean = BlockSum<false>(a, i, i + 1, 0) / static_cast<double>(a.cols);
    const double variance = BlockSum<true>(a, i, i + 1, mean) / static_cast<double>(a.cols);
    StandardizeRows(args, i, i + 1, mean, std::sqrt(variance + args.eps));
  }
}

// Sum over all elements of rows [begin, end), built from blocks in order.
template <bool kSquares>
double SegmentSum(ConstMatrixView a, int64_t begin, int64_t end, double mean) {
  double sum = 0;
  for (int64_t row = begin; row < end; row += kNormBlock)
    sum += BlockSum<kSquares>(a, row, Smaller(end, row + kNormBlock), mean);
  return sum;
}

// The same bits, with blocks in parallel. `blocks` has room for one number per block.
template <bool kSquares>
double ParallelSegmentSum(ConstMatrixView a, int64_t begin, int64_t end, double mean, ThreadPool* pool,
                          double* blocks) {
  const int64_t count = DivideUp(end - begin, kNormBlock);
  ForRows(pool, {nullptr, count, 0, 0.1 * static_cast<double>(kNormBlock * a.cols)},
          [&](int64_t first, int64_t last, int) {
            for (int64_t b = first; b < last; ++b) {
              const int64_t row = begin + b * kNormBlock;
              blocks[b] = BlockSum<kSquares>(a, row, Smaller(end, row + kNormBlock), mean);
            }
          });
  double sum = 0;
  for (int64_t b = 0; b < count; ++b) sum += blocks[b];
  return sum;
}

VICINAL_INLINE double GraphNormDivisor(const RowwiseArgs& args, double variance) {
  return args.batched ? std::sqrt(variance + args.eps) : std::sqrt(variance) + args.eps;
}

// Many segments: one per thread at a time. One segment: its blocks and rows in parallel.
void GraphNorm(const RowwiseArgs& args, ThreadPool* pool, double* blocks) {
  const ConstMatrixView a{args.a.data, args.a.rows, args.dst.cols, args.a.stride};
  const double row_ns = 0.3 * static_cast<double>(a.cols);
  if (args.num_segments == 1) {
    const int64_t begin = args.segments[0], end = args.segments[1];
    const double elements = static_cast<double>(end - begin) * static_cast<double>(a.cols);
    const double mean = ParallelSegmentSum<false>(a, begin, end, 0, pool, blocks) / elements;
    const double divisor =
        GraphNormDivisor(args, ParallelSegmentSum<true>(a, begin, end, mean, pool, blocks) / elements);
    ForRows(pool, {nullptr, end - begin, 0, row_ns}, [&](int64_t first, int64_t last, int) {
      StandardizeRows(args, begin + first, begin + last, mean, divisor);
    });
    return;
  }
  ForRows(pool, {args.segments, args.num_segments, row_ns, 20}, [&](int64_t first, int64_t last, int) {
    for (int64_t g = first; g < last; ++g) {
      const int64_t begin = args.segments[g], end = args.segments[g + 1];
      const double elements = static_cast<double>(end - begin) * static_cast<double>(a.cols);
      const double mean = SegmentSum<false>(a, begin, end, 0) / elements;
      StandardizeRows(args, begin, end, mean, GraphNormDivisor(args, SegmentSum<true>(a, begin, end, mean) / elements));
    }
  });
}

void Readout(const RowwiseArgs& args, ThreadPool* pool) {
  GatherJob job;
  job.row_ptr = args.segments;
  job.src = args.a;
  job.mean = args.problem.reduce == Reduce::kMean;
  job.dst = args.dst;
  job.epilogue = args.epilogue;
  job.pool = pool;
  const auto gather = args.problem.reduce == Reduce::kMax ? &GatherRows<GatherKind<Reduce::kMax, Weights::kNone, false>>
                      : args.problem.reduce == Reduce::kMin
                          ? &GatherRows<GatherKind<Reduce::kMin, Weights::kNone, false>>
                          : &GatherRows<GatherKind<Reduce::kSum, Weights::kNone, false>>;
  const double vectors = static_cast<double>(DivideUp(args.dst.cols, kLanes));
  ForRows(pool, {args.segments, args.num_segments, 0.5 * vectors, 10},
          [&](int64_t begin, int64_t end, int) { gather(job, begin, end); });
}

// Medians of all columns; 0 for a segment without rows.
HWY_NOINLINE void MedianRows(const RowwiseArgs& args, int64_t begin, int64_t end, StopWithin stop) {
  for (int64_t g = begin; g < end; ++g) {
    for (int64_t first = 0; first < args.dst.cols; first += kMedianColumns) {
      const int64_t count = std::min(kMedianColumns, args.dst.cols - first);
      float medians[kMedianColumns] = {};
      if (args.segments[g] < args.segments[g + 1])
        LowerMedians(
            args.a, args.segments[g], args.segments[g + 1], first, count,
            [&stop](int64_t rows) { return stop.Before(rows); }, medians);
      for (int64_t c = 0; c < count; c += kLanes)
        Store(args, LoadSome(medians + c, count - c), g, first + c, count - c);
    }
  }
}

// A pass over the segment for each row of the result.
HWY_NOINLINE void SortSegments(const RowwiseArgs& args, int64_t begin, int64_t end, StopWithin stop) {
  const float zeros[kLanes] = {};
  const int64_t width = args.a.cols;
  for (int64_t g = begin; g < end; ++g) {
    const int64_t rows = args.segments[g + 1] - args.segments[g];
    int64_t row = -1;
    for (int64_t place = 0; place * width < args.dst.cols; ++place) {
      if (stop.Before(rows)) return;
      if (place < rows) row = NextInOrder(args.a, args.segments[g], args.segments[g + 1], row);
      for (int64_t c = 0; c < width; c += kLanes) {
        const int64_t count = width - c;
        const auto x = place < rows ? LoadSome(args.a.row(row) + c, count) : LoadSome(zeros, count);
        Store(args, x, g, place * width + c, count);
      }
    }
  }
}

// Segments cost as many passes over their rows as the kind makes.
void OverSegments(const RowwiseArgs& args, ThreadPool* pool, int64_t passes,
                  void (*rows)(const RowwiseArgs&, int64_t, int64_t, StopWithin)) {
  const double pass_ns = 0.5 * static_cast<double>(DivideUp(args.a.cols, kLanes));
  ForRows(pool, {args.segments, args.num_segments, pass_ns * static_cast<double>(passes), 20},
          [&](int64_t begin, int64_t end, int) { rows(args, begin, end, StopWithin(pool, pass_ns)); });
}

// Rows [begin, end) of dst, starting with the segment of the first.
HWY_NOINLINE void ExpandRows(const RowwiseArgs& args, int64_t begin, int64_t end) {
  const int64_t* const after = std::upper_bound(args.segments, args.segments + args.num_segments + 1, begin);
  int64_t segment = after - args.segments - 1;
  for (int64_t i = begin; i < end; ++i) {
    while (i >= args.segments[segment + 1]) ++segment;
    for (int64_t c = 0; c < args.dst.cols; c += kLanes) {
      const int64_t count = args.dst.cols - c;
      Store(args, LoadSome(args.a.row(segment) + c, count), i, c, count);
    }
  }
}

void GatherRowsByIndex(const RowwiseArgs& args, int64_t begin, int64_t end) {
  if (args.dst.cols == 0) return;
  for (int64_t i = begin; i < end; ++i) {
    std::memcpy(args.dst.row(i), args.a.row(args.index[i]), static_cast<size_t>(args.dst.cols) * sizeof(float));
  }
}

void MakeDense(const RowwiseArgs& args, int64_t begin, int64_t end) {
  const CsrView& sparse = args.sparse;
  if (args.dst.cols == 0) return;
  for (int64_t i = begin; i < end; ++i) {
    float* row = args.dst.row(i);
    std::memset(row, 0, static_cast<size_t>(args.dst.cols) * sizeof(float));
    for (int64_t e = sparse.row_ptr[i]; e < sparse.row_ptr[i + 1]; ++e)
      row[sparse.col[e]] = sparse.value != nullptr ? sparse.value[e] : 1.0f;
  }
}

// sigmoid(scale . [a, b, a - b]) of a row.
VICINAL_INLINE VF GateOf(const RowwiseArgs& args, int64_t row) {
  const Floats d;
  const int64_t width = args.dst.cols;
  const float *of_a = args.scale, *of_b = args.scale + width, *of_difference = args.scale + 2 * width;
  VF sum = hn::Zero(d);
  for (int64_t c = 0; c < width; c += kLanes) {
    const int64_t count = width - c;
    const VF a = LoadSome(args.a.row(row) + c, count), b = LoadSome(args.b.row(row) + c, count);
    sum = hn::MulAdd(LoadSome(of_a + c, count), a, sum);
    sum = hn::MulAdd(LoadSome(of_b + c, count), b, sum);
    sum = hn::MulAdd(LoadSome(of_difference + c, count), hn::Sub(a, b), sum);
  }
  return ActivateRarely(hn::SumOfLanes(d, sum), {ActivationKind::kSigmoid, 0});
}

HWY_NOINLINE void GateRows(const RowwiseArgs& args, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const VF gate = GateOf(args, i), rest = hn::Sub(hn::Set(Floats(), 1.0f), gate);
    for (int64_t c = 0; c < args.dst.cols; c += kLanes) {
      const int64_t count = args.dst.cols - c;
      const VF a = LoadSome(args.a.row(i) + c, count), b = LoadSome(args.b.row(i) + c, count);
      StoreSome(hn::MulAdd(gate, b, hn::Mul(rest, a)), args.dst.row(i) + c, count);
    }
  }
}

template <Storage kStorage>
HWY_NOINLINE void NarrowRows(const RowwiseArgs& args, int64_t begin, int64_t end) {
  const int64_t cols = args.dst16.cols;
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t c = 0; c < cols; c += kLanes) {
      StoreSome16(ToSixteenBits<kStorage>(LoadSome(args.a.row(i) + c, cols - c)), args.dst16.row(i) + c, cols - c);
    }
  }
}

using RowsFunction = void (*)(const RowwiseArgs&, int64_t, int64_t);

void Rowwise(const RowwiseArgs& args, ThreadPool* pool, void* scratch) {
  RowsFunction rows = nullptr;
  switch (args.problem.kind) {
    case RowwiseKind::kAdd:
      rows = &AddRows;
      break;
    case RowwiseKind::kMax:
      rows = &MaxRows;
      break;
    case RowwiseKind::kNormalize:
      rows = &NormalizeRows;
      break;
    case RowwiseKind::kLayerNorm:
      rows = &LayerNormRows;
      break;
    case RowwiseKind::kGatherRows:
      rows = &GatherRowsByIndex;
      break;
    case RowwiseKind::kSparseToDense:
      rows = &MakeDense;
      break;
    case RowwiseKind::kGraphNorm:
      return GraphNorm(args, pool, static_cast<double*>(scratch));
    case RowwiseKind::kReadout:
      return Readout(args, pool);
    case RowwiseKind::kMedian:
      return OverSegments(args, pool, kMedianPasses, &MedianRows);
    case RowwiseKind::kSortRows:
      return OverSegments(args, pool, args.dst.cols / std::max<int64_t>(args.a.cols, 1), &SortSegments);
    case RowwiseKind::kExpand:
      rows = &ExpandRows;
      break;
    case RowwiseKind::kGate:
      rows = &GateRows;
      break;
    case RowwiseKind::kNarrow:
      rows =
          args.problem.storage == Storage::kBfloat16 ? &NarrowRows<Storage::kBfloat16> : &NarrowRows<Storage::kFloat16>;
      break;
    case RowwiseKind::kMultiply:
      rows = &MultiplyRows;
      break;
    case RowwiseKind::kSoftmax:
      rows = &SoftmaxRows<false>;
      break;
    case RowwiseKind::kLogSoftmax:
      rows = &SoftmaxRows<true>;
      break;
  }
  const bool narrow = args.problem.kind == RowwiseKind::kNarrow;
  const int64_t num_rows = narrow ? args.dst16.rows : args.dst.rows, cols = narrow ? args.dst16.cols : args.dst.cols;
  const double row_ns = 3 + 0.15 * static_cast<double>(cols);
  ForRows(pool, {nullptr, num_rows, 0, row_ns}, [&](int64_t begin, int64_t end, int) { rows(args, begin, end); });
}

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vicinal::internal {
namespace {

HWY_EXPORT(Rowwise);

class SimdRowwise final : public RowwiseKernel {
 public:
  std::string_view name() const override { return "simd_rows"; }
  DeviceKind device() const override { return DeviceKind::kCpu; }
  DeclaredOrder declared_order() const override { return {"row_lanes", 1, true}; }
  Refusal WhyUnsupported(const RowwiseProblem& problem) const override {
    if (problem.kind == RowwiseKind::kNarrow && problem.storage == Storage::kFloat32)
      return "narrows to bfloat16 or float16 only";
    return {};
  }
  size_t ScratchBytes(const RowwiseProblem& problem, const KernelConfig&, int) const override {
    if (problem.kind != RowwiseKind::kGraphNorm) return 0;
    return static_cast<size_t>((problem.rows + kNormBlock - 1) / kNormBlock) * sizeof(double);
  }
  Status Run(DeviceContext& context, const RowwiseArgs& args, void* scratch) const override {
    HWY_DYNAMIC_DISPATCH(Rowwise)(args, context.thread_pool(), scratch);
    return OkStatus();
  }
};

}  // namespace

std::unique_ptr<const RowwiseKernel> MakeSimdRowwise() { return std::make_unique<SimdRowwise>(); }

}  // namespace vicinal::internal
#endif  // HWY_ONCE
