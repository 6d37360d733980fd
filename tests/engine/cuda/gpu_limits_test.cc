// SPDX-License-Identifier: Apache-2.0
// Which instructions launchers may count on by the GPU and the code that is loaded, and how many blocks fit.
#include "engine/cuda/common/gpu_limits.h"

#include <gtest/gtest.h>

namespace vicinal::cuda {
namespace {

GpuLimits Limits(int capability, int code) {
  GpuLimits limits;
  limits.capability = capability;
  limits.code = code;
  return limits;
}

TEST(GpuLimitsTest, InstructionsAreThoseOfTheCode) {
  const GpuLimits turing = Limits(75, 75), ampere = Limits(86, 80), hopper = Limits(90, 90), later = Limits(120, 120);
  EXPECT_FALSE(turing.async_copies() || turing.narrow_products() || turing.bulk_copies());
  EXPECT_TRUE(ampere.async_copies() && ampere.narrow_products());
  EXPECT_FALSE(ampere.bulk_copies() || ampere.overlapping_launches());
  EXPECT_TRUE(hopper.bulk_copies() && hopper.overlapping_launches() && hopper.wgmma());
  EXPECT_TRUE(later.bulk_copies() && later.narrow_products());
  EXPECT_FALSE(later.wgmma()) << "Hopper alone has it";
}

TEST(GpuLimitsTest, CodeOfAnOlderGpuHasNoNewerInstructions) {
  EXPECT_FALSE(Limits(90, 80).bulk_copies());
  EXPECT_FALSE(Limits(90, 80).wgmma());
  EXPECT_FALSE(Limits(90, 75).async_copies());
  EXPECT_FALSE(Limits(100, 90).wgmma()) << "PTX of 9.0 on a later GPU";
}

TEST(GpuLimitsTest, BlocksAreThoseThatHaveRoom) {
  GpuLimits limits;
  EXPECT_EQ(limits.Resident(256, 40 << 10, 8), 5) << "228 KiB, of which each takes 41";
  EXPECT_EQ(limits.Resident(1024, 1 << 10, 8), 2) << "2048 threads";
  EXPECT_EQ(limits.Resident(128, 1 << 10, 4), 4) << "registers";
  EXPECT_EQ(limits.Resident(256, 227 << 10, 4), 1);
  limits.multiprocessor_threads = 1024;
  limits.multiprocessor_shared_bytes = 64 << 10;
  EXPECT_EQ(limits.Resident(512, 30 << 10, 4), 2) << "Turing";
  EXPECT_EQ(limits.Resident(512, 63 << 10, 4), 1);
}

TEST(GpuLimitsTest, SharedMemoryIsTheGpus) {
  GpuLimits limits;
  EXPECT_TRUE(limits.Fits(227 << 10));
  EXPECT_FALSE(limits.Fits((227 << 10) + 1));
  limits.block_shared_bytes = 64 << 10;
  EXPECT_FALSE(limits.Fits(65 << 10));
  // Refused before any call of CUDA, so this needs no GPU.
  void (*const kernel)() = nullptr;
  EXPECT_EQ(AllowShared(kernel, 65 << 10, limits), cudaErrorInvalidConfiguration);
}

}  // namespace
}  // namespace vicinal::cuda
