// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/graph_handler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/work_limits.h"
#include "engine/reorder/order.h"
#include "proto/wire/crc32c.h"
#include "tests/server/fake_engine.h"

namespace vicinal::server {
namespace {

using ::vicinal::testing::FakeEngine;

class GraphHandlerTest : public ::testing::Test {
 protected:
  GraphHandlerTest()
      : metrics_({}), uploads_({.budget = &engine_.budget}), handler_(engine_, uploads_, metrics_, limits_) {}

  static v1::UploadGraphRequest Spec(const std::string& name, bool replace = false) {
    v1::UploadGraphRequest request;
    v1::UploadGraphSpec* spec = request.mutable_spec();
    spec->set_name(name);
    spec->set_upload_id("upload-of-" + name);
    spec->set_node_count(3);
    spec->set_replace(replace);
    v1::TensorSpec* tensor = spec->add_tensors();
    tensor->set_name("edge_index");
    tensor->set_dtype(v1::DATA_TYPE_INT32);
    tensor->add_shape(2);
    tensor->add_shape(1);
    return request;
  }
  static v1::UploadGraphRequest Chunk() {
    v1::UploadGraphRequest request;
    v1::UploadChunk* chunk = request.mutable_chunk();
    chunk->set_tensor("edge_index");
    chunk->set_data(std::string("\0\0\0\0\1\0\0\0", 8));
    chunk->set_crc32c(wire::Crc32c(chunk->data().data(), 8));
    return request;
  }
  static v1::UploadGraphRequest Finish() {
    v1::UploadGraphRequest request;
    request.mutable_finish();
    return request;
  }
  // All of it, on a new stream.
  Status Upload(const v1::UploadGraphRequest& spec, v1::UploadGraphResponse* response) {
    const auto stream = handler_.UploadGraph(call_);
    VICINAL_RETURN_IF_ERROR(stream->Take(spec).status());
    VICINAL_RETURN_IF_ERROR(stream->Take(Chunk()).status());
    VICINAL_RETURN_IF_ERROR(stream->Take(Finish()).status());
    return stream->Finish(call_, response);
  }

  Limits limits_;
  FakeEngine engine_;
  Metrics metrics_;
  UploadStore uploads_;
  GraphHandler handler_;
  Call call_;
};

TEST_F(GraphHandlerTest, HandsTheGraphToTheEngineOnce) {
  v1::UploadGraphResponse first, second;
  ASSERT_TRUE(Upload(Spec("new"), &first).ok());
  ASSERT_TRUE(Upload(Spec("new"), &second).ok());
  EXPECT_EQ(engine_.puts, 1);
  EXPECT_EQ(engine_.last_graph->edge_index.bytes.size(), 8u);
  EXPECT_EQ(first.graph().SerializeAsString(), second.graph().SerializeAsString());
  EXPECT_EQ(first.upload().state(), v1::Upload::STATE_FINISHED);
}

TEST_F(GraphHandlerTest, ABusyEngineMeansToSendAgain) {
  engine_.fail_put = Unavailable("TOO_MANY", "busy", std::chrono::milliseconds(10));
  v1::UploadGraphResponse response;
  EXPECT_EQ(Upload(Spec("new"), &response).code(), StatusCode::kUnavailable);
  EXPECT_FALSE(uploads_.Knows("upload-of-new"));
  engine_.fail_put = OkStatus();
  EXPECT_TRUE(Upload(Spec("new"), &response).ok());
}

TEST_F(GraphHandlerTest, TakenNamesAreRefusedAtTheFirstMessage) {
  v1::UploadGraphResponse response;
  EXPECT_EQ(Upload(Spec("g"), &response).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(engine_.puts, 0);
  EXPECT_TRUE(Upload(Spec("g", /*replace=*/true), &response).ok());
  call_.routed_graph = "elsewhere";
  EXPECT_EQ(Upload(Spec("fresh"), &response).code(), StatusCode::kInvalidArgument);
}

TEST_F(GraphHandlerTest, AFinishThatCannotBeWaitedForLeavesTheUploadOpen) {
  const auto stream = handler_.UploadGraph(call_);
  ASSERT_TRUE(stream->Take(Spec("new")).ok());
  ASSERT_TRUE(stream->Take(Chunk()).ok());
  v1::UploadGraphRequest finish = Finish();
  finish.mutable_finish()->set_wait_for(v1::WAIT_FOR_DURABLE);
  EXPECT_EQ(stream->Take(finish).status().code(), StatusCode::kFailedPrecondition);
  finish.mutable_finish()->set_wait_for(static_cast<v1::WaitFor>(9));
  EXPECT_EQ(stream->Take(finish).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(engine_.puts, 0);
  EXPECT_EQ(uploads_.open_uploads(), 1);
  finish.mutable_finish()->set_wait_for(v1::WAIT_FOR_READY);
  ASSERT_TRUE(stream->Take(finish).ok());
  v1::UploadGraphResponse response;
  ASSERT_TRUE(stream->Finish(call_, &response).ok());
  ASSERT_TRUE(stream->waits());
  EXPECT_TRUE(*stream->Look(&response));
  EXPECT_EQ(engine_.last_waited.name, "new");
}

// A client that waits longer than --upload_ttl asks for the end of its upload again.
TEST_F(GraphHandlerTest, AnUploadIsKnownWhileItsGraphIsPrepared) {
  FakeClock clock;
  UploadStore::Options options;
  options.ttl = std::chrono::seconds(60);
  options.budget = &engine_.budget;
  options.clock = &clock;
  UploadStore uploads(options);
  GraphHandler handler(engine_, uploads, metrics_, limits_);
  engine_.prepares = true;
  {
    const auto stream = handler.UploadGraph(call_);
    v1::UploadGraphResponse response;
    for (const auto& request : {Spec("new"), Chunk(), Finish()}) ASSERT_TRUE(stream->Take(request).ok());
    ASSERT_TRUE(stream->Finish(call_, &response).ok());
  }
  v1::UploadGraphRequest resume;
  resume.set_resume_upload_id("upload-of-new");
  for (int minute = 0; minute < 3; ++minute) {
    clock.Advance(std::chrono::seconds(61));
    EXPECT_TRUE(handler.UploadGraph(call_)->Take(resume).ok());
  }
  EXPECT_EQ(engine_.last_waited.name, "new");
  engine_.prepares = false;
  clock.Advance(std::chrono::seconds(61));
  EXPECT_EQ(handler.UploadGraph(call_)->Take(resume).status().code(), StatusCode::kNotFound);
}

TEST_F(GraphHandlerTest, ListsInPages) {
  v1::UploadGraphResponse response;
  ASSERT_TRUE(Upload(Spec("another"), &response).ok());
  v1::ListGraphsRequest request;
  request.set_page_size(1);
  v1::ListGraphsResponse page;
  ASSERT_TRUE(handler_.ListGraphs(call_, request, &page).ok());
  ASSERT_EQ(page.graphs_size(), 1);
  EXPECT_EQ(page.graphs(0).name(), "another");
  request.set_page_token(page.next_page_token());
  page.Clear();
  ASSERT_TRUE(handler_.ListGraphs(call_, request, &page).ok());
  EXPECT_EQ(page.graphs(0).name(), "g");
  EXPECT_TRUE(page.next_page_token().empty());
}

TEST_F(GraphHandlerTest, AStreamThatEndsBeforeAnythingCameLeavesNothing) {
  auto chunk = Chunk();
  chunk.mutable_chunk()->set_tensor("nobody");
  {
    const auto stream = handler_.UploadGraph(call_);
    ASSERT_TRUE(stream->Take(Spec("new")).ok());
    EXPECT_TRUE(uploads_.Knows("upload-of-new"));
    EXPECT_EQ(stream->Take(chunk).status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_FALSE(uploads_.Knows("upload-of-new"));
  v1::UploadGraphResponse response;
  const auto stream = handler_.UploadGraph(call_);
  ASSERT_TRUE(stream->Take(Spec("new")).ok());
  ASSERT_TRUE(stream->End(&response).ok());
  EXPECT_EQ(response.upload().state(), v1::Upload::STATE_UPLOADING);
  stream->Leave();
  EXPECT_EQ(uploads_.open_uploads(), 0);
}

TEST_F(GraphHandlerTest, AnOrderThatCannotBeMadeIsRefusedAtTheFirstMessage) {
  auto spec = Spec("new");
  spec.mutable_spec()->set_reorder(static_cast<v1::Reorder>(99));
  v1::UploadGraphResponse response;
  const Status unknown = Upload(spec, &response);
  EXPECT_EQ(unknown.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(DetailOf(unknown)->reason, "UNKNOWN_ORDER");
  EXPECT_EQ(unknown.message(), "spec.reorder is unknown; GetCapabilities lists the known orders");
  spec.mutable_spec()->set_reorder(v1::REORDER_METIS);
  const Status status = Upload(spec, &response);
  if (IsAvailable(OrderKind::kMetis)) {
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(engine_.last_graph->order, OrderKind::kMetis);
  } else {
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(DetailOf(status)->reason, "METIS_MISSING");
  }
  auto community = Spec("another");
  community.mutable_spec()->set_reorder(v1::REORDER_COMMUNITY);
  ASSERT_TRUE(Upload(community, &response).ok());
  EXPECT_EQ(engine_.last_graph->order, OrderKind::kCommunity);
}

TEST_F(GraphHandlerTest, TuningIsHandedOnWithItsLimits) {
  v1::TuneGraphRequest request;
  request.set_name("g");
  request.set_version(3);
  request.set_operation("attention");
  request.add_kinds("gat");
  request.add_widths(16);
  request.add_widths(64);
  request.add_heads(8);
  request.add_outputs(32);
  request.add_programs("0123456789abcdef");
  request.mutable_budget()->set_seconds(2);
  request.mutable_budget()->set_nanos(500'000'000);
  request.mutable_force()->set_kernel("simd_rows");
  (*request.mutable_force()->mutable_parameters())["feature_tile"] = 64;
  request.set_no_wait(true);
  call_.limits.deadline = Clock::Real().Now() + std::chrono::hours(1);
  engine_.tuning.key.operation = "attention";
  v1::TuneGraphResponse response;
  ASSERT_TRUE(handler_.TuneGraph(call_, request, &response).ok());
  const TuneGraphRequest& given = *engine_.last_tuning;
  EXPECT_EQ(given.graph, "g");
  EXPECT_EQ(given.graph_version, 3);
  EXPECT_EQ(given.kinds, std::vector<std::string>{"gat"});
  EXPECT_EQ(given.widths, (std::vector<int64_t>{16, 64}));
  EXPECT_EQ(given.heads, std::vector<int64_t>{8});
  EXPECT_EQ(given.outputs, std::vector<int64_t>{32});
  EXPECT_EQ(given.programs, std::vector<std::string>{"0123456789abcdef"});
  EXPECT_EQ(given.budget, std::chrono::milliseconds(2500));
  EXPECT_EQ(given.force->kernel, "simd_rows");
  EXPECT_EQ(given.force->parameters.at("feature_tile"), 64);
  EXPECT_FALSE(given.wait);
  EXPECT_EQ(given.limits.deadline, call_.limits.deadline);
  EXPECT_EQ(call_.graph, "g");
  EXPECT_EQ(response.name(), "g");
  EXPECT_EQ(response.version(), 7);
  ASSERT_EQ(response.records_size(), 1);
  EXPECT_EQ(response.records(0).key().operation(), "attention");
}

TEST_F(GraphHandlerTest, WhatIsForcedIsForTheEngineToJudge) {
  v1::TuneGraphRequest request;
  request.set_name("g");
  request.mutable_force();
  v1::TuneGraphResponse response;
  ASSERT_TRUE(handler_.TuneGraph(call_, request, &response).ok());
  ASSERT_TRUE(engine_.last_tuning->force.has_value());
  EXPECT_EQ(engine_.last_tuning->force->kernel, "");
}

TEST_F(GraphHandlerTest, TuningRequestsThatMakeNoSense) {
  v1::TuneGraphResponse response;
  const auto tune = [&](const std::function<void(v1::TuneGraphRequest&)>& spoil) {
    v1::TuneGraphRequest request;
    request.set_name("g");
    spoil(request);
    return handler_.TuneGraph(call_, request, &response);
  };
  const std::pair<const char*, std::function<void(v1::TuneGraphRequest&)>> cases[] = {
      {"name", [](v1::TuneGraphRequest& r) { r.set_name("No Good"); }},
      {"version", [](v1::TuneGraphRequest& r) { r.set_version(-1); }},
      {"budget", [](v1::TuneGraphRequest& r) { r.mutable_budget(); }},
      {"budget", [](v1::TuneGraphRequest& r) { r.mutable_budget()->set_seconds(-1); }},
      {"budget", [](v1::TuneGraphRequest& r) { r.mutable_budget()->set_seconds(601); }},
      {"budget", [](v1::TuneGraphRequest& r) { r.mutable_budget()->set_seconds(INT64_MAX); }},
      {"budget", [](v1::TuneGraphRequest& r) { r.mutable_budget()->set_nanos(-5); }},
      {"budget", [](v1::TuneGraphRequest& r) { r.mutable_budget()->set_nanos(1'000'000'000); }},
  };
  for (const auto& [field, spoil] : cases) {
    const Status status = tune(spoil);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << field;
    ASSERT_TRUE(DetailOf(status).has_value());
    EXPECT_EQ(DetailOf(status)->field, field);
  }
  EXPECT_FALSE(engine_.last_tuning.has_value());
  call_.routed_graph = "elsewhere";
  EXPECT_EQ(tune([](v1::TuneGraphRequest&) {}).code(), StatusCode::kInvalidArgument);
}

TEST_F(GraphHandlerTest, TuningMayBeLookedAt) {
  v1::GetTuningRequest request;
  v1::GetTuningResponse response;
  EXPECT_EQ(handler_.GetTuning(call_, request, &response).code(), StatusCode::kInvalidArgument);
  request.set_name("unknown");
  EXPECT_EQ(handler_.GetTuning(call_, request, &response).code(), StatusCode::kNotFound);
  request.set_name("g");
  ASSERT_TRUE(handler_.GetTuning(call_, request, &response).ok());
  EXPECT_EQ(response.records_size(), 2);
  EXPECT_EQ(response.records_left_out(), 0);
}

TEST_F(GraphHandlerTest, APictureMayBeLookedAt) {
  v1::GetGraphPictureRequest request;
  v1::GraphPicture picture;
  const auto code = [&] { return handler_.GetGraphPicture(call_, request, &picture).code(); };
  EXPECT_EQ(code(), StatusCode::kInvalidArgument) << "no name";
  request.set_name("unknown");
  EXPECT_EQ(code(), StatusCode::kNotFound);
  engine_.Serve("g");
  engine_.picture = {"g", 7, 3, 2, OrderKind::kRcm, {1, 2}, 2, 3, {0, 1, 1, 0}, {2, 0, 0, 0}};
  request.set_name("g");
  for (const int32_t tiles : {-1, 257}) {
    request.set_tiles(tiles);
    const Status status = handler_.GetGraphPicture(call_, request, &picture);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(DetailOf(status)->field, "tiles");
  }
  for (const int32_t tiles : {0, 256}) {
    request.set_tiles(tiles);
    EXPECT_EQ(code(), StatusCode::kOk);
  }
  EXPECT_EQ(picture.ShortDebugString(),
            "name: \"g\" version: 7 node_count: 3 edge_count: 2 order: \"rcm\" degree_counts: 1 degree_counts: 2 "
            "tiles: 2 row_stride: 3 before: 0 before: 1 before: 1 before: 0 after: 2 after: 0 after: 0 after: 0");
  engine_.picture.before.assign(1 << 20, int64_t{1} << 62);
  EXPECT_EQ(code(), StatusCode::kInvalidArgument) << "more than a reply";
  call_.routed_graph = "elsewhere";
  EXPECT_EQ(code(), StatusCode::kInvalidArgument);
}

TEST_F(GraphHandlerTest, TuningIsExportedAndImportedAsText) {
  v1::GetTuningRequest look;
  v1::GetTuningResponse response;
  look.set_name("g");
  look.set_export_text(true);
  ASSERT_TRUE(handler_.GetTuning(call_, look, &response).ok());
  EXPECT_EQ(response.text(), "decisions");
  EXPECT_EQ(response.version(), 7);
  EXPECT_EQ(response.records_size(), 0);
  engine_.exported.assign(100 << 20, 'x');
  EXPECT_EQ(handler_.GetTuning(call_, look, &response).code(), StatusCode::kInvalidArgument) << "more than a reply";
  v1::TuneGraphRequest request;
  v1::TuneGraphResponse tuned;
  request.set_name("g");
  request.set_import_text("");
  ASSERT_TRUE(handler_.TuneGraph(call_, request, &tuned).ok());
  EXPECT_EQ(engine_.last_tuning->import_text, "") << "set, if empty";
  request.clear_import_text();
  ASSERT_TRUE(handler_.TuneGraph(call_, request, &tuned).ok());
  EXPECT_FALSE(engine_.last_tuning->import_text.has_value());
}

TEST_F(GraphHandlerTest, TuningStaysWithinAReply) {
  engine_.tuning.note = std::string(500, 'n');
  limits_.max_response_bytes = 1024;
  v1::GetTuningRequest request;
  request.set_name("g");
  v1::GetTuningResponse known;
  ASSERT_TRUE(handler_.GetTuning(call_, request, &known).ok());
  EXPECT_EQ(known.records_size(), 1);
  EXPECT_EQ(known.records_left_out(), 1);
  limits_.max_response_bytes = 500;
  v1::TuneGraphRequest tune;
  tune.set_name("g");
  v1::TuneGraphResponse tuned;
  ASSERT_TRUE(handler_.TuneGraph(call_, tune, &tuned).ok());
  EXPECT_EQ(tuned.records_left_out(), 1);
}

// The first message of an upload of two columns for the graph g.
v1::UploadFeaturesRequest FeaturesSpec() {
  v1::UploadFeaturesRequest request;
  request.mutable_spec()->set_graph("g");
  request.mutable_spec()->set_name("f");
  request.mutable_spec()->set_upload_id("upload-of-f");
  v1::TensorSpec* tensor = request.mutable_spec()->add_tensors();
  tensor->set_name("x");
  tensor->set_dtype(v1::DATA_TYPE_FLOAT32);
  tensor->add_shape(FakeEngine::kNodes);
  tensor->add_shape(2);
  return request;
}

TEST_F(GraphHandlerTest, FeaturesThatNeverFitBesideTheOthersOfTheirGraphAreRefused) {
  const int64_t budget = engine_.budget.Snapshot().budget;
  const int64_t bytes = FakeEngine::kNodes * 2 * 4;
  engine_.Serve("g");
  engine_.AddFeatures("g", (budget - bytes) / 4);
  engine_.keeps = true;
  EXPECT_TRUE(handler_.UploadFeatures(call_)->Take(FeaturesSpec()).ok()) << "they fill the budget";
  engine_.AddFeatures("g", 1);
  v1::UploadFeaturesRequest request = FeaturesSpec();
  request.mutable_spec()->set_upload_id("another-upload");
  const Status refused = handler_.UploadFeatures(call_)->Take(request).status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused;
  EXPECT_EQ(DetailOf(refused)->reason, "OVER_BUDGET");
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("with its 2 feature sets and this one"));
  // Where nothing leaves memory, the budget alone decides.
  engine_.keeps = false;
  EXPECT_TRUE(handler_.UploadFeatures(call_)->Take(request).ok());
}

TEST_F(GraphHandlerTest, PublishingFeaturesIsLimitedAsTheirCallIs) {
  engine_.Serve("g");
  const auto cancel = std::make_shared<CancelToken>();
  call_.limits.cancel = cancel;
  const auto stream = handler_.UploadFeatures(call_);
  ASSERT_TRUE(stream->Take(FeaturesSpec()).ok());
  v1::UploadFeaturesRequest request;
  v1::UploadChunk* const chunk = request.mutable_chunk();
  chunk->set_tensor("x");
  chunk->set_data(std::string(FakeEngine::kNodes * 2 * 4, '\0'));
  chunk->set_crc32c(wire::Crc32c(chunk->data().data(), chunk->data().size()));
  ASSERT_TRUE(stream->Take(request).ok());
  request.mutable_finish();
  ASSERT_TRUE(stream->Take(request).ok());
  v1::UploadFeaturesResponse response;
  const Status finished = stream->Finish(call_, &response);
  ASSERT_TRUE(finished.ok()) << finished;
  EXPECT_EQ(engine_.put_limits.cancel, cancel);
}

// The rows that a client sends are of the nodes and edges that the graph has when the upload begins. Its replacement
// may have as many of both, in another order.
TEST_F(GraphHandlerTest, FeaturesAreOfTheVersionThatWasThereWhenTheirUploadBegan) {
  for (const bool edges : {false, true}) {
    SCOPED_TRACE(edges ? "of edges" : "of nodes");
    engine_.Serve("g", 7);
    v1::UploadFeaturesRequest request = FeaturesSpec();
    v1::TensorSpec& tensor = *request.mutable_spec()->mutable_tensors(0);
    if (edges) {
      request.mutable_spec()->set_upload_id("upload-of-edges");
      tensor.set_name("edge_attr");
      tensor.set_shape(0, FakeEngine::kEdges);
    }
    const auto begun = handler_.UploadFeatures(call_);
    ASSERT_TRUE(begun->Take(request).ok());
    v1::UploadFeaturesRequest chunk;
    chunk.mutable_chunk()->set_tensor(tensor.name());
    chunk.mutable_chunk()->set_data(std::string(static_cast<size_t>(tensor.shape(0) * 2 * 4), '\0'));
    const std::string& data = chunk.chunk().data();
    chunk.mutable_chunk()->set_crc32c(wire::Crc32c(data.data(), data.size()));
    ASSERT_TRUE(begun->Take(chunk).ok());
    engine_.Serve("g", 8);
    const auto resumed = handler_.UploadFeatures(call_);  // with the spec, as a client does that lost its connection
    ASSERT_TRUE(resumed->Take(request).ok());
    v1::UploadFeaturesRequest finish;
    finish.mutable_finish();
    ASSERT_TRUE(resumed->Take(finish).ok());
    v1::UploadFeaturesResponse response;
    ASSERT_TRUE(resumed->Finish(call_, &response).ok());
    EXPECT_EQ(engine_.features_are_of, 7);
  }
}

TEST_F(GraphHandlerTest, FeaturesNeedAReadyGraph) {
  v1::UploadFeaturesRequest request = FeaturesSpec();
  // The fake's graph is READY in name only: no version serves.
  EXPECT_EQ(handler_.UploadFeatures(call_)->Take(request).status().code(), StatusCode::kFailedPrecondition);
  request.mutable_spec()->set_graph("unknown");
  EXPECT_EQ(handler_.UploadFeatures(call_)->Take(request).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace vicinal::server
