// SPDX-License-Identifier: Apache-2.0
#include "engine/prepared/device_arrays.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/engine/graph/graph_testing.h"
#include "tests/engine/prepared/prepared_testing.h"
#include "tests/support/generators.h"

namespace vicinal {
namespace {

using testing::ExpectEqual;
using testing::MakeEdges;

TEST(DeviceCsrTest, UploadsCsr) {
  const std::unique_ptr<Device> device = MakeCpuDevice(1);
  for (const EdgeList& edges : {UniformGraph(50, 200, 1), MakeEdges(3, {}), MakeEdges(2, {{0, 1}, {1, 0}}, {2, 3})}) {
    const Csr csr = BuildCsrByTarget(edges);
    const auto uploaded = DeviceCsr::Upload(csr, *device);
    ASSERT_TRUE(uploaded.ok()) << uploaded.status();
    ExpectEqual((*uploaded)->view(), csr);
    EXPECT_EQ((*uploaded)->size_bytes(), csr.size_bytes());
  }
}

}  // namespace
}  // namespace vicinal
