// SPDX-License-Identifier: Apache-2.0
// Bytes that are no Protobuf, sent to every method: as its one message, or in the middle of a stream.
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <map>
#include <string>
#include <vector>

#include "inference/grpc_inference.pb.h"
#include "tests/integration/fixture.h"
#include "vicinal/v1/graph.pb.h"
#include "vicinal/v1/inference.pb.h"
#include "vicinal/v1/model.pb.h"
#include "vicinal/v1/server.pb.h"

namespace vicinal::testing {
namespace {

class UnreadableTest : public IntegrationTest {
 protected:
  // The status of a call whose one message is these bytes.
  grpc::Status Send(const std::string& method, const std::string& bytes) const {
    int answers = 0;
    return SendAll(method, {bytes}, &answers);
  }
  // The status of a call with these messages, and how many the server sent.
  grpc::Status SendAll(const std::string& method, const std::vector<std::string>& messages, int* answers) const {
    grpc::GenericStub stub(grpc::CreateChannel(server_->grpc_address(), grpc::InsecureChannelCredentials()));
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    const auto call = stub.PrepareCall(&context, "/" + method, &queue);
    void* tag = nullptr;
    bool ok = false;
    call->StartCall(nullptr);
    queue.Next(&tag, &ok);
    for (const std::string& bytes : messages) {
      const grpc::Slice slice(bytes);
      call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
      queue.Next(&tag, &ok);  // not OK: the server has ended the call already
    }
    call->WritesDone(nullptr);
    queue.Next(&tag, &ok);
    *answers = -1;
    for (ok = true; ok; ++*answers) {
      grpc::ByteBuffer answer;  // gRPC tells no status before it is read
      call->Read(&answer, nullptr);
      queue.Next(&tag, &ok);
    }
    grpc::Status status;
    call->Finish(&status, nullptr);
    queue.Next(&tag, &ok);
    return status;
  }
};

TEST_F(UnreadableTest, IsRefusedInWordsByEveryMethod) {
  ASSERT_NO_FATAL_FAILURE(StartServer());
  int methods = 0;
  for (const google::protobuf::FileDescriptor* file :
       {v1::Graph::descriptor()->file(), v1::Model::descriptor()->file(), v1::ClassifyRequest::descriptor()->file(),
        v1::ExplainRequest::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        const google::protobuf::MethodDescriptor& method = *file->service(s)->method(m);
        if (method.client_streaming()) continue;
        const std::string name = file->service(s)->full_name() + "/" + method.name();
        const grpc::Status status = Send(name, "\xff\xff\xff\xff");
        EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << name;
        EXPECT_NE(
            status.error_message().find("message 1 of the call (4 bytes) is not valid Protobuf of the type of " + name),
            std::string::npos)
            << status.error_message();
        EXPECT_NE(status.error_details().find("BAD_MESSAGE"), std::string::npos) << name;
        ++methods;
      }
    }
  }
  EXPECT_GE(methods, 18);
  const auto page = server_->Scrape();
  ASSERT_TRUE(page.ok()) << page.status();
  for (const char* line :
       {"vicinal_requests_total{code=\"INVALID_ARGUMENT\",method=\"vicinal.v1.GraphService/GetGraph\"} 1",
        "vicinal_requests_in_flight{method=\"vicinal.v1.GraphService/GetGraph\"} 0"}) {
    EXPECT_NE(page->find(line), std::string::npos) << line;
  }
  // Those that would have changed something are logged, as if they had been read.
  const std::string log = server_->Log();
  const std::string head = "\"message\":\"admin request\",\"method\":\"vicinal.v1.GraphService/DeleteGraph\",";
  const size_t at = log.find(head + "\"code\":\"INVALID_ARGUMENT\"");
  ASSERT_NE(at, std::string::npos) << log;
  EXPECT_NE(log.substr(at, log.find('\n', at) - at).find("\"peer\":\"127.0.0.1:"), std::string::npos) << log;
  EXPECT_EQ(log.find("GraphService/GetGraph"), std::string::npos) << log;
}

// Of each method with a stream of messages one that it takes, and how many answers that has.
struct Taken {
  std::string message;
  int answers = 0;
};
std::map<std::string, Taken> TakenByStreams() {
  v1::UploadGraphRequest graph;
  graph.mutable_spec()->set_name("other");
  graph.mutable_spec()->set_upload_id("a1b2c3d4-0000-4000-8000-000000000001");
  graph.mutable_spec()->set_node_count(3);
  v1::TensorSpec& edges = *graph.mutable_spec()->add_tensors();
  edges.set_name("edge_index");
  edges.set_dtype(v1::DATA_TYPE_INT64);
  edges.add_shape(2);
  edges.add_shape(1);
  v1::UploadFeaturesRequest features;
  features.mutable_spec()->set_graph("path");
  features.mutable_spec()->set_name("others");
  features.mutable_spec()->set_upload_id("a1b2c3d4-0000-4000-8000-000000000002");
  v1::TensorSpec& x = *features.mutable_spec()->add_tensors();
  x.set_name("x");
  x.set_dtype(v1::DATA_TYPE_FLOAT32);
  x.add_shape(5);
  x.add_shape(3);
  v1::UploadModelRequest model;
  model.mutable_spec()->set_name("other");
  model.mutable_spec()->set_upload_id("a1b2c3d4-0000-4000-8000-000000000003");
  model.mutable_spec()->set_architecture_json(TinyArchitecture());
  v1::TensorSpec& weights = *model.mutable_spec()->add_tensors();
  weights.set_name("weights");
  weights.set_dtype(v1::DATA_TYPE_UINT8);
  weights.add_shape(static_cast<int64_t>(TinyWeights().size()));
  v1::InferStreamRequest infer;
  infer.mutable_classify()->mutable_target()->set_graph("nowhere");
  inference::ModelInferRequest open;
  open.set_model_name("nowhere");
  return {{"vicinal.v1.GraphService/UploadGraph", {graph.SerializeAsString(), 0}},
          {"vicinal.v1.GraphService/UploadFeatures", {features.SerializeAsString(), 0}},
          {"vicinal.v1.ModelService/UploadModel", {model.SerializeAsString(), 0}},
          {"vicinal.v1.InferenceService/InferStream", {infer.SerializeAsString(), 1}},
          {"inference.GRPCInferenceService/ModelStreamInfer", {open.SerializeAsString(), 1}}};
}

TEST_F(UnreadableTest, InTheMiddleOfAStreamIsRefusedByItsNumber) {
  ASSERT_NO_FATAL_FAILURE(StartServer());
  UploadTinyGraph();
  const std::map<std::string, Taken> taken = TakenByStreams();
  size_t streams = 0;
  for (const google::protobuf::FileDescriptor* file :
       {v1::Graph::descriptor()->file(), v1::Model::descriptor()->file(), v1::ClassifyRequest::descriptor()->file(),
        v1::ExplainRequest::descriptor()->file(), inference::ModelInferRequest::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        const google::protobuf::MethodDescriptor& method = *file->service(s)->method(m);
        if (!method.client_streaming()) continue;
        const std::string name = file->service(s)->full_name() + "/" + method.name();
        ASSERT_EQ(taken.count(name), 1u) << name;
        const auto& [message, expected] = taken.at(name);
        int answers = 0;
        const grpc::Status status = SendAll(name, {message, "\xff\xff\xff", message}, &answers);
        EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << name << ' ' << status.error_message();
        EXPECT_NE(
            status.error_message().find("message 2 of the call (3 bytes) is not valid Protobuf of the type of " + name),
            std::string::npos)
            << status.error_message();
        EXPECT_NE(status.error_details().find("BAD_MESSAGE"), std::string::npos) << name;
        EXPECT_EQ(answers, expected) << name << ": what came before is answered";
        ++streams;
      }
    }
  }
  EXPECT_EQ(streams, taken.size());
}

TEST_F(UnreadableTest, SoIsAQuestionForHealth) {
  ASSERT_NO_FATAL_FAILURE(StartServer());
  for (const std::string name : {"grpc.health.v1.Health/Check", "grpc.health.v1.Health/Watch"}) {
    const grpc::Status status = Send(name, "\xff\xff\xff\xff");
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << name << ' ' << status.error_message();
    EXPECT_NE(status.error_message().find("not valid Protobuf of the type of " + name), std::string::npos)
        << status.error_message();
    EXPECT_NE(status.error_details().find("BAD_MESSAGE"), std::string::npos) << name;
  }
  // What is well said is answered, also with fields that this version does not know.
  EXPECT_EQ(Send("grpc.health.v1.Health/Check", "\x0a\x07nowhere").error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_TRUE(Send("grpc.health.v1.Health/Check", "").ok());
  EXPECT_TRUE(Send("grpc.health.v1.Health/Check", "\x12\x01x\x0a\x09readiness").ok());
}

TEST_F(UnreadableTest, MethodsThatAreNotThereStayUnimplemented) {
  ASSERT_NO_FATAL_FAILURE(StartServer());
  for (const char* name : {"vicinal.v1.GraphService/Nothing", "nobody.Knows/It"}) {
    EXPECT_EQ(Send(name, "\xff").error_code(), grpc::StatusCode::UNIMPLEMENTED) << name;
  }
  UploadTinyGraph();
  UploadTinyModel();
  ExpectServes();
}

}  // namespace
}  // namespace vicinal::testing
