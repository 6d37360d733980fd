// SPDX-License-Identifier: Apache-2.0
// From logits to classes: probabilities and the top k. Pure functions on the host.
#ifndef VICINAL_SERVER_HANDLERS_CLASSIFY_H_
#define VICINAL_SERVER_HANDLERS_CLASSIFY_H_

#include <cstdint>
#include <vector>

namespace vicinal::server {

// Probabilities [rows, classes] of logits: softmax per row (one label), or sigmoids (many). Stable; sums in double.
std::vector<float> Probabilities(const float* logits, int64_t rows, int64_t classes, bool multi_label);

struct TopClasses {
  std::vector<int32_t> classes;  // [rows, k], most likely first; of equal logits the lower class first
  std::vector<float> scores;     // [rows, k], probabilities
};
// REQUIRES: 1 <= k <= classes. NaN ranks last.
TopClasses TopK(const float* logits, int64_t rows, int64_t classes, int64_t k, bool multi_label);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_HANDLERS_CLASSIFY_H_
