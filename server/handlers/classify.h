// SPDX-License-Identifier: Apache-2.0
// From logits to classes: probabilities and the top k, written straight to where a reply holds them. Pure functions on
// the host.
#ifndef VICINAL_SERVER_HANDLERS_CLASSIFY_H_
#define VICINAL_SERVER_HANDLERS_CLASSIFY_H_

#include <cstdint>

#include "engine/base/thread_pool.h"

namespace vicinal::server {

// Rows of logits, and where their results go. Owns nothing. Results and logits do not overlap.
struct ClassRows {
  const float* logits = nullptr;  // [rows, classes]
  int64_t rows = 0;
  int64_t classes = 0;
  int64_t top_k = 1;         // 1 to classes
  bool multi_label = false;  // probabilities are sigmoids of each logit, not a softmax over the row
  // [rows, top_k]: the classes, largest logit first. Of equal logits the lower class comes first; NaN ranks last.
  int32_t* top_classes = nullptr;
  float* top_scores = nullptr;     // [rows, top_k]: their probabilities
  float* probabilities = nullptr;  // [rows, classes]; null: not wanted
};

// Fills the results of all rows. Computes in double precision: a probability differs from the exact one by less than
// 0.501 units in float32's last place, so nearly all are the nearest float32. A NaN, or a largest logit of +inf, makes
// what it divides NaN. A row's bits depend on nothing but its logits and the processor's instruction set. Large work is
// shared with the threads of `pool` (null: none); blocks until all is done.
void FillClassRows(const ClassRows& job, ThreadPool* pool);

// Whether this processor has fused multiply-adds: then the bits are those of engine/device/class_rows.h, and rows that
// a device has ranked have the same.
bool HasDefinedBits();

// The most memory that FillClassRows allocates for rows of that many classes, with `num_threads`.
int64_t ClassRowsScratchBytes(int64_t classes, int num_threads);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_HANDLERS_CLASSIFY_H_
