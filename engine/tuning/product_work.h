// SPDX-License-Identifier: Apache-2.0
// What tuning a product with weights takes beside what all work takes: kernels that must be verified on the device
// before they say whether they support it, and a number of rows that is enough to be measured.
#ifndef VICINAL_ENGINE_TUNING_PRODUCT_WORK_H_
#define VICINAL_ENGINE_TUNING_PRODUCT_WORK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/api/tuning.h"
#include "engine/base/status.h"
#include "engine/base/vocabulary.h"
#include "engine/tune/trial.h"
#include "engine/tuning/leased_runs.h"
#include "engine/tuning/tuning_job.h"

namespace vicinal {

// From this many rows on, kernels support and refuse the same products, and times grow with the rows.
inline constexpr int64_t kProductRowsAtLeast = int64_t{1} << 17;

// A product in another order than the default's must be this many times as fast. The graph gets another numerics
// revision, and queries for few nodes take longer: cuBLAS takes 25 us for one row of 602 inputs, where register_tiles
// takes 5 (H100).
inline constexpr double kOtherOrderHandicap = 1.05;
// Whether two settings give the product the same bits.
bool AddAlike(const TuningTools& tools, const TuningKey& key, int64_t rows, const KernelSetting& a,
              const KernelSetting& b);

// The rows on which a product of `rows` rows is measured: all, unless its matrices would take more than 1 GiB, or a run
// more than 2e11 operations; then as many as that, but at least kProductRowsAtLeast.
int64_t MeasuredProductRows(const TuningKey& key, int64_t rows);

// Makes the input of a trial over a graph that of its product: prepares the kernels (PrepareProductKernels), leaves out
// those that lack memory, and cuts the rows to MeasuredProductRows. Returns their share.
StatusOr<double> PrepareProduct(const TuningTools& tools, LeasedRuns* runs, TrialInput* input);

// Carries out the preparations of all kernels that tuning may choose for the product, with `runs`, their memory
// reserved: cuBLAS verifies an algorithm, once per pair of widths and process. Afterwards asking a kernel whether it
// supports the product does not use the device. Kernels that are not worth a trial or quarantined are not prepared.
// Returns the kernels that could not be prepared for lack of memory, in the budget or on the device, with the reasons:
// do not ask these whether they support the product. Other errors of LeasedRuns::Prepare end it. Whatever happens, no
// memory stays reserved, and kernels that were prepared stay so.
StatusOr<std::vector<KernelRefusal>> PrepareProductKernels(const TuningTools& tools, const TuningKey& key, int64_t rows,
                                                           LeasedRuns* runs);

// For the note of a record: which kernels were left out, and what to do about it. Empty: none was.
std::string NoteOnLeftOut(const std::vector<KernelRefusal>& left_out);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNING_PRODUCT_WORK_H_
