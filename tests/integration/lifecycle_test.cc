// SPDX-License-Identifier: Apache-2.0
// The server as a process: flags, ready file, health, reflection's presence, tokens, metrics, and how it stops.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/integration/fixture.h"
#include "tests/support/temporary_directory.h"
#include "vicinal/v1/graph.grpc.pb.h"
#include "vicinal/v1/inference.grpc.pb.h"
#include "vicinal/v1/server.grpc.pb.h"

namespace vicinal::testing {
namespace {

const std::string kServer = std::string(VICINAL_BIN_DIR) + "/vicinal-server";

class LifecycleTest : public IntegrationTest {
 protected:
  std::string TokenFile(const std::string& name, const std::string& text) const {
    const std::string path = folder_ / name;
    std::ofstream(path) << text;
    return path;
  }

  const TemporaryDirectory folder_;
};

// Every line is JSON, and the last says why there is no server.
void ExpectLoggedReason(const std::string& output, const std::string& reason) {
  std::istringstream lines(output);
  nlohmann::json last;
  for (std::string line; std::getline(lines, line);) {
    last = nlohmann::json::parse(line, nullptr, false);
    ASSERT_TRUE(last.is_object()) << output;
    EXPECT_NE(last["message"], "stopped") << output;
  }
  ASSERT_TRUE(last.is_object()) << output;
  EXPECT_EQ(last["level"], "error") << output;
  EXPECT_EQ(last["message"], "cannot start") << output;
  EXPECT_EQ(last["reason"], reason) << output;
}

TEST_F(LifecycleTest, BadFlagsAreNamedAndEndWithTwo) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--no_such_flag=1"}, "no_such_flag"},
      {{"--max_chunk_bytes=5"}, "max_chunk_bytes"},
      {{"--max_chunk_bytes=many"}, "max_chunk_bytes"},
      {{"--grpc_listen=nowhere"}, "grpc_listen"},
      {{"--log_level=loud"}, "log_level"},
      {{"--upload_ttl=-3s"}, "upload_ttl"},
      {{"--admin_token_file=/does/not/exist"}, "admin_token_file"},
      {{"--admin_token_file=" + TokenFile("long", std::string(4097, 't'))}, "at most 4096 are allowed"},
      {{"--admin_token_file=" + TokenFile("admin", "secret\n"), "--grpc_listen=0.0.0.0:0"}, "allow_plaintext_tokens"},
      {{"--infer_token_file=" + TokenFile("infer", "secret\n")}, "admin_token_file"},
      {{"stray"}, "stray"},
      {{"--tuning_budget=500"}, "500ms"},
      {{"--keep_answers=often"}, "auto, always or never"},
  };
  for (const auto& [flags, name] : cases) {
    const Outcome outcome = RunToEnd(kServer, flags);
    EXPECT_EQ(outcome.code, 2) << flags[0] << ": " << outcome.output;
    EXPECT_NE(outcome.output.find(name), std::string::npos) << flags[0] << ": " << outcome.output;
  }
  // What Abseil's flags cannot read they say themselves; all else is in the log.
  for (const char* flag : {"--max_chunk_bytes=5", "--log_level=loud", "stray"}) {
    ExpectLoggedReason(RunToEnd(kServer, {flag}).output, "BAD_FLAG");
  }
}

TEST_F(LifecycleTest, VersionAndHelp) {
  const Outcome version = RunToEnd(kServer, {"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_NE(version.output.find("vicinal-server 0."), std::string::npos) << version.output;
  const Outcome help = RunToEnd(kServer, {"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.output.find("max_response_bytes"), std::string::npos) << help.output;
}

TEST_F(LifecycleTest, UnusableDeviceAndTakenPortAreSaid) {
  const Outcome device = RunToEnd(kServer, {"--device=cuda:97", "--grpc_listen=127.0.0.1:0", "--metrics_listen="});
  EXPECT_EQ(device.code, 1);
  EXPECT_NE(device.output.find("cuda"), std::string::npos) << device.output;
  ASSERT_NO_FATAL_FAILURE(StartServer());
  const Outcome grpc = RunToEnd(kServer, {"--grpc_listen=" + server_->grpc_address(), "--metrics_listen="});
  EXPECT_EQ(grpc.code, 1);
  EXPECT_NE(grpc.output.find("grpc_listen"), std::string::npos) << grpc.output;
  ExpectLoggedReason(grpc.output, "CANNOT_LISTEN");
  const Outcome metrics =
      RunToEnd(kServer, {"--grpc_listen=127.0.0.1:0", "--metrics_listen=" + server_->metrics_address()});
  EXPECT_EQ(metrics.code, 1);
  EXPECT_NE(metrics.output.find("metrics_listen"), std::string::npos) << metrics.output;
  EXPECT_EQ(metrics.output.find("grpc_listen"), std::string::npos) << metrics.output;
  const Outcome both =
      RunToEnd(kServer, {"--grpc_listen=" + server_->grpc_address(), "--metrics_listen=" + server_->metrics_address()});
  EXPECT_EQ(both.code, 1);
  ExpectLoggedReason(both.output, "CANNOT_LISTEN");
  for (const std::string& address : {server_->grpc_address(), server_->metrics_address()}) {
    EXPECT_NE(both.output.find("cannot listen on " + address), std::string::npos) << both.output;
  }
  const Outcome unwritable = RunToEnd(
      kServer, {"--grpc_listen=127.0.0.1:0", "--metrics_listen=", "--ready_file=/nonexistent/folder/ready.json"});
  EXPECT_EQ(unwritable.code, 1);
  ExpectLoggedReason(unwritable.output, "CANNOT_WRITE");
}

TEST_F(LifecycleTest, HealthKnowsItsNames) {
  ASSERT_NO_FATAL_FAILURE(StartServer());
  for (const char* name :
       {"", "liveness", "readiness", "vicinal.v1.GraphService", "vicinal.v1.ModelService",
        "vicinal.v1.InferenceService", "vicinal.v1.ServerService", "inference.GRPCInferenceService"}) {
    const auto health = client_->CheckHealth(name);
    ASSERT_TRUE(health.ok()) << name << health.status();
    EXPECT_EQ(*health, "SERVING") << name;
  }
  EXPECT_EQ(client_->CheckHealth("nobody").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(LifecycleTest, ReflectionListsTheServices) {
  ASSERT_NO_FATAL_FAILURE(StartServer());
  grpc::GenericStub stub(grpc::CreateChannel(server_->grpc_address(), grpc::InsecureChannelCredentials()));
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  void* tag = nullptr;
  bool ok = false;
  const auto call =
      stub.PrepareCall(&context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  call->StartCall(nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  // ServerReflectionRequest.list_services (field 7): any string.
  const grpc::Slice request(std::string("\x3a\x01*"));
  call->Write(grpc::ByteBuffer(&request, 1), nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  grpc::ByteBuffer reply;
  call->Read(&reply, nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  grpc::Slice bytes;
  ASSERT_TRUE(reply.DumpToSingleSlice(&bytes).ok());
  const std::string text(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
  for (const char* service : {"vicinal.v1.GraphService", "vicinal.v1.ModelService", "vicinal.v1.InferenceService",
                              "vicinal.v1.ServerService", "inference.GRPCInferenceService", "grpc.health.v1.Health"}) {
    EXPECT_NE(text.find(service), std::string::npos) << service;
  }
  context.TryCancel();
  grpc::Status status;
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
}

TEST_F(LifecycleTest, MetricsTellOfCallsAndState) {
  ASSERT_NO_FATAL_FAILURE(StartServer({"--log_level=debug"}));
  UploadTinyGraph();
  UploadTinyModel();
  ExpectServes();
  auto unknown = TinyRequest();
  unknown.mutable_target()->set_graph("nothing");
  EXPECT_FALSE(client_->Classify(unknown).ok());
  const auto page = server_->Scrape();
  ASSERT_TRUE(page.ok()) << page.status();
  for (const char* line :
       {"vicinal_requests_total{code=\"OK\",method=\"vicinal.v1.InferenceService/Classify\"} 1",
        "vicinal_requests_total{code=\"NOT_FOUND\",method=\"vicinal.v1.InferenceService/Classify\"} 1",
        "vicinal_result_rows_total{method=\"vicinal.v1.InferenceService/Classify\"} 2",
        "vicinal_graphs 1",
        "vicinal_models 1",
        "vicinal_feature_sets 1",
        "vicinal_open_uploads 0",
        "vicinal_ready 1",
        "vicinal_queue_depth 0",
        "vicinal_memory_bytes{kind=\"uploads\"} 0",
        "vicinal_kernel_launches_total{",
        "vicinal_phase_duration_seconds_count{phase=\"execute\"}",
        "vicinal_graph_stage_duration_seconds_count{stage=\"csr\"} 1",
        "vicinal_executor_busy_seconds_total ",
        "vicinal_build_info{",
        "process_resident_memory_bytes ",
        "process_start_time_seconds ",
        "vicinal_memory_budget_bytes ",
        "vicinal_upload_bytes_total{kind=\"graph\"} 188",
        "vicinal_requests_in_flight{method=\"vicinal.v1.InferenceService/Classify\"} 0",
        "graph=\"path\",method=\"vicinal.v1.InferenceService/Classify\",model=\"tiny\""}) {
    EXPECT_NE(page->find(line), std::string::npos) << line;
  }
  // A name that nothing is stored under is no label.
  EXPECT_EQ(page->find("nothing"), std::string::npos);
  EXPECT_NE(server_->Log().find("\"request_id\""), std::string::npos) << server_->Log();
}

TEST_F(LifecycleTest, TokensGiveRoles) {
  ASSERT_NO_FATAL_FAILURE(StartServer(
      {"--admin_token_file=" + TokenFile("a", "the-admin\n"), "--infer_token_file=" + TokenFile("i", "the-reader\n")},
      "the-admin"));
  UploadTinyGraph();
  UploadTinyModel();
  ExpectServes();
  v1::TuneGraphRequest tune;
  tune.set_name("path");
  tune.set_reset(true);
  EXPECT_TRUE(client_->TuneGraph(tune).ok());
  const auto reader = NewClient("the-reader");
  EXPECT_TRUE(reader->GetTuning("path").ok());
  ExpectError(reader->TuneGraph(tune).status(), absl::StatusCode::kPermissionDenied, "ROLE_TOO_LOW");
  EXPECT_TRUE(reader->Classify(TinyRequest()).ok());
  EXPECT_TRUE(reader->ListGraphs().ok());
  ExpectError(reader->DeleteGraph("path"), absl::StatusCode::kPermissionDenied, "ROLE_TOO_LOW");
  ExpectError(NewClient("")->Classify(TinyRequest()).status(), absl::StatusCode::kUnauthenticated, "TOKEN_MISSING");
  ExpectError(NewClient("guess")->DeleteModel("tiny"), absl::StatusCode::kUnauthenticated, "TOKEN_UNKNOWN");
  EXPECT_TRUE(NewClient("")->CheckHealth("").ok());  // probes carry no token
  EXPECT_TRUE(client_->DeleteModel("tiny").ok());
}

TEST_F(LifecycleTest, TheLongestTokenTravels) {
  const std::string token(4096, 't');
  ASSERT_NO_FATAL_FAILURE(StartServer({"--admin_token_file=" + TokenFile("long", token + "\n")}, token));
  UploadTinyGraph();
}

TEST_F(LifecycleTest, MetadataOfTheCallIsHeld) {
  ASSERT_NO_FATAL_FAILURE(StartServer());
  UploadTinyGraph();
  UploadTinyModel();
  auto channel = grpc::CreateChannel(server_->grpc_address(), grpc::InsecureChannelCredentials());
  const auto stub = v1::GraphService::NewStub(channel);
  v1::GetGraphRequest request;
  request.set_name("path");
  v1::Graph graph;
  {
    grpc::ClientContext context;
    context.AddMetadata("vicinal-graph", "other");
    context.AddMetadata("vicinal-request-id", "req-17");
    const grpc::Status status = stub->GetGraph(&context, request, &graph);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_NE(status.error_details().find("ROUTED_ELSEWHERE"), std::string::npos);
    const auto& trailers = context.GetServerTrailingMetadata();
    const auto id = trailers.find("vicinal-request-id");
    ASSERT_NE(id, trailers.end());
    EXPECT_EQ(std::string(id->second.data(), id->second.size()), "req-17");
  }
  {
    grpc::ClientContext context;
    context.AddMetadata("vicinal-graph", "path");
    context.AddMetadata("vicinal-graph", "other");
    const grpc::Status status = stub->GetGraph(&context, request, &graph);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_NE(status.error_details().find("ROUTED_ELSEWHERE"), std::string::npos);
  }
  grpc::ClientContext context;
  context.AddMetadata("vicinal-graph", "path");
  context.AddMetadata("vicinal-graph", "path");
  EXPECT_TRUE(stub->GetGraph(&context, request, &graph).ok());
}

TEST_F(LifecycleTest, GarbageOnThePortHurtsNobody) {
  ASSERT_NO_FATAL_FAILURE(StartServer());
  UploadTinyGraph();
  UploadTinyModel();
  const std::string garbage = "\x16\x03\x01 this is no HTTP/2 at all \r\n\r\n" + std::string(70000, '\xff');
  for (int i = 0; i < 3; ++i) SendRaw(server_->grpc_address(), garbage);
  SendRaw(server_->metrics_address(), garbage);
  ExpectServes();
}

// Each holds a thread of the metrics port until it is hung up on for its silence.
TEST_F(LifecycleTest, ConnectionsThatSayNothingDoNotHoldUpAScrape) {
  ASSERT_NO_FATAL_FAILURE(StartServer());
  constexpr int kIdle = 60;
  const IdleConnections idle(server_->metrics_address(), kIdle);
  const auto page = server_->Scrape();
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(idle.open(), kIdle) << "the scrape waited until others had been hung up on";
}

TEST_F(LifecycleTest, StopsCleanlyWithOpenStreams) {
  ASSERT_NO_FATAL_FAILURE(StartServer({"--drain_timeout=300s"}));
  auto channel = grpc::CreateChannel(server_->grpc_address(), grpc::InsecureChannelCredentials());
  const auto stub = v1::GraphService::NewStub(channel);
  grpc::ClientContext context;
  v1::UploadGraphResponse response;
  const auto writer = stub->UploadGraph(&context, &response);
  v1::UploadGraphRequest request;
  request.mutable_spec()->set_name("half");
  request.mutable_spec()->set_upload_id("half-way-1");
  request.mutable_spec()->set_node_count(3);
  auto* tensor = request.mutable_spec()->add_tensors();
  tensor->set_name("edge_index");
  tensor->set_dtype(v1::DATA_TYPE_INT64);
  tensor->add_shape(2);
  tensor->add_shape(1);
  ASSERT_TRUE(writer->Write(request));
  while (!client_->GetUpload("half-way-1").ok()) {
  }
  // The open upload is told to end; nobody waits for the drain timeout, which is longer than the test may take.
  EXPECT_EQ(server_->Stop(), 0) << server_->Log();
  const grpc::Status status = writer->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
  server_ = nullptr;
}

// A client that asks for large answers one after another: its next call arrives just when nothing else is under way.
TEST_F(LifecycleTest, RefusesStreamsUntilItsConnectionsAreTold) {
  ASSERT_NO_FATAL_FAILURE(StartServer({"--drain_timeout=300s", "--tuning_budget=0"}));
  constexpr int64_t kNodes = 200'000;
  v1::UploadGraphSpec spec;
  spec.set_name("path");
  spec.set_node_count(kNodes);
  const OwnedTensor edges = Ints("edge_index", {2, 1}, {0, 1});
  const OwnedTensor x = Floats("x", {kNodes, 3}, std::vector<float>(kNodes * 3, 1.0f));
  ASSERT_TRUE(client_->UploadGraph(spec, {edges.view(), x.view()}).ok());
  UploadTinyModel();
  v1::ClassifyRequest request;
  request.mutable_target()->set_graph("path");
  request.mutable_target()->set_model("tiny");
  request.mutable_nodes()->set_all(true);
  request.set_return_probabilities(true);
  const auto stub =
      v1::InferenceService::NewStub(grpc::CreateChannel(server_->grpc_address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext held_context;
  const auto held = stub->ClassifyStream(&held_context, request);
  v1::ClassifyResponse piece;
  ASSERT_TRUE(held->Read(&piece));
  // What is not read of this answer holds the drain open.
  server_->Signal(SIGTERM);
  while (client_->GetGraph("path").ok()) {
  }
  const auto again = [&] {
    grpc::ClientContext context;
    const auto reader = stub->ClassifyStream(&context, request);
    EXPECT_FALSE(reader->Read(&piece));
    return reader->Finish();
  };
  const grpc::Status during = again();
  EXPECT_EQ(during.error_code(), grpc::StatusCode::UNAVAILABLE) << during.error_message();
  EXPECT_NE(during.error_details().find("DRAINING"), std::string::npos) << during.error_message();
  int64_t rows = piece.classes().shape(0);
  while (held->Read(&piece)) rows += piece.classes().shape(0);
  EXPECT_TRUE(held->Finish().ok());
  EXPECT_EQ(rows, kNodes);
  const grpc::Status after = again();
  EXPECT_EQ(after.error_code(), grpc::StatusCode::UNAVAILABLE) << after.error_message();
}

TEST_F(LifecycleTest, DrainDelayKeepsServingAndASecondSignalEndsIt) {
  ASSERT_NO_FATAL_FAILURE(StartServer({"--drain_delay=300s"}));
  UploadTinyGraph();
  UploadTinyModel();
  client::ClientOptions options;
  options.target = server_->grpc_address();
  options.service_config = ReadTestFile("../../deploy/service_config.json");
  const auto watching = client::Client::Connect(options);
  ASSERT_TRUE(watching.ok() && (*watching)->Classify(TinyRequest()).ok());
  server_->Signal(SIGTERM);
  // Not ready, alive, and still serving, until the second signal.
  while (*client_->CheckHealth("readiness") != "NOT_SERVING") {
  }
  EXPECT_EQ(*client_->CheckHealth("liveness"), "SERVING");
  ExpectServes();
  // A client that watches readiness goes elsewhere, and there is no elsewhere.
  absl::Status refused;
  while ((refused = (*watching)->Classify(TinyRequest()).status()).ok()) {
  }
  ExpectError(refused, absl::StatusCode::kUnavailable, "unhealthy");
  ExpectServes();
  const auto page = server_->Scrape();
  ASSERT_TRUE(page.ok());
  EXPECT_NE(page->find("vicinal_ready 0"), std::string::npos);
  EXPECT_EQ(server_->Stop(), 0) << server_->Log();
  server_ = nullptr;
}

}  // namespace
}  // namespace vicinal::testing
