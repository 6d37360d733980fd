// SPDX-License-Identifier: Apache-2.0
#include "server/process.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

#include <cstdlib>

#include "engine/base/sanitized.h"

namespace vicinal::server {
namespace {

TEST(ProcessTest, AllFilesThatMayBeAreAllowed) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  if (before.rlim_max <= 200) GTEST_SKIP() << "no more than " << before.rlim_max << " files may be open here";
  const rlimit few = {200, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_EQ(AllowManyFiles(), static_cast<int64_t>(before.rlim_max));
  rlimit after = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  EXPECT_EQ(AllowManyFiles(), static_cast<int64_t>(before.rlim_max)) << "a second time";
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(ProcessTest, LargeBlocksAreMappedOneByOne) {
#if !defined(__GLIBC__) || VICINAL_SANITIZED
  GTEST_SKIP() << "not glibc's allocator";
#else
  GiveLargeBlocksBack();
  // What other tests freed may still lie in the heap: these are larger than all of that together.
  const size_t kept = mallinfo2().fordblks;
  // After this glibc would keep blocks of up to 16 MiB.
  void* volatile larger = std::malloc(kept + (16 << 20));
  std::free(larger);
  const auto mapped = mallinfo2().hblks;
  void* volatile block = std::malloc(kept + (2 << 20));
  EXPECT_EQ(mallinfo2().hblks, mapped + 1);
  std::free(block);
  EXPECT_EQ(mallinfo2().hblks, mapped);
#endif
}

}  // namespace
}  // namespace vicinal::server
