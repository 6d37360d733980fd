// SPDX-License-Identifier: Apache-2.0
// Limits of control groups, from files as the kernel writes them.
#include "engine/device/cpu_quota.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace vicinal {
namespace {

class CpuQuotaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "cpu_quota_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    std::filesystem::create_directory(root_ + "/cpu");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& file, const std::string& text) const { std::ofstream(root_ + "/" + file) << text; }

  std::string root_;
};

TEST_F(CpuQuotaTest, VersionTwo) {
  Write("cpu.max", "250000 100000\n");
  EXPECT_DOUBLE_EQ(CpuQuota(root_), 2.5);
  Write("cpu.max", "max 100000\n");
  EXPECT_EQ(CpuQuota(root_), 0);
}

TEST_F(CpuQuotaTest, VersionOne) {
  Write("cpu/cpu.cfs_quota_us", "50000\n");
  Write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(CpuQuota(root_), 0.5);
  Write("cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(CpuQuota(root_), 0);
}

TEST_F(CpuQuotaTest, NothingReadableIsNoLimit) {
  EXPECT_EQ(CpuQuota(root_), 0);
  Write("cpu.max", "garbage\n");
  EXPECT_EQ(CpuQuota(root_), 0);
  Write("cpu.max", "100000 0\n");
  EXPECT_EQ(CpuQuota(root_), 0);
}

}  // namespace
}  // namespace vicinal
