// SPDX-License-Identifier: Apache-2.0
// Idea: rows are taken in chunks whose exponents fit the L1 cache. All exponentials of a chunk are one loop over an
// array without gaps, so that models with few classes fill the vectors, too; only the sums and the choice of the top
// classes go row by row. Short rows are ranked by counting instead of sorting. Scores and probabilities are converted
// from the chunk's doubles into the reply.
//
// A vector's lanes do not interact, and the last vector of a chunk is computed as a whole, so a row's bits do not
// depend on its place.
//
// Cost: 1.4 to 5 ns per logit on one core with AVX-512 (bench/results/replies_cpu.json), where std::exp and
// std::partial_sort took 7 to 25.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "engine/base/check.h"
#include "server/handlers/classify.h"

// The other sets bring nothing for double precision.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/handlers/classify_simd.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

#ifndef VICINAL_SERVER_HANDLERS_CLASSIFY_ONCE_
#define VICINAL_SERVER_HANDLERS_CLASSIFY_ONCE_
namespace vicinal::server::internal {

// Doubles of a chunk: 16 KiB.
inline constexpr int64_t kChunk = 2048;
// Room after a chunk for the rest of its last vector.
inline constexpr int64_t kRoom = 64;
// Rows of up to so many classes are ranked by counting, without branches that nobody can predict.
inline constexpr int64_t kCounted = 48;
// In longer rows, up to this k the top classes are kept sorted while a row is read; beyond, partial_sort is faster.
inline constexpr int64_t kFewTop = 16;

inline int64_t RowsOfChunk(int64_t classes) { return std::max<int64_t>(1, kChunk / std::max<int64_t>(1, classes)); }

// Memory of one thread, which works on rows one chunk after the other: no more than the job's rows need, since for the
// few of a small query filling a whole chunk with zeros cost more than the rest.
struct ClassScratch {
  explicit ClassScratch(const ClassRows& job) : ClassScratch(job, std::min(job.rows, RowsOfChunk(job.classes))) {}
  ClassScratch(const ClassRows& job, int64_t rows)
      : values(static_cast<size_t>(rows * job.classes + kRoom)),
        largest(static_cast<size_t>(rows)),
        order(static_cast<size_t>(job.top_k > kFewTop ? job.classes : 0)) {}
  std::vector<double> values;
  std::vector<float> largest;  // logit of each row
  std::vector<int32_t> order;
};

// What is subtracted from a row's logits, so that none overflows.
inline float Shift(float largest) { return std::isfinite(largest) ? largest : 0.0f; }

// Whether logit x ranks before y wherever their classes are.
inline bool IsLarger(float x, float y) { return x > y || (std::isnan(y) && !std::isnan(x)); }

// The first k classes, while few: insertion into a sorted list. Classes come in rising order, so equal ones stay so.
inline void InsertTop(const float* row, int64_t classes, int64_t k, int32_t* top) {
  int64_t held = 0;
  for (int64_t c = 0; c < classes; ++c) {
    if (held == k && !IsLarger(row[c], row[top[k - 1]])) continue;
    int64_t at = held < k ? held++ : k - 1;
    for (; at > 0 && IsLarger(row[c], row[top[at - 1]]); --at) top[at] = top[at - 1];
    top[at] = static_cast<int32_t>(c);
  }
}

inline void SortTop(const float* row, int64_t k, std::vector<int32_t>* order, int32_t* top) {
  std::iota(order->begin(), order->end(), 0);
  std::partial_sort(order->begin(), order->begin() + k, order->end(), [row](int32_t a, int32_t b) {
    if (IsLarger(row[a], row[b])) return true;
    return !IsLarger(row[b], row[a]) && a < b;
  });
  std::copy_n(order->begin(), k, top);
}

}  // namespace vicinal::server::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace vicinal::server::internal::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Doubles = hn::ScalableTag<double>;
using VD = hn::Vec<Doubles>;
using Floats = hn::ScalableTag<float>;
using Ints = hn::RebindToSigned<Floats>;

// e^x for x <= 0, with a relative error below 1e-12; below -700, where float32 has no numbers left, 1e-304. NaN stays.
// x = n ln 2 + r with |r| <= ln 2 / 2; the polynomial is Taylor's, whose first omitted term is r^11 / 11!.
HWY_INLINE VD Exp(VD x) {
  const Doubles d;
  const hn::RebindToSigned<Doubles> bits;
  // Adding 1.5 * 2^52 rounds to an integer and leaves it in the lowest bits.
  const VD rounder = hn::Set(d, 0x1.8p52);
  const VD bounded = hn::Max(x, hn::Set(d, -700.0));
  const VD shifted = hn::MulAdd(bounded, hn::Set(d, 1.4426950408889634), rounder);
  const VD n = hn::Sub(shifted, rounder);
  // ln 2 in two parts, of which the first has 20 zero bits at its end: n times it is exact.
  VD r = hn::NegMulAdd(n, hn::Set(d, 0x1.62e42feep-1), bounded);
  r = hn::NegMulAdd(n, hn::Set(d, 1.9082149292705877e-10), r);
  VD p = hn::Set(d, 1.0 / 3628800);
  p = hn::MulAdd(p, r, hn::Set(d, 1.0 / 362880));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0 / 40320));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0 / 5040));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0 / 720));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0 / 120));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0 / 24));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0 / 6));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0));
  // p is about 1: adding n to its exponent multiplies by 2^n.
  const VD scaled = hn::BitCast(d, hn::Add(hn::BitCast(bits, p), hn::ShiftLeft<52>(hn::BitCast(bits, shifted))));
  return hn::IfThenElse(hn::Eq(x, x), scaled, x);
}

// values = e^values, for `count` of them and the rest of the last vector.
HWY_NOINLINE void ExpAll(double* values, int64_t count) {
  const Doubles d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count; i += lanes) hn::StoreU(Exp(hn::LoadU(d, values + i)), d, values + i);
}

// values = 1 / (1 + e^-values), likewise. Only negative powers of e are computed, so nothing overflows.
HWY_NOINLINE void SigmoidAll(double* values, int64_t count) {
  const Doubles d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const VD one = hn::Set(d, 1.0);
  for (int64_t i = 0; i < count; i += lanes) {
    const VD x = hn::LoadU(d, values + i);
    const VD e = Exp(hn::Neg(hn::Abs(x)));
    const VD above = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one);
    hn::StoreU(hn::Div(above, hn::Add(one, e)), d, values + i);
  }
}

// The row's largest number; -inf if it has none.
HWY_INLINE float LargestLogit(const float* row, int64_t classes) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  float largest = -std::numeric_limits<float>::infinity();
  int64_t c = 0;
  if (classes >= 2 * lanes) {
    auto most = hn::Set(d, largest);
    for (; c + lanes <= classes; c += lanes) {
      const auto x = hn::LoadU(d, row + c);
      most = hn::IfThenElse(hn::Gt(x, most), x, most);
    }
    largest = hn::GetLane(hn::MaxOfLanes(d, most));
  }
  for (; c < classes; ++c) largest = row[c] > largest ? row[c] : largest;
  return largest;
}

// The first class whose logit is the row's largest; 0 if all are NaN.
HWY_INLINE int32_t FirstOf(float largest, const float* row, int64_t classes) {
  for (int64_t c = 0; c < classes; ++c) {
    if (row[c] == largest) return static_cast<int32_t>(c);
  }
  return 0;
}

// Integers in the order of the logits: equal for -0 and 0, least for NaN.
HWY_INLINE hn::Vec<Ints> KeysOf(hn::Vec<Floats> x) {
  const Floats d;
  const Ints di;
  const auto bits = hn::BitCast(di, hn::Add(x, hn::Zero(d)));
  const auto keys = hn::Xor(bits, hn::And(hn::ShiftRight<31>(bits), hn::Set(di, 0x7fffffff)));
  return hn::IfThenElse(hn::RebindMask(di, hn::Eq(x, x)), keys, hn::Set(di, -0x7fffffff));
}

// The top k of a row of at most kCounted classes. The place of a class is the number of classes before it: those with a
// larger key, and those of a lower number with an equal key.
HWY_INLINE void CountTop(const float* row, int64_t classes, int64_t k, int32_t* top) {
  const Floats d;
  const Ints di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(di));
  float padded[kCounted + kRoom];
  int32_t keys[kCounted + kRoom], places[kCounted + kRoom], order[kCounted];
  std::copy_n(row, classes, padded);
  std::fill_n(padded + classes, lanes, 0.0f);
  for (int64_t c = 0; c < classes; c += lanes) hn::StoreU(KeysOf(hn::LoadU(d, padded + c)), di, keys + c);
  for (int64_t c = 0; c < classes; c += lanes) {
    const auto own = hn::LoadU(di, keys + c), index = hn::Iota(di, static_cast<int32_t>(c));
    auto place = hn::Zero(di);
    for (int32_t other = 0; other < classes; ++other) {
      // A mask is -1 in its lanes. An equal key is above this bound if its class has the lower number.
      const auto bound = hn::Add(own, hn::VecFromMask(di, hn::Gt(index, hn::Set(di, other))));
      place = hn::Sub(place, hn::VecFromMask(di, hn::Gt(hn::Set(di, keys[other]), bound)));
    }
    hn::StoreU(place, di, places + c);
  }
  for (int32_t c = 0; c < classes; ++c) order[places[c]] = c;
  std::copy_n(order, k, top);
}

// The sum of a row in a fixed order: four partial sums hide the latency of additions.
HWY_INLINE double Sum(const double* values, int64_t count) {
  double a = 0, b = 0, c = 0, e = 0;
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    a += values[i];
    b += values[i + 1];
    c += values[i + 2];
    e += values[i + 3];
  }
  for (; i < count; ++i) a += values[i];
  return (a + b) + (c + e);
}

// Rows [begin, begin + rows), a chunk: the top classes, and each row's largest logit.
HWY_NOINLINE void ChooseTop(const ClassRows& job, int64_t begin, int64_t rows, ClassScratch* scratch) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* const row = job.logits + (begin + r) * job.classes;
    int32_t* const top = job.top_classes + (begin + r) * job.top_k;
    scratch->largest[r] = LargestLogit(row, job.classes);
    if (job.top_k == 1) {
      *top = FirstOf(scratch->largest[r], row, job.classes);
    } else if (job.classes <= kCounted) {
      CountTop(row, job.classes, job.top_k, top);
    } else if (job.top_k <= kFewTop) {
      InsertTop(row, job.classes, job.top_k, top);
    } else {
      SortTop(row, job.top_k, &scratch->order, top);
    }
  }
}

// Softmax of the chunk: exponentials into scratch->values, from there scores and probabilities.
HWY_NOINLINE void Softmaxes(const ClassRows& job, int64_t begin, int64_t rows, ClassScratch* scratch) {
  const int64_t classes = job.classes;
  double* const values = scratch->values.data();
  for (int64_t r = 0; r < rows; ++r) {
    const float* const row = job.logits + (begin + r) * classes;
    const double shift = Shift(scratch->largest[r]);
    for (int64_t c = 0; c < classes; ++c) values[r * classes + c] = row[c] - shift;
  }
  ExpAll(values, rows * classes);
  for (int64_t r = 0; r < rows; ++r) {
    double* const of_row = values + r * classes;
    const float* const row = job.logits + (begin + r) * classes;
    if (!std::isfinite(scratch->largest[r])) {  // positive powers occur
      for (int64_t c = 0; c < classes; ++c) of_row[c] = std::exp(static_cast<double>(row[c]));
    }
    const double share = 1 / Sum(of_row, classes);
    const int32_t* const top = job.top_classes + (begin + r) * job.top_k;
    float* const scores = job.top_scores + (begin + r) * job.top_k;
    for (int64_t i = 0; i < job.top_k; ++i) scores[i] = static_cast<float>(of_row[top[i]] * share);
    if (job.probabilities == nullptr) continue;
    float* const probabilities = job.probabilities + (begin + r) * classes;
    for (int64_t c = 0; c < classes; ++c) probabilities[c] = static_cast<float>(of_row[c] * share);
  }
}

// Sigmoids of the chunk: of all logits, or if nobody asks for them, of the top classes' alone.
HWY_NOINLINE void Sigmoids(const ClassRows& job, int64_t begin, int64_t rows, ClassScratch* scratch) {
  const int64_t classes = job.classes, k = job.top_k;
  double* const values = scratch->values.data();
  const float* const logits = job.logits + begin * classes;
  const int32_t* const top = job.top_classes + begin * k;
  float* const scores = job.top_scores + begin * k;
  if (job.probabilities == nullptr) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < k; ++i) values[r * k + i] = logits[r * classes + top[r * k + i]];
    }
    SigmoidAll(values, rows * k);
    for (int64_t i = 0; i < rows * k; ++i) scores[i] = static_cast<float>(values[i]);
    return;
  }
  for (int64_t i = 0; i < rows * classes; ++i) values[i] = logits[i];
  SigmoidAll(values, rows * classes);
  float* const probabilities = job.probabilities + begin * classes;
  for (int64_t i = 0; i < rows * classes; ++i) probabilities[i] = static_cast<float>(values[i]);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < k; ++i) scores[r * k + i] = probabilities[r * classes + top[r * k + i]];
  }
}

void FillRange(const ClassRows& job, int64_t begin, int64_t end, ClassScratch* scratch) {
  const int64_t chunk = RowsOfChunk(job.classes);
  for (int64_t first = begin; first < end; first += chunk) {
    const int64_t rows = std::min(chunk, end - first);
    ChooseTop(job, first, rows, scratch);
    if (job.multi_label) {
      Sigmoids(job, first, rows, scratch);
    } else {
      Softmaxes(job, first, rows, scratch);
    }
  }
}

bool FusesMultiplyAdd() { return HWY_NATIVE_FMA != 0; }

}  // namespace vicinal::server::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vicinal::server::internal {
namespace {

HWY_EXPORT(FillRange);
HWY_EXPORT(FusesMultiplyAdd);

void Dispatch(const ClassRows& job, int64_t begin, int64_t end, ClassScratch* scratch) {
  HWY_DYNAMIC_DISPATCH(FillRange)(job, begin, end, scratch);
}

// Logits per task: about 50 us, beside which waking a thread is small. Work below two tasks stays on its thread.
constexpr int64_t kTaskLogits = int64_t{16} * 1024;

}  // namespace
}  // namespace vicinal::server::internal

namespace vicinal::server {

void FillClassRows(const ClassRows& job, ThreadPool* pool) {
  VICINAL_CHECK(job.top_k >= 1 && job.top_k <= job.classes);
  const int64_t of_task = std::max<int64_t>(1, internal::kTaskLogits / job.classes);
  const int64_t tasks = (job.rows + of_task - 1) / of_task;
  if (pool == nullptr || tasks <= 1) {
    internal::ClassScratch scratch(job);
    return internal::Dispatch(job, 0, job.rows, &scratch);
  }
  // Tasks must not throw, so nothing is allocated in them.
  std::vector<internal::ClassScratch> scratch(static_cast<size_t>(pool->num_threads()), internal::ClassScratch(job));
  pool->ParallelFor(tasks, [&](int64_t task, int thread) {
    internal::Dispatch(job, task * of_task, std::min(job.rows, (task + 1) * of_task), &scratch[thread]);
  });
}

bool HasDefinedBits() {
  static const bool fuses = [] {
    using namespace internal;  // NOLINT(google-build-using-namespace): where Highway's table is
    return HWY_DYNAMIC_DISPATCH(FusesMultiplyAdd)();
  }();
  return fuses;
}

int64_t ClassRowsScratchBytes(int64_t classes, int num_threads) {
  const int64_t rows = internal::RowsOfChunk(classes);
  const int64_t values = static_cast<int64_t>(sizeof(double)) * (rows * classes + internal::kRoom);
  return num_threads *
         (values + static_cast<int64_t>(sizeof(float)) * rows + static_cast<int64_t>(sizeof(int32_t)) * classes);
}

}  // namespace vicinal::server
#endif  // HWY_ONCE
