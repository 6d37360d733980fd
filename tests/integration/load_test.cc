// SPDX-License-Identifier: Apache-2.0
// Load generation (client/cpp/load) against the real server: every method's request is understood, errors are counted
// by code and reason, and the server agrees on the number of calls.
#include <gmock/gmock.h>

#include "client/cpp/load/run.h"
#include "tests/integration/fixture.h"

namespace vicinal::testing {
namespace {

using client::load::LoadOptions;
using client::load::LoadResult;
using client::load::Method;
using client::load::Mix;
using client::load::MixOptions;
using client::load::Tally;

class LoadTest : public IntegrationTest {
 protected:
  void SetUp() override {
    StartServer();
    UploadTinyGraph();
    UploadTinyModel();
  }

  static MixOptions TinyMix(Method method) {
    MixOptions mix;
    mix.methods = {{method, 1.0}};
    mix.subjects = {{"path", "tiny", 5, 3}};
    mix.least_nodes = 1;
    mix.most_nodes = 7;
    mix.node_zipf = 1;
    mix.feature_rows = 2;
    mix.return_probabilities = true;
    mix.deadlines = {60};
    return mix;
  }

  // 40 calls, four at a time.
  LoadResult Run(const MixOptions& options, bool streams = false) const {
    LoadOptions load;
    load.streams = streams;
    load.schedule.steps = {{4, 4}};
    load.schedule.step_seconds = 600;
    load.schedule.step_calls = 40;
    load.threads = 2;
    load.connections = 3;
    client::ClientOptions server;
    server.target = server_->grpc_address();
    const Mix mix(options);
    auto result = client::load::RunLoad(server, load, mix);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *std::move(result) : LoadResult();
  }

  static void ExpectAllOk(const LoadResult& result, bool timed) {
    for (const auto& [name, error] : result.record.errors()) ADD_FAILURE() << name << ": " << error.message;
    ASSERT_EQ(result.record.steps().size(), 1);
    const Tally total = result.record.steps()[0].Total();
    EXPECT_EQ(total.latency.count(), 40);
    EXPECT_EQ(result.record.steps()[0].ended, 40);
    EXPECT_EQ(total.server.count(), timed ? 40 : 0);
    EXPECT_LE(total.server.max(), total.service.max());
    ASSERT_EQ(result.step_seconds.size(), 1);
    EXPECT_GT(result.step_seconds[0], 0);
  }
};

TEST_F(LoadTest, EveryMethodIsAnswered) {
  for (const Method method : {Method::kClassify, Method::kEmbed, Method::kClassifyStream, Method::kEmbedStream,
                              Method::kClassifyFeatures, Method::kClassifyRows}) {
    SCOPED_TRACE(client::load::TraitsOf(method).name);
    ExpectAllOk(Run(TinyMix(method)), /*timed=*/true);
  }
  ExpectAllOk(Run(TinyMix(Method::kCapabilities)), /*timed=*/false);
  ExpectAllOk(Run(TinyMix(Method::kHealth)), /*timed=*/false);
}

TEST_F(LoadTest, CallsGoOverStreams) {
  for (const Method method : {Method::kClassify, Method::kEmbed, Method::kClassifyFeatures, Method::kClassifyRows}) {
    SCOPED_TRACE(client::load::TraitsOf(method).name);
    ExpectAllOk(Run(TinyMix(method), /*streams=*/true), /*timed=*/true);
  }
  // An error is its call's, not the stream's.
  MixOptions unknown = TinyMix(Method::kClassify);
  unknown.subjects[0].model = "unknown";
  const LoadResult failed = Run(unknown, /*streams=*/true);
  ASSERT_EQ(failed.record.errors().size(), 1);
  EXPECT_EQ(failed.record.errors().begin()->second.code, absl::StatusCode::kNotFound);
  EXPECT_EQ(failed.record.errors().begin()->second.count, 40);
}

TEST_F(LoadTest, SmallGraphsAreClassified) {
  v1::UploadModelSpec spec;
  spec.set_name("pool");
  spec.set_architecture_json(ReadTestFile("models/proteins-ginpool.json"));
  const auto model =
      client_->UploadModel(spec, {Bytes("weights", ReadTestFile("models/proteins-ginpool.safetensors")).view()});
  ASSERT_TRUE(model.ok()) << model.status();
  MixOptions mix = TinyMix(Method::kClassifyGraphs);
  mix.subjects = {{"", "pool", 0, model->feature_count()}};
  ExpectAllOk(Run(mix), /*timed=*/true);
}

TEST_F(LoadTest, ErrorsAreCountedByCodeAndReason) {
  MixOptions mix = TinyMix(Method::kClassify);
  mix.subjects.push_back({"missing", "tiny", 5, 3});
  const LoadResult result = Run(mix);
  ASSERT_EQ(result.record.errors().size(), 1);
  const auto& [name, error] = *result.record.errors().begin();
  EXPECT_THAT(name, ::testing::StartsWith("NOT_FOUND "));
  EXPECT_EQ(error.code, absl::StatusCode::kNotFound);
  EXPECT_THAT(error.message, ::testing::HasSubstr("'missing'"));
  const Tally total = result.record.steps()[0].Total();
  EXPECT_EQ(total.failed.count(), error.count);
  EXPECT_EQ(total.latency.count(), 40 - error.count);
  ExpectServes();
}

}  // namespace
}  // namespace vicinal::testing
