// SPDX-License-Identifier: Apache-2.0
// Uploads over a road that breaks, with our own client: gone on with by itself, and where it gives up, by the next one.
#include <string>
#include <vector>

#include "tests/integration/cutting_proxy.h"
#include "tests/integration/fixture.h"

namespace vicinal::testing {
namespace {

constexpr int64_t kEdges = 65'536, kTotal = 16 * kEdges;  // a mebibyte
constexpr int64_t kCutAfter = 300'000;

class ResumeTest : public IntegrationTest {
 protected:
  void SetUp() override { StartServer({"--upload_ttl=1h"}); }

  // A client that waits for nothing, of whoever listens at `target`.
  std::unique_ptr<client::Client> ClientOf(const std::string& target, std::chrono::milliseconds keepalive = {}) {
    client::ClientOptions options;
    if (keepalive.count() > 0) options.keepalive = keepalive;
    options.target = target;
    options.chunk_bytes = 64 << 10;
    options.sleep = [this](std::chrono::milliseconds) { ++waits_; };
    auto client = client::Client::Connect(options);
    return client.ok() ? *std::move(client) : nullptr;
  }

  absl::StatusOr<v1::Graph> Upload(client::Client& client, const std::string& upload_id = "") {
    v1::UploadGraphSpec spec;
    spec.set_name("far");
    spec.set_node_count(7);
    spec.set_upload_id(upload_id);
    std::vector<int64_t> ends(2 * kEdges);
    for (size_t i = 0; i < ends.size(); ++i) ends[i] = static_cast<int64_t>(i % 7);
    const OwnedTensor edges = Ints("edge_index", {2, kEdges}, ends);
    client::UploadOptions options;
    options.progress = [this](const client::UploadProgress& progress) { sent_.push_back(progress.sent_bytes); };
    return client.UploadGraph(spec, {edges.view()}, options);
  }

  int waits_ = 0;
  std::vector<int64_t> sent_;
};

TEST_F(ResumeTest, ByItself) {
  CuttingProxy road(server_->grpc_address(), kCutAfter, 2);
  const auto graph = Upload(*ClientOf(road.address()));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->edge_count(), kEdges);
  EXPECT_EQ(road.cuts_left(), 0);
  EXPECT_GE(waits_, 2);
  EXPECT_EQ(sent_.back(), kTotal);
}

// Nobody hears of a road that has gone: the client has to ask.
TEST_F(ResumeTest, ByItselfWhereNothingPassesAnyMore) {
  CuttingProxy road(server_->grpc_address(), kCutAfter, 1, CuttingProxy::Cut::kStall);
  const auto graph = Upload(*ClientOf(road.address(), std::chrono::seconds(1)));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->edge_count(), kEdges);
  EXPECT_EQ(road.cuts_left(), 0);
  EXPECT_GE(waits_, 1);
}

TEST_F(ResumeTest, ByTheNextClientWhereTheFirstGaveUp) {
  std::string upload_id;
  int64_t arrived = 0;
  // What a server has not read when a connection breaks is lost: now and then that is everything.
  for (int tries = 0; arrived == 0 && tries < 50; ++tries) {
    CuttingProxy road(server_->grpc_address(), kCutAfter / 2, 1000);
    waits_ = 0;
    const absl::Status status = Upload(*ClientOf(road.address())).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    upload_id = client::UploadIdOf(status);
    ASSERT_FALSE(upload_id.empty()) << status;
    EXPECT_EQ(waits_, 4);
    const auto kept = client_->GetUpload(upload_id);
    if (kept.ok()) arrived = kept->tensors(0).received_bytes();
  }
  EXPECT_GT(arrived, 0);
  EXPECT_LT(arrived, kTotal);
  sent_.clear();
  const auto graph = Upload(*ClientOf(server_->grpc_address()), upload_id);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->edge_count(), kEdges);
  EXPECT_GT(sent_.front(), arrived) << "what was there is not sent again";
}

}  // namespace
}  // namespace vicinal::testing
