// SPDX-License-Identifier: Apache-2.0
// Classes and probabilities of selected rows of logits, straight into pinned memory, so that only they cross the link
// to the host. Four lanes share a row: they are the four partial sums that the bits are defined by
// (engine/device/class_rows.h). The top classes are found one after the other, each as the first in rank after the one
// before. Exponentials are computed again wherever they are used, in place of being kept: they are cheap beside the
// link. Bound by that: a row's results, 8 bytes per top class; before it by 13 double-precision operations per logit.
#include <cstdint>

#include "engine/cuda/runtime/class_rows.h"

namespace vicinal::cuda {
namespace {

constexpr unsigned kThreads = 128;
constexpr unsigned kLanes = 4;  // of a row
constexpr unsigned kWarp = 0xffffffffu;

struct Params {
  ConstMatrixView logits;
  int count;
  int top_k;
  bool multi_label;
  ClassRowsOut out;
  RowList rows;
};

// e^x for x <= 0: operation by operation the Exp of server/handlers/classify_simd.cc.
__device__ double Exp(double x) {
  const double rounder = 0x1.8p52;
  const double bounded = fmax(x, -700.0);
  const double shifted = fma(bounded, 1.4426950408889634, rounder);
  const double n = shifted - rounder;
  double r = fma(-n, 0x1.62e42feep-1, bounded);
  r = fma(-n, 1.9082149292705877e-10, r);
  double p = 1.0 / 3628800;
  p = fma(p, r, 1.0 / 362880);
  p = fma(p, r, 1.0 / 40320);
  p = fma(p, r, 1.0 / 5040);
  p = fma(p, r, 1.0 / 720);
  p = fma(p, r, 1.0 / 120);
  p = fma(p, r, 1.0 / 24);
  p = fma(p, r, 1.0 / 6);
  p = fma(p, r, 0.5);
  p = fma(p, r, 1.0);
  p = fma(p, r, 1.0);
  const long long scaled = __double_as_longlong(p) + (__double_as_longlong(shifted) << 52);
  return x == x ? __longlong_as_double(scaled) : x;
}

__device__ float Sigmoid(float logit) {
  const double x = logit;
  const double e = Exp(-fabs(x));
  return static_cast<float>(__ddiv_rn(x < 0 ? e : 1.0, __dadd_rn(1.0, e)));
}

// A class in the order of ranks.
struct Place {
  int key;
  int index;
};

// Integers in the order of the logits: equal for -0 and 0, least for NaN.
__device__ int KeyOf(float x) {
  if (x != x) return -0x7fffffff;
  const int bits = __float_as_int(__fadd_rn(x, 0.0f));
  return bits ^ ((bits >> 31) & 0x7fffffff);
}

__device__ bool IsBefore(const Place& a, const Place& b) {
  return a.key > b.key || (a.key == b.key && a.index < b.index);
}

// The first class in rank after `last`, for all lanes of the row.
__device__ Place NextOf(const float* row, int classes, const Place& last) {
  Place best{-0x7fffffff - 1, classes};
  for (int c = threadIdx.x % kLanes; c < classes; c += kLanes) {
    const Place place{KeyOf(row[c]), c};
    if (IsBefore(last, place) && IsBefore(place, best)) best = place;
  }
  for (int distance = 1; distance < static_cast<int>(kLanes); distance *= 2) {
    const Place other{__shfl_xor_sync(kWarp, best.key, distance), __shfl_xor_sync(kWarp, best.index, distance)};
    if (IsBefore(other, best)) best = other;
  }
  return best;
}

// The softmax of a row.
struct Softmax {
  double shift = 0;
  bool shifts = false;  // the largest logit is a number
  double share = 1;     // of each exponential

  __device__ double Power(float logit) const {
    return shifts ? Exp(__dadd_rn(logit, -shift)) : exp(static_cast<double>(logit));
  }
  __device__ float Of(float logit) const { return static_cast<float>(__dmul_rn(Power(logit), share)); }
};

__device__ Softmax SoftmaxOf(const float* row, int classes, float largest) {
  Softmax softmax;
  softmax.shifts = isfinite(largest);
  softmax.shift = softmax.shifts ? largest : 0.0;
  const int lane = threadIdx.x % kLanes;
  const int whole = classes / static_cast<int>(kLanes) * static_cast<int>(kLanes);
  double sum = 0;
  for (int c = lane; c < whole; c += kLanes) sum = __dadd_rn(sum, softmax.Power(row[c]));
  const double rest = whole + lane < classes ? softmax.Power(row[whole + lane]) : 0.0;
  for (int c = whole; c < classes; ++c) {
    const double next = __shfl_sync(kWarp, rest, c - whole, kLanes);
    if (lane == 0) sum = __dadd_rn(sum, next);
  }
  sum = __dadd_rn(sum, __shfl_xor_sync(kWarp, sum, 1));
  sum = __dadd_rn(sum, __shfl_xor_sync(kWarp, sum, 2));
  softmax.share = __ddiv_rn(1.0, sum);
  return softmax;
}

__global__ void __launch_bounds__(kThreads) ClassRows(const __grid_constant__ Params params) {
  const int wanted = static_cast<int>((blockIdx.x * kThreads + threadIdx.x) / kLanes);
  // Lanes without a row of their own work on the last one, because they take part in exchanges.
  const int64_t i = min(wanted, params.count - 1);
  const bool stores = wanted < params.count;
  const int lane = threadIdx.x % kLanes;
  const int64_t from = params.rows.device_rows != nullptr ? params.rows.device_rows[i] : params.rows.rows[i];
  const float* const row = params.logits.data + from * params.logits.stride;
  const int classes = static_cast<int>(params.logits.cols);

  Softmax softmax;
  Place place{0x7fffffff, -1};
  for (int rank = 0; rank < params.top_k; ++rank) {
    place = NextOf(row, classes, place);
    const float logit = row[place.index];
    if (rank == 0 && !params.multi_label) {
      softmax = SoftmaxOf(row, classes, logit == logit ? logit : -INFINITY);
    }
    if (!stores || lane != 0) continue;
    params.out.classes[i * params.top_k + rank] = place.index;
    params.out.scores[i * params.top_k + rank] = params.multi_label ? Sigmoid(logit) : softmax.Of(logit);
  }
  if (!stores) return;
  for (int c = lane; c < classes; c += kLanes) {
    const float logit = row[c];
    if (params.out.values != nullptr) params.out.values[i * classes + c] = logit;
    if (params.out.probabilities == nullptr) continue;
    params.out.probabilities[i * classes + c] = params.multi_label ? Sigmoid(logit) : softmax.Of(logit);
  }
}

}  // namespace

ClassRowsOut PlaceClassRows(const ClassRowsJob& job, int64_t count, float* elements) {
  ClassRowsOut out;
  out.classes = reinterpret_cast<int32_t*>(elements);
  out.scores = elements + count * job.top_k;
  float* next = out.scores + count * job.top_k;
  if (job.probabilities != nullptr) {
    out.probabilities = next;
    next += count * job.logits.cols;
  }
  if (job.values != nullptr) out.values = next;
  return out;
}

cudaError_t LaunchClassRows(const ClassRowsJob& job, const RowList& rows, int64_t count, float* elements,
                            cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  const Params params{job.logits,
                      static_cast<int>(count),
                      static_cast<int>(job.top_k),
                      job.multi_label,
                      PlaceClassRows(job, count, elements),
                      rows};
  const unsigned threads = static_cast<unsigned>(count) * kLanes;
  ClassRows<<<(threads + kThreads - 1) / kThreads, kThreads, 0, stream>>>(params);
  return cudaGetLastError();
}

}  // namespace vicinal::cuda
