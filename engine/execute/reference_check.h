// SPDX-License-Identifier: Apache-2.0
// Compares a model's answers with the expected answers of its reference (proto ModelReference.tolerance defines the
// measure). Pure functions.
#ifndef VICINAL_ENGINE_EXECUTE_REFERENCE_CHECK_H_
#define VICINAL_ENGINE_EXECUTE_REFERENCE_CHECK_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace vicinal {

inline constexpr double kDefaultReferenceTolerance = 1e-4;

struct ReferenceRows {
  const std::vector<float>* expected = nullptr;  // [rows, classes]
  const std::vector<float>* got = nullptr;       // [rows, classes]
  const std::vector<int64_t>* ids = nullptr;     // [rows], or null: row r is node r
  int64_t rows = 0;
  int64_t classes = 0;
  std::string_view row_name = "node";  // "node", "graph", "link": then the one column is a score
};

// The largest |got - expected| / max(1, largest |expected| of the row). INVALID_ARGUMENT (reason REFERENCE_MISSED),
// naming the worst row with both values, when one is over `tolerance`, when the largest logit's class differs though
// the expected top two are more than twice the allowance apart, or when an answer is not finite.
StatusOr<double> CheckReference(const ReferenceRows& rows, double tolerance);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_REFERENCE_CHECK_H_
