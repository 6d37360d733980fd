// SPDX-License-Identifier: Apache-2.0
// A server whose state directory runs full, on a real file system of few megabytes: it serves, refuses uploads, and
// writes what waits once there is space.
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/fixture.h"
#include "tests/support/temporary_directory.h"

namespace vicinal::testing {
namespace {

class DiskFullTest : public IntegrationTest {
 protected:
  void SetUp() override {
    const std::string size = absl::StrCat("size=", megabytes_, "m");
    mounted_ = mount("tmpfs", disk_.path().c_str(), "tmpfs", 0, size.c_str()) == 0;
    if (!mounted_) GTEST_SKIP() << "cannot mount a small file system here: " << std::strerror(errno);
  }
  void TearDown() override {
    IntegrationTest::TearDown();
    if (mounted_) {
      EXPECT_EQ(umount2(disk_.path().c_str(), MNT_DETACH), 0);
    }
  }
  void Start() { StartServer({"--state_dir=" + disk_ / "state"}); }
  // Takes all the space that is left.
  void Fill() const {
    const int file = open(Ballast().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_GE(file, 0);
    const std::vector<char> page(4096, 'x');
    while (write(file, page.data(), page.size()) > 0) {
    }
    EXPECT_EQ(errno, ENOSPC);
    close(file);
  }
  void Free() const { ASSERT_EQ(unlink(Ballast().c_str()), 0); }
  std::string Ballast() const { return disk_ / "ballast"; }
  v1::Durability DurabilityOf(const std::string& graph) {
    const auto found = client_->GetGraph(graph);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? found->durability() : v1::DURABILITY_UNSPECIFIED;
  }
  // Follows the graph until its durability is no longer `now`.
  void AwaitOther(const std::string& graph, v1::Durability now) {
    while (DurabilityOf(graph) == now) {
    }
  }
  bool Exports(const std::string& line) const {
    const auto page = server_->Scrape();
    EXPECT_TRUE(page.ok()) << page.status();
    return page.ok() && page->find("\n" + line + "\n") != std::string::npos;
  }
  // Follows the metrics until they have the line.
  void Await(const std::string& line) const {
    while (!HasFailure() && !Exports(line)) {
    }
  }
  // What was uploaded, features included, is on the disk when the upload returns.
  static client::UploadOptions Durable() {
    client::UploadOptions options;
    options.wait_for = v1::WAIT_FOR_DURABLE;
    return options;
  }

  const TemporaryDirectory disk_;
  int megabytes_ = 1;
  bool mounted_ = false;
};

TEST_F(DiskFullTest, ServingGoesOnAndWhatWaitsIsWrittenWhenThereIsSpace) {
  Start();
  UploadTinyGraph("path", Durable());
  UploadTinyModel("tiny", Durable());
  ASSERT_EQ(DurabilityOf("path"), v1::DURABILITY_DURABLE);

  Fill();
  UploadTinyGraph("waits");  // nobody knows yet that the disk is full
  AwaitOther("waits", v1::DURABILITY_WRITING);
  const auto waits = client_->GetGraph("waits");
  ASSERT_TRUE(waits.ok()) << waits.status();
  EXPECT_EQ(waits->durability(), v1::DURABILITY_MEMORY);
  EXPECT_NE(waits->durability_error().find("No space left"), std::string::npos) << waits->durability_error();
  Await("vicinal_versions_not_durable 2");  // the graph and its features
  EXPECT_FALSE(Exports("vicinal_state_failures_total{kind=\"disk_full\"} 0"));

  v1::UploadGraphSpec spec;
  spec.set_name("refused");
  spec.set_node_count(2);
  const OwnedTensor edges = Ints("edge_index", {2, 1}, {0, 1});
  ExpectError(client_->UploadGraph(spec, {edges.view()}).status(), absl::StatusCode::kResourceExhausted,
              "STATE_DISK_FULL");
  ExpectServes();
  v1::ClassifyRequest request = TinyRequest();
  request.set_return_logits(true);
  request.mutable_target()->set_graph("waits");
  const auto before = client_->Classify(request);
  ASSERT_TRUE(before.ok()) << before.status();

  Free();
  Await("vicinal_versions_not_durable 0");  // the graph's features follow it
  EXPECT_EQ(DurabilityOf("waits"), v1::DURABILITY_DURABLE);
  EXPECT_TRUE(client_->UploadGraph(spec, {edges.view()}).ok()) << "uploads are accepted again";

  server_->Signal(SIGKILL);
  EXPECT_EQ(server_->Wait(), -SIGKILL);
  Start();
  const auto after = client_->Classify(request);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->logits().data(), before->logits().data());
  EXPECT_EQ(after->served_by().SerializeAsString(), before->served_by().SerializeAsString());
}

// Without the time that the writer would have waited before it tried again.
TEST_F(DiskFullTest, AStopWritesWhatWaits) {
  Start();
  UploadTinyModel("tiny", Durable());
  UploadTinyGraph("other", Durable());  // from now on versions are claimed
  Fill();
  UploadTinyGraph("path");
  AwaitOther("path", v1::DURABILITY_WRITING);
  const auto before = client_->Classify(TinyRequest());
  ASSERT_TRUE(before.ok()) << before.status();
  Free();
  EXPECT_EQ(server_->Stop(), 0);
  Start();
  const auto after = client_->Classify(TinyRequest());
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->served_by().SerializeAsString(), before->served_by().SerializeAsString());
}

TEST_F(DiskFullTest, AStopTellsWhatItCouldNotWrite) {
  Start();
  UploadTinyGraph("other", Durable());
  Fill();
  UploadTinyGraph("path");
  AwaitOther("path", v1::DURABILITY_WRITING);
  EXPECT_EQ(server_->Stop(), 0);
  EXPECT_NE(server_->Log().find("stops with versions that could not be written"), std::string::npos) << server_->Log();
}

// Waiting for DURABLE ends with the reason; deleting what waits lets others in.
TEST_F(DiskFullTest, WhatDoesNotFitCanBeDeleted) {
  Start();
  UploadTinyGraph("path", Durable());
  Fill();
  v1::UploadGraphSpec spec;
  spec.set_name("large");
  spec.set_node_count(2);
  const OwnedTensor edges = Ints("edge_index", {2, 1}, {0, 1});
  ExpectError(client_->UploadGraph(spec, {edges.view()}, Durable()).status(), absl::StatusCode::kResourceExhausted,
              "STATE_DISK_FULL");
  EXPECT_EQ(DurabilityOf("large"), v1::DURABILITY_MEMORY);
  ASSERT_TRUE(client_->DeleteGraph("large").ok());
  EXPECT_TRUE(Exports("vicinal_versions_not_durable 0"));
  Free();
  EXPECT_TRUE(client_->UploadGraph(spec, {edges.view()}).ok());
}

class LargerDiskTest : public DiskFullTest {
 protected:
  LargerDiskTest() { megabytes_ = 40; }
};

TEST_F(LargerDiskTest, WhatIsTooLargeForItDoesNotKeepOthersOut) {
  Start();
  constexpr int64_t kNodes = 200'000, kFeatures = 60;  // 46 MiB
  v1::UploadGraphSpec spec;
  spec.set_name("large");
  spec.set_node_count(kNodes);
  const OwnedTensor edges = Ints("edge_index", {2, 1}, {0, 1});
  const OwnedTensor x = Floats("x", {kNodes, kFeatures}, std::vector<float>(kNodes * kFeatures, 1.0f));
  ExpectError(client_->UploadGraph(spec, {edges.view(), x.view()}, Durable()).status(),
              absl::StatusCode::kResourceExhausted, "STATE_DISK_FULL");
  v1::UploadGraphSpec small;
  small.set_name("small");
  small.set_node_count(2);
  const auto graph = client_->UploadGraph(small, {edges.view()}, Durable());
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(DurabilityOf("small"), v1::DURABILITY_DURABLE);
  EXPECT_EQ(DurabilityOf("large"), v1::DURABILITY_MEMORY);
  spec.set_name("another");
  ExpectError(client_->UploadGraph(spec, {edges.view(), x.view()}).status(), absl::StatusCode::kResourceExhausted,
              "STATE_DISK_FULL");
}

}  // namespace
}  // namespace vicinal::testing
