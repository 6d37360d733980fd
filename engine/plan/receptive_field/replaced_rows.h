// SPDX-License-Identifier: Apache-2.0
// Rows that a request sends in place of some stored ones. A run over a receptive field reads them where it would gather
// the stored ones, so that nothing is copied but what the field reads; only a run over the full graph needs a matrix
// with all rows.
#ifndef VICINAL_ENGINE_PLAN_RECEPTIVE_FIELD_REPLACED_ROWS_H_
#define VICINAL_ENGINE_PLAN_RECEPTIVE_FIELD_REPLACED_ROWS_H_

#include <cstdint>
#include <vector>

#include "engine/graph/validate.h"

namespace vicinal {

// In host memory. Immutable.
struct ReplacedRows {
  HostFeatures rows;               // dense or sparse, as the matrix whose rows they replace; sparse: with values
  std::vector<int64_t> positions;  // of each row in that matrix (execution order); distinct
  int64_t entries = 0;             // of the matrix with these rows: nonzeros if it is sparse, else all elements
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PLAN_RECEPTIVE_FIELD_REPLACED_ROWS_H_
