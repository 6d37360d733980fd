// SPDX-License-Identifier: Apache-2.0
// Limits of control groups, from files as the kernel writes them.
#include "engine/device/cpu_quota.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_directory.h"

namespace vicinal {
namespace {

class CpuQuotaTest : public ::testing::Test {
 protected:
  CpuQuotaTest() { std::filesystem::create_directory(root_ / "cpu"); }

  void Write(const std::string& file, const std::string& text) const { std::ofstream(root_ / file) << text; }

  const TemporaryDirectory root_;
};

TEST_F(CpuQuotaTest, VersionTwo) {
  Write("cpu.max", "250000 100000\n");
  EXPECT_DOUBLE_EQ(CpuQuota(root_.path()), 2.5);
  Write("cpu.max", "max 100000\n");
  EXPECT_EQ(CpuQuota(root_.path()), 0);
}

TEST_F(CpuQuotaTest, VersionOne) {
  Write("cpu/cpu.cfs_quota_us", "50000\n");
  Write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(CpuQuota(root_.path()), 0.5);
  Write("cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(CpuQuota(root_.path()), 0);
}

TEST_F(CpuQuotaTest, NothingReadableIsNoLimit) {
  EXPECT_EQ(CpuQuota(root_.path()), 0);
  Write("cpu.max", "garbage\n");
  EXPECT_EQ(CpuQuota(root_.path()), 0);
  Write("cpu.max", "100000 0\n");
  EXPECT_EQ(CpuQuota(root_.path()), 0);
}

}  // namespace
}  // namespace vicinal
