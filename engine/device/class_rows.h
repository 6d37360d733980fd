// SPDX-License-Identifier: Apache-2.0
// What a classification tells of rows of logits: the top classes with their probabilities. Where the rows are on a
// device that can rank them, only that leaves it.
//
// The bits are defined, so that an answer does not show where it was ranked. Of logits x of one row, all in double
// precision: e(c) = e^(x(c) - largest) by the polynomial of server/handlers/classify_simd.cc with fused multiply-adds;
// the sum of e over classes is (s0 + s1) + (s2 + s3), where s_j adds the classes 4i + j in rising order, up to the last
// multiple of four, and s0 also the rest; a probability is float(e(c) * (1 / sum)). Of independent labels it is float(1
// / (1 + e^-x)) or, for negative x, float(e^x / (1 + e^x)), with the same polynomial. Classes rank by their logits; -0
// and 0 are equal, NaN is the least, and of equal ones the lower class comes first. A NaN's sign and payload are open.
#ifndef VICINAL_ENGINE_DEVICE_CLASS_ROWS_H_
#define VICINAL_ENGINE_DEVICE_CLASS_ROWS_H_

#include <cstdint>

#include "engine/base/status.h"
#include "engine/device/views.h"

namespace vicinal {

// Row i of each result is about row rows[i] of `logits`, on the device; the results are in host memory.
struct ClassRowsJob {
  ConstMatrixView logits;         // [any, C]
  const int64_t* rows = nullptr;  // [count], in host memory
  int64_t count = 0;
  int64_t top_k = 1;               // 1 to C
  bool multi_label = false;        // sigmoid in place of softmax
  int32_t* classes = nullptr;      // [count, top_k]
  float* scores = nullptr;         // [count, top_k]: probabilities of those
  float* probabilities = nullptr;  // [count, C], or null
  float* values = nullptr;         // [count, C]: the logits; or null
};

// What a DeviceContext also is if it ranks classes where the rows are. Those whose rows are in the host's memory are
// not. Used as the context is: by one thread at a time.
class ClassRanker {
 public:
  virtual ~ClassRanker() = default;
  // Whether so many classes are to be ranked here for that top_k.
  virtual bool RanksClasses(int64_t classes, int64_t top_k) const = 0;
  // Ranks rows of logits. What was launched in the context before has happened before; returns when the results are
  // there. REQUIRES: RanksClasses.
  virtual Status ClassRowsToHost(const ClassRowsJob& job) = 0;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_DEVICE_CLASS_ROWS_H_
