// SPDX-License-Identifier: Apache-2.0
// Bytes that are no Protobuf, sent to every method that takes one message.
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <string>

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
    grpc::GenericStub stub(grpc::CreateChannel(server_->grpc_address(), grpc::InsecureChannelCredentials()));
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    const auto call = stub.PrepareCall(&context, "/" + method, &queue);
    void* tag = nullptr;
    bool ok = false;
    call->StartCall(nullptr);
    queue.Next(&tag, &ok);
    const grpc::Slice slice(bytes);
    call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
    queue.Next(&tag, &ok);
    grpc::ByteBuffer answer;  // gRPC tells no status before it is read
    call->Read(&answer, nullptr);
    queue.Next(&tag, &ok);
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
        EXPECT_NE(status.error_message().find("not valid Protobuf of the type of " + name), std::string::npos)
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
