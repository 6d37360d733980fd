// SPDX-License-Identifier: Apache-2.0
// Loading a backend: a good one adds its kernels to the one registry; wrong ones are refused with the reason, and
// nothing crashes.
#include "engine/kernels/backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "engine/base/error.h"

namespace vicinal {
namespace {

using ::testing::HasSubstr;

StatusOr<std::unique_ptr<Backend>> LoadFake(const std::string& variant) {
  return Backend::Load(std::string(VICINAL_LIB_DIR) + "/libvicinal_fake_backend_" + variant + ".so");
}

void ExpectRefused(const std::string& variant, const std::string& reason, const std::string& words) {
  auto backend = LoadFake(variant);
  ASSERT_FALSE(backend.ok());
  EXPECT_EQ(backend.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(DetailOf(backend.status())->reason, reason);
  EXPECT_THAT(std::string(backend.status().message()), HasSubstr(words));
}

TEST(BackendTest, AGoodOneSharesTheRegistry) {
  auto backend = LoadFake("good");
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_STREQ((*backend)->table().name, "fake");
  EXPECT_EQ((*backend)->table().device_count(), 1);
  auto device = (*backend)->table().open_device(0, DeviceLimits());
  ASSERT_TRUE(device.ok());
  EXPECT_EQ((*backend)->table().open_device(5, DeviceLimits()).status().code(), StatusCode::kNotFound);

  KernelRegistry registry;
  RegisterCpuKernels(registry);
  (*backend)->table().register_kernels(registry, device->get());
  auto choice = registry.aggregate.Choose({}, DeviceKind::kCuda, "");
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->kernel->kernel().name(), "fake");
  EXPECT_EQ(registry.aggregate.Choose({}, DeviceKind::kCpu, "")->kernel->kernel().name(), "simd_rows");
}

TEST(BackendTest, WrongOnesAreRefusedWithTheReason) {
  ExpectRefused("wrong_version", "BACKEND_REFUSED",
                "interface version " + std::to_string(kBackendInterfaceVersion + 1) + ", this engine has " +
                    std::to_string(kBackendInterfaceVersion));
  ExpectRefused("wrong_build", "BACKEND_REFUSED", "0.0.0 of another compiler");
  ExpectRefused("empty_entry", "BACKEND_REFUSED", "empty entries");
  ExpectRefused("no_symbol", "BACKEND_NOT_LOADED", kBackendEntrySymbol);
  ExpectRefused("that_does_not_exist", "BACKEND_NOT_LOADED", "cannot load");
}

TEST(BackendTest, BuildIdNamesVersionAndCompiler) { EXPECT_THAT(std::string(BackendBuildId()), HasSubstr(".")); }

}  // namespace
}  // namespace vicinal
