// SPDX-License-Identifier: Apache-2.0
// A sample of a graph's rows, for graphs on which a run over all rows would delay requests for too long.
#ifndef VICINAL_ENGINE_TUNE_SAMPLE_ROWS_H_
#define VICINAL_ENGINE_TUNE_SAMPLE_ROWS_H_

#include <cstdint>

#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/device/views.h"

namespace vicinal {

// An adjacency in device memory of its own.
struct SampledRows {
  CsrView view;  // [sampled rows, all columns]
  Buffer row_ptr, col, value;

  int64_t bytes() const { return static_cast<int64_t>(row_ptr.bytes() + col.bytes() + value.bytes()); }
};

// About `share` of the edges of `adjacency` (on `device`), as kSampleBlocks evenly spaced blocks of consecutive rows.
// Blocks preserve the locality of consecutive rows. They end at row boundaries, so rows with very many edges may make
// the sample larger. If it would have more than kMaxSampleExcess times its share of the edges, each block is limited to
// that many times its own share: its last row is cut. REQUIRES: 0 < share <= 1.
inline constexpr int64_t kSampleBlocks = 16;
inline constexpr double kMaxSampleExcess = 2.0;
StatusOr<SampledRows> SampleRows(const CsrView& adjacency, double share, Device& device);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNE_SAMPLE_ROWS_H_
