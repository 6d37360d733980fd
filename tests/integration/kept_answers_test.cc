// SPDX-License-Identifier: Apache-2.0
// Kept answers over a real socket: the reply says so, the bits stay, and --keep_answers=never turns them off.
#include <string>

#include "tests/integration/fixture.h"
#include "tests/support/eventually.h"

namespace vicinal::testing {
namespace {

constexpr char kOnePass[] = "vicinal_answer_passes_total{outcome=\"kept\"} 1";

class KeptAnswersServerTest : public IntegrationTest {
 protected:
  void Start(const std::string& mode) {
    ASSERT_NO_FATAL_FAILURE(StartServer({"--tuning_budget=0s", "--keep_answers=" + mode}));
    UploadTinyGraph();
    UploadTinyModel();
  }
  v1::ClassifyResponse Ask() {
    auto request = TinyRequest();
    request.set_return_logits(true);
    const auto reply = client_->Classify(request);
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? *reply : v1::ClassifyResponse();
  }
  std::string Page() const {
    const auto page = server_->Scrape();
    return page.ok() ? *page : "";
  }
};

TEST_F(KeptAnswersServerTest, TheReplySaysSoAndTheBitsStay) {
  ASSERT_NO_FATAL_FAILURE(Start("always"));
  const v1::ClassifyResponse computed = Ask();
  EXPECT_FALSE(computed.timing().kept_answers());
  v1::ClassifyResponse kept = Ask();
  while (!kept.timing().kept_answers()) kept = Ask();
  EXPECT_EQ(kept.logits().data(), computed.logits().data());
  EXPECT_EQ(kept.scores().data(), computed.scores().data());
  EXPECT_EQ(kept.served_by().SerializeAsString(), computed.served_by().SerializeAsString());
  EXPECT_EQ(kept.timing().computed_node_count(), 0);
  const std::string page = Page();
  EXPECT_NE(page.find("vicinal_kept_answers 1"), std::string::npos);
  EXPECT_NE(page.find("vicinal_results_total{computed=\"kept_answers\"} 1"), std::string::npos);
  // A pass is counted once it has ended, when its answers may have served already.
  EXPECT_TRUE(Eventually([&] { return Page().find(kOnePass) != std::string::npos; }));
}

TEST_F(KeptAnswersServerTest, NeverTurnsThemOff) {
  ASSERT_NO_FATAL_FAILURE(Start("never"));
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(Ask().timing().kept_answers());
  EXPECT_NE(Page().find("vicinal_kept_answers 0"), std::string::npos);
}

}  // namespace
}  // namespace vicinal::testing
