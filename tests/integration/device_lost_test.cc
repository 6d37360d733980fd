// SPDX-License-Identifier: Apache-2.0
// A device that is lost while requests are served, over a backend without a GPU (tests/engine/kernels/fake_backend.cc):
// the request that meets it is told, then the server takes no more and ends with a code of its own.
#include <stdlib.h>

#include <fstream>

#include "tests/integration/fixture.h"
#include "tests/support/temporary_directory.h"

namespace vicinal::testing {
namespace {

constexpr int kDeviceLostExit = 4;

class DeviceLostTest : public IntegrationTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(setenv("VICINAL_FAKE_LOST_FILE", LostFile().c_str(), 1), 0);
    // An hour of drain delay, which a server without a device must not wait for.
    ASSERT_NO_FATAL_FAILURE(
        StartServer({"--device=cuda:0", "--drain_delay=1h", "--tuning_budget=0s",
                     "--keep_answers=never",  // kept answers need no device
                     std::string("--backend_path=") + VICINAL_LIB_DIR + "/libvicinal_fake_backend_losing.so"}));
    UploadTinyGraph();
    UploadTinyModel();
  }
  void TearDown() override {
    unsetenv("VICINAL_FAKE_LOST_FILE");
    client_.reset();
    server_.reset();
  }
  std::string LostFile() const { return folder_ / "lost"; }

  const TemporaryDirectory folder_;
};

TEST_F(DeviceLostTest, EndsTheProcessWithACodeOfItsOwn) {
  ExpectServes();
  EXPECT_EQ(*client_->CheckHealth("readiness"), "SERVING");
  std::ofstream(LostFile()) << "now";
  ExpectError(client_->Classify(TinyRequest()).status(), absl::StatusCode::kInternal, "DEVICE_LOST");
  EXPECT_EQ(server_->Wait(), kDeviceLostExit) << server_->Log();
  EXPECT_NE(server_->Log().find("the device is lost"), std::string::npos) << server_->Log();
  EXPECT_NE(server_->Log().find("fell off the bus"), std::string::npos) << server_->Log();
}

TEST_F(DeviceLostTest, RefusesWhatComesAfterwards) {
  std::ofstream(LostFile()) << "now";
  EXPECT_FALSE(client_->Classify(TinyRequest()).ok());
  // Sooner or later readiness is gone, and calls are answered with what clients retry elsewhere; then nobody answers.
  absl::Status status;
  do {
    status = client_->Classify(TinyRequest()).status();
  } while (status.code() == absl::StatusCode::kInternal);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_EQ(server_->Wait(), kDeviceLostExit) << server_->Log();
}

}  // namespace
}  // namespace vicinal::testing
