// SPDX-License-Identifier: Apache-2.0
// Calls of which the server has headers only: who may not call is told so without a message, and who sends none holds a
// place for a while, and keeps nobody out.
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "inference/grpc_inference.pb.h"
#include "tests/integration/fixture.h"
#include "tests/support/temporary_directory.h"
#include "vicinal/v1/graph.grpc.pb.h"
#include "vicinal/v1/inference.pb.h"
#include "vicinal/v1/model.pb.h"
#include "vicinal/v1/server.pb.h"

namespace vicinal::testing {
namespace {

constexpr char kListGraphs[] = "vicinal.v1.GraphService/ListGraphs";

// A call that sends its headers and nothing else.
class HeadersOnly {
 public:
  HeadersOnly(const std::shared_ptr<grpc::Channel>& channel, const std::string& method, const std::string& token)
      : stub_(channel) {
    if (!token.empty()) context_.AddMetadata("authorization", "Bearer " + token);
    // Of a test that hangs: no server shall be as slow.
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(10));
    call_ = stub_.PrepareCall(&context_, "/" + method, &queue_);
    call_->StartCall(nullptr);
    Next();
  }
  ~HeadersOnly() {
    if (!finished_) context_.TryCancel(), Await();
  }
  // Waits until the server ends it.
  grpc::Status Await() {
    grpc::ByteBuffer none;
    call_->Read(&none, nullptr);
    Next();
    grpc::Status status;
    call_->Finish(&status, nullptr);
    Next();
    finished_ = true;
    return status;
  }

 private:
  void Next() {
    void* tag = nullptr;
    bool ok = false;
    queue_.Next(&tag, &ok);
  }

  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  bool finished_ = false;
};

// An upload that has announced itself and goes no further.
class AnnouncedUpload {
 public:
  AnnouncedUpload(v1::GraphService::Stub& stub, const std::string& name) {
    context_.AddMetadata("authorization", "Bearer admin");
    writer_ = stub.UploadGraph(&context_, &response_);
    v1::UploadGraphRequest request;
    request.mutable_spec()->set_name(name);
    request.mutable_spec()->set_upload_id("upload-of-" + name);
    request.mutable_spec()->set_node_count(2);
    v1::TensorSpec* const edges = request.mutable_spec()->add_tensors();
    edges->set_name("edge_index");
    edges->set_dtype(v1::DATA_TYPE_INT64);
    edges->add_shape(2);
    edges->add_shape(1);
    EXPECT_TRUE(writer_->Write(request));
  }
  ~AnnouncedUpload() {
    context_.TryCancel();
    EXPECT_EQ(writer_->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }

 private:
  grpc::ClientContext context_;
  v1::UploadGraphResponse response_;
  std::unique_ptr<grpc::ClientWriter<v1::UploadGraphRequest>> writer_;
};

class OpenCallsTest : public IntegrationTest {
 protected:
  // With the tokens "infer" and "admin".
  void StartWithTokens(std::vector<std::string> flags = {}) {
    for (const std::string role : {"infer", "admin"}) {
      std::ofstream(folder_ / role) << role << '\n';
      flags.push_back("--" + role + "_token_file=" + folder_ / role);
    }
    StartServer(flags, "admin");
  }
  grpc::Status Call(const std::string& method, const std::string& token = "") const {
    return HeadersOnly(Channel(), method, token).Await();
  }
  bool Scraped(const std::string& line) const {
    const auto page = server_->Scrape();
    return page.ok() && page->find("\n" + line + "\n") != std::string::npos;
  }
  std::shared_ptr<grpc::Channel> Channel() const {
    return grpc::CreateChannel(server_->grpc_address(), grpc::InsecureChannelCredentials());
  }

  const TemporaryDirectory folder_;
};

TEST_F(OpenCallsTest, WhoMayNotCallIsToldBeforeAnyMessage) {
  ASSERT_NO_FATAL_FAILURE(StartWithTokens());
  int methods = 0, of_admins = 0;
  for (const google::protobuf::FileDescriptor* file :
       {v1::Graph::descriptor()->file(), v1::Model::descriptor()->file(), v1::ClassifyRequest::descriptor()->file(),
        v1::ExplainRequest::descriptor()->file(), inference::ModelInferRequest::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        const std::string name = file->service(s)->full_name() + "/" + file->service(s)->method(m)->name();
        for (const std::string token : {"", "unknown"}) {
          const grpc::Status status = Call(name, token);
          EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED) << name << status.error_message();
          EXPECT_NE(status.error_details().find(token.empty() ? "TOKEN_MISSING" : "TOKEN_UNKNOWN"), std::string::npos);
        }
        ++methods;
      }
    }
  }
  for (const char* name : {"GraphService/DeleteGraph", "GraphService/TuneGraph", "GraphService/UploadGraph",
                           "ModelService/DeleteModel", "GraphService/GetUpload"}) {
    const grpc::Status status = Call(std::string("vicinal.v1.") + name, "infer");
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << name << status.error_message();
    ++of_admins;
  }
  EXPECT_GE(methods, 32);
  EXPECT_EQ(of_admins, 5);
  EXPECT_TRUE(client_->ListGraphs().ok());
}

TEST_F(OpenCallsTest, MessagesMustArriveInTime) {
  ASSERT_NO_FATAL_FAILURE(StartWithTokens({"--message_timeout=3s"}));
  HeadersOnly health(Channel(), "grpc.health.v1.Health/Check", "");
  std::vector<std::pair<std::string, std::unique_ptr<HeadersOnly>>> calls;  // all wait at once
  for (const char* name : {"GraphService/ListGraphs", "InferenceService/Classify", "InferenceService/EmbedStream",
                           "GraphService/WatchGraph", "GraphService/TuneGraph", "GraphService/UploadFeatures"}) {
    calls.emplace_back(name, std::make_unique<HeadersOnly>(Channel(), std::string("vicinal.v1.") + name, "admin"));
  }
  for (const auto& [name, call] : calls) {
    const grpc::Status status = call->Await();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED) << name;
    EXPECT_NE(status.error_details().find("MESSAGE_TIMEOUT"), std::string::npos) << status.error_message();
  }
  EXPECT_EQ(health.Await().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  UploadTinyGraph();
  UploadTinyModel();
  ExpectServes();
}

// As many as there are places, none of which will ever say more.
TEST_F(OpenCallsTest, HeadersAloneKeepNobodyOut) {
  ASSERT_NO_FATAL_FAILURE(StartWithTokens({"--max_open_calls=16", "--message_timeout=10m"}));
  UploadTinyGraph();
  UploadTinyModel();
  const auto channel = Channel();
  std::vector<std::unique_ptr<HeadersOnly>> silent;
  for (int i = 0; i < 16; ++i) {
    silent.push_back(std::make_unique<HeadersOnly>(channel, kListGraphs, "infer"));
    // One after another, so that the first has waited longest.
    while (!Scraped("vicinal_open_calls " + std::to_string(i + 1))) {
    }
  }
  // Refused until one of them has waited long enough to make room.
  absl::Status served;
  do {
    served = client_->Classify(TinyRequest()).status();
  } while (absl::IsUnavailable(served));
  EXPECT_TRUE(served.ok()) << served;
  const grpc::Status first = silent.front()->Await();
  EXPECT_EQ(first.error_code(), grpc::StatusCode::UNAVAILABLE) << first.error_message();
  EXPECT_NE(first.error_details().find("TOO_MANY_CALLS"), std::string::npos) << first.error_message();
  EXPECT_NE(server_->Log().find("calls refused: too many are open"), std::string::npos) << server_->Log();
}

// Calls that have said what they want are not ended for others.
TEST_F(OpenCallsTest, BeyondTheLimitCallsAreRefused) {
  ASSERT_NO_FATAL_FAILURE(StartWithTokens({"--max_open_calls=2"}));
  const auto stub = v1::GraphService::NewStub(Channel());
  {
    std::vector<std::unique_ptr<AnnouncedUpload>> uploads;
    for (const char* name : {"one", "two"}) uploads.push_back(std::make_unique<AnnouncedUpload>(*stub, name));
    while (!Scraped("vicinal_open_uploads 2")) {
    }
    const grpc::Status status = Call(kListGraphs, "admin");
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
    EXPECT_NE(status.error_message().find("--max_open_calls"), std::string::npos);
    // Without a token one learns nothing of it, and probes have places of their own.
    EXPECT_EQ(Call(kListGraphs).error_code(), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_EQ(client_->CheckHealth("readiness").value_or("?"), "SERVING");
  }
  absl::Status listed;
  do {
    listed = client_->ListGraphs().status();
  } while (absl::IsUnavailable(listed));
  EXPECT_TRUE(listed.ok()) << listed;
}

// Nobody's log fills with what anyone may send.
TEST_F(OpenCallsTest, LinesAboutUnknownCallersAreBounded) {
  ASSERT_NO_FATAL_FAILURE(StartWithTokens());
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 300; ++i) Call("vicinal.v1.GraphService/DeleteGraph");
  const auto periods = (std::chrono::steady_clock::now() - begin) / std::chrono::seconds(10);
  const std::string log = server_->Log();
  int lines = 0;
  for (size_t at = log.find("admin request"); at != std::string::npos; at = log.find("admin request", at + 1)) ++lines;
  EXPECT_GE(lines, 100);
  EXPECT_LE(lines, 100 * (periods + 2)) << "100 of each period that has begun";
}

TEST_F(OpenCallsTest, AStoppingServerDoesNotWaitForMessages) {
  ASSERT_NO_FATAL_FAILURE(StartWithTokens({"--drain_timeout=10m"}));
  HeadersOnly silent(Channel(), kListGraphs, "infer");
  EXPECT_TRUE(client_->ListGraphs().ok());
  client_.reset();
  EXPECT_EQ(server_->Stop(), 0);
  const grpc::Status status = silent.Await();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(status.error_message().find("stopping"), std::string::npos) << status.error_message();
  server_.reset();
}

}  // namespace
}  // namespace vicinal::testing
