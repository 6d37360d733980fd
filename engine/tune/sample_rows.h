// SPDX-License-Identifier: Apache-2.0
// A part of a graph's rows, where a run over all of them would hold up requests for too long.
#ifndef VICINAL_ENGINE_TUNE_SAMPLE_ROWS_H_
#define VICINAL_ENGINE_TUNE_SAMPLE_ROWS_H_

#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/device/views.h"

namespace vicinal {

// An adjacency in device memory of its own.
struct SampledRows {
  CsrView view;  // [rows taken, cols of the whole]
  Buffer row_ptr, col, value;
};

// About `share` of the edges of `adjacency` (on `device`), as kSampleBlocks blocks of consecutive rows, evenly spaced:
// whole blocks keep what consecutive rows have in common. Blocks end at rows, so rows of very many edges may make the
// sample larger. Where it would have more than kMaxSampleExcess times its share of the edges, each block has at most
// that many times its own share: its last row is cut. REQUIRES: 0 < share <= 1.
inline constexpr int64_t kSampleBlocks = 16;
inline constexpr double kMaxSampleExcess = 2.0;
StatusOr<SampledRows> SampleRows(const CsrView& adjacency, double share, Device& device);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNE_SAMPLE_ROWS_H_
