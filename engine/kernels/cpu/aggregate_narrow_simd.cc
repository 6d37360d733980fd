// SPDX-License-Identifier: Apache-2.0
// The 16-bit storages of the aggregation "simd_rows" (aggregate_simd.cc): rows are widened as they are loaded, and sums
// are float32. A file of its own, so that both compile in parallel.
#include "engine/kernels/cpu/aggregate_simd.h"
#include "engine/kernels/cpu/work.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/aggregate_narrow_simd.cc"
#include "engine/kernels/cpu/simd_targets.h"
#include "hwy/foreach_target.h"
//
#include "engine/kernels/cpu/aggregate_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

void RowsOfBfloat16(const AggregateArgs& args, ThreadPool* pool) { AggregateRows<Storage::kBfloat16>(args, pool); }
void RowsOfFloat16(const AggregateArgs& args, ThreadPool* pool) { AggregateRows<Storage::kFloat16>(args, pool); }

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vicinal::internal {

HWY_EXPORT(RowsOfBfloat16);
HWY_EXPORT(RowsOfFloat16);

void AggregateBfloat16(const AggregateArgs& args, ThreadPool* pool) {
  HWY_DYNAMIC_DISPATCH(RowsOfBfloat16)(args, pool);
}
void AggregateFloat16(const AggregateArgs& args, ThreadPool* pool) { HWY_DYNAMIC_DISPATCH(RowsOfFloat16)(args, pool); }

}  // namespace vicinal::internal
#endif  // HWY_ONCE
