// SPDX-License-Identifier: Apache-2.0
// Work whose predicted times are pinned: prior_golden_test.cc for the CPU's kernels, tests/engine/cuda for the
// GPU's.
#ifndef VICINAL_TESTS_ENGINE_TUNE_PRIOR_CASES_H_
#define VICINAL_TESTS_ENGINE_TUNE_PRIOR_CASES_H_

#include <cstdint>
#include <vector>

#include "engine/api/tuning.h"
#include "engine/kernels/work_shape.h"

namespace vicinal::testing {

struct PriorCase {
  TuningKey key;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t edges = 0;
  int num_threads = 1;
  bool local = false;  // most gathered rows are found in caches, as a graph's profile may say
};

// A kernel's configuration and the seconds that were predicted for it, by index into the list of cases.
struct PriorGolden {
  int index = 0;
  const char* kernel = "";
  KernelConfig config;
  double seconds = 0.0;
};

inline TuningKey AggregateKey(const char* kind, int64_t width, EdgeWeights weights = EdgeWeights::kNone,
                              Storage storage = Storage::kFloat32) {
  return {"aggregate", kind, width, 1, true, weights, storage};
}

inline TuningKey AttentionKey(const char* kind, int64_t width, int64_t heads) {
  return {"attention", kind, width, heads, true, EdgeWeights::kNone, Storage::kFloat32};
}

inline WorkShape ShapeOf(const PriorCase& c) {
  WorkShape shape;
  shape.rows = c.rows;
  shape.cols = c.cols;
  shape.edges = c.edges;
  shape.num_threads = c.num_threads;
  if (c.local) {
    shape.reuse = [](int64_t bytes) { return bytes <= 256 ? CacheShares{0.9, 0.95} : CacheShares{0.5, 0.8}; };
  }
  return shape;
}

inline std::vector<PriorCase> CpuPriorCases() {
  return {
      {AggregateKey("sum", 16), 2'708, 2'708, 13'264, 1, false},
      {AggregateKey("mean", 64, EdgeWeights::kPerEdge), 100'000, 100'000, 1'000'000, 2, false},
      {AggregateKey("max", 512), 20'000, 20'000, 3'000'000, 2, false},
      {AggregateKey("sum", 128, EdgeWeights::kPerSource), 1'000'000, 1'000'000, 10'000'000, 2, true},
      {AggregateKey("sum", 256, EdgeWeights::kPerSource, Storage::kBfloat16), 300'000, 300'000, 3'000'000, 8, false},
      {AggregateKey("sum", 64), 300'000, 1'000, 3'000'000, 1, false},
      {AggregateKey("sum", 16), 0, 0, 0, 1, false},
      {AttentionKey("gat", 8, 4), 100'000, 100'000, 1'000'000, 2, false},
      {AttentionKey("dot", 64, 1), 20'000, 20'000, 3'000'000, 2, true},
  };
}

inline std::vector<PriorCase> GpuPriorCases() {
  return {
      {AggregateKey("sum", 64), 10'000, 10'000, 100'000, 1, false},
      {AggregateKey("sum", 64), 400'000, 400'000, 5'000'000, 1, false},
      {AggregateKey("sum", 256, EdgeWeights::kPerSource), 100'000, 100'000, 5'000'000, 1, false},
      {AggregateKey("mean", 16, EdgeWeights::kPerEdge), 100'000, 100'000, 5'000'000, 1, false},
      {AggregateKey("sum", 128, EdgeWeights::kNone, Storage::kBfloat16), 400'000, 200'000, 8'000'000, 1, false},
      {AttentionKey("gat", 8, 4), 100'000, 100'000, 1'000'000, 1, false},
  };
}

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_TUNE_PRIOR_CASES_H_
