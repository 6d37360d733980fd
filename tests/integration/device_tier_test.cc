// SPDX-License-Identifier: Apache-2.0
// A device with less memory than the graphs need, over a backend without a GPU (tests/engine/durable): where graphs are
// told to be, and what metrics count.
#include <string>

#include "tests/integration/fixture.h"

namespace vicinal::testing {
namespace {

constexpr int kGraphs = 30;

TEST_F(IntegrationTest, GraphsLeaveADeviceThatIsShortOfMemory) {
  ASSERT_NO_FATAL_FAILURE(StartServer(
      {"--device=cuda:0", "--device_memory_bytes=4096", "--tuning_budget=0s", "--keep_answers=never",
       "--log_level=debug", std::string("--backend_path=") + VICINAL_LIB_DIR + "/libvicinal_own_memory_backend.so"}));
  UploadTinyModel();
  std::string scores;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < kGraphs; ++i) {
      const std::string name = "path" + std::to_string(i);
      if (round == 0) UploadTinyGraph(name);
      v1::ClassifyRequest request = TinyRequest();
      request.mutable_target()->set_graph(name);
      const auto reply = client_->Classify(request);
      ASSERT_TRUE(reply.ok()) << reply.status();
      if (scores.empty()) scores = reply->scores().data();
      EXPECT_EQ(reply->scores().data(), scores) << "the graphs are equal";
      EXPECT_EQ(client_->GetGraph(name)->tier(), v1::Graph::TIER_DEVICE);
    }
  }
  const auto first = client_->GetGraph("path0");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->tier(), v1::Graph::TIER_HOST);
  EXPECT_TRUE(first->resident());
  EXPECT_EQ(first->state(), v1::Graph::STATE_READY);
  const auto page = server_->Scrape();
  ASSERT_TRUE(page.ok()) << page.status();
  for (const char* line : {"vicinal_device_memory_limit_bytes 4096", "vicinal_resident_graphs 30",
                           "vicinal_graphs_evicted_total 0", "vicinal_tier_bytes{tier=\"host\",kind=\"features\"} "}) {
    EXPECT_NE(page->find(line), std::string::npos) << line << '\n' << *page;
  }
  for (const char* line : {"vicinal_graphs_left_device_total 0", "vicinal_host_graphs 0",
                           "vicinal_graph_return_duration_seconds_count{outcome=\"loaded\"} 0",
                           "vicinal_tier_bytes{tier=\"device\",kind=\"features\"} 0"}) {
    EXPECT_EQ(page->find(line), std::string::npos) << line;
  }
  // With many graphs there would be a line per request at `info`.
  for (const char* const message : {"graph left the device", "graph returned to the device"}) {
    EXPECT_NE(server_->Log().find(std::string(R"("level":"debug","message":")") + message), std::string::npos);
    EXPECT_EQ(server_->Log().find(std::string(R"("level":"info","message":")") + message), std::string::npos);
  }
}

}  // namespace
}  // namespace vicinal::testing
