// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/reference_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal {
namespace {

struct Worst {
  double error = -1.0;
  int64_t row = 0;
  int64_t column = 0;
};

Status Missed(const ReferenceRows& rows, int64_t row, int64_t column, std::string_view why) {
  const int64_t id = rows.ids != nullptr ? (*rows.ids)[row] : row;
  const size_t at = static_cast<size_t>(row * rows.classes + column);
  const Status missed =
      InvalidArgument("REFERENCE_MISSED", "reference",
                      absl::StrCat("the model misses its reference at ", std::string(rows.row_name), " ", id, ": ",
                                   rows.row_name == "link" ? "its score" : absl::StrCat("class ", column), " is ",
                                   (*rows.got)[at], ", expected ", (*rows.expected)[at], "; ", std::string(why),
                                   "; check the architecture against the one the weights were trained with"));
  return rows.row_name == "node" ? WithMetadata(missed, "node", absl::StrCat(id)) : missed;
}

// Compares one row; updates `worst`.
Status CheckRow(const ReferenceRows& rows, int64_t row, double tolerance, Worst* worst) {
  const float* expected = rows.expected->data() + row * rows.classes;
  const float* got = rows.got->data() + row * rows.classes;
  double scale = 1.0;
  for (int64_t c = 0; c < rows.classes; ++c) scale = std::max(scale, std::fabs(static_cast<double>(expected[c])));
  for (int64_t c = 0; c < rows.classes; ++c) {
    if (!std::isfinite(got[c])) return Missed(rows, row, c, "the answer is not finite");
    const double error = std::fabs(static_cast<double>(got[c]) - expected[c]) / scale;
    if (error > worst->error) *worst = {error, row, c};
  }
  const int64_t best = std::max_element(expected, expected + rows.classes) - expected;
  const int64_t got_best = std::max_element(got, got + rows.classes) - got;
  double second = -std::numeric_limits<double>::infinity();
  for (int64_t c = 0; c < rows.classes; ++c) {
    if (c != best) second = std::max(second, static_cast<double>(expected[c]));
  }
  if (got_best != best && expected[best] - second > 2 * tolerance * scale) {
    return Missed(rows, row, got_best, absl::StrCat("its largest logit is of another class than ", best));
  }
  return OkStatus();
}

}  // namespace

StatusOr<double> CheckReference(const ReferenceRows& rows, double tolerance) {
  Worst worst;
  Status first_fault;
  for (int64_t row = 0; row < rows.rows; ++row) {
    Status fault = CheckRow(rows, row, tolerance, &worst);
    if (!fault.ok() && first_fault.ok()) first_fault = std::move(fault);
  }
  if (worst.error > tolerance) {
    return Missed(rows, worst.row, worst.column,
                  absl::StrCat("the worst difference is ", worst.error,
                               " of the row's magnitude, over the tolerance of ", tolerance));
  }
  VICINAL_RETURN_IF_ERROR(first_fault);
  return std::max(worst.error, 0.0);
}

}  // namespace vicinal
