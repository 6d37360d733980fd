// SPDX-License-Identifier: Apache-2.0
// The threshold of partition_dual from measurements: PCGCN's theta = T_full * p / T_selective (IPDPS'20, section III).
#ifndef VICINAL_ENGINE_CUDA_PUBLISHED_PARTITION_DUAL_DETAIL_MEASURED_THETA_H_
#define VICINAL_ENGINE_CUDA_PUBLISHED_PARTITION_DUAL_DETAIL_MEASURED_THETA_H_

#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/kernels/kernel.h"

namespace vicinal::cuda {

// Theta, in thousandths, for problems of that width and kind of weights. Runs `kernel` on an adjacency of density
// p = 0.1 made for this, with `full` and with `selective`, on a context of its own. Takes milliseconds on the device, a
// tenth of a second on the host, and up to 60 MB of either memory meanwhile. Errors of the device.
StatusOr<double> MeasureTheta(const AggregateKernel& kernel, const AggregateProblem& kind, const KernelConfig& full,
                              const KernelConfig& selective, Device& device);

// The nearest of ten values per decade, so that small differences between measurements give equal thresholds, and with
// them equal bits.
int RoundedTheta(double theta);

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_PUBLISHED_PARTITION_DUAL_DETAIL_MEASURED_THETA_H_
