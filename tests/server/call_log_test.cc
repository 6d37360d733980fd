// SPDX-License-Identifier: Apache-2.0
#include "server/call_log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

#include "engine/base/error.h"

namespace vicinal::server {
namespace {

class CallLogTest : public ::testing::Test {
 protected:
  CallLogTest() { EXPECT_EQ(pipe(fds_), 0); }
  ~CallLogTest() override { close(fds_[0]), close(fds_[1]); }

  // The line that the call leaves, or null when it leaves none.
  nlohmann::json Line(Method method, const Subject& subject, const Status& status, LogLevel level = LogLevel::kInfo) {
    JsonLog log(fds_[1], level, &clock_);
    Call call;
    call.method = method;
    call.request_id = "r1";
    call.routed_graph = "routed";
    call.peer = "10.0.0.1:5000";
    call.principal = "ops";
    call.role = "admin";
    LogCall(call, subject, status, 0.25, 0, &log);
    log.Log(LogLevel::kError, "end", {});
    std::string text(65536, '\0');
    text.resize(static_cast<size_t>(read(fds_[0], text.data(), text.size())));
    const nlohmann::json json = nlohmann::json::parse(text.substr(0, text.find('\n')), nullptr, false);
    return json["message"] == "end" ? nlohmann::json() : json;
  }

  int fds_[2];
  FakeClock clock_;
};

template <class Message>
Subject SubjectTold(const Message& message) {
  Subject subject;
  Tell(message, &subject);
  return subject;
}

TEST_F(CallLogTest, APairIsAGraphAndAModel) {
  inference::ModelInferRequest request;
  request.set_model_name("cora/gcn");
  const nlohmann::json line = Line(Method::kModelInfer, SubjectTold(request), OkStatus(), LogLevel::kDebug);
  EXPECT_EQ(line["method"], "inference.GRPCInferenceService/ModelInfer");
  EXPECT_EQ(line["graph"], "cora");
  EXPECT_EQ(line["model"], "gcn");
  request.set_model_name("gin");
  EXPECT_EQ(SubjectTold(request).graph, "");
  EXPECT_EQ(SubjectTold(request).model, "gin");
}

TEST_F(CallLogTest, AChangeLeavesOneLineThatSaysWhoAndWhat) {
  v1::DeleteFeaturesRequest request;
  request.set_graph("cora");
  request.set_name("monday");
  const nlohmann::json line = Line(Method::kDeleteFeatures, SubjectTold(request), OkStatus());
  EXPECT_EQ(line["level"], "info");
  EXPECT_EQ(line["message"], "admin request");
  EXPECT_EQ(line["method"], "vicinal.v1.GraphService/DeleteFeatures");
  EXPECT_EQ(line["action"], "delete");
  EXPECT_EQ(line["graph"], "cora");
  EXPECT_EQ(line["feature_set"], "monday");
  EXPECT_EQ(line["code"], "OK");
  EXPECT_EQ(line["seconds"], "0.25");
  EXPECT_EQ(line["peer"], "10.0.0.1:5000");
  EXPECT_EQ(line["principal"], "ops");
  EXPECT_EQ(line["role"], "admin");
  EXPECT_EQ(line["request_id"], "r1");
  EXPECT_FALSE(line.contains("version"));
  EXPECT_FALSE(line.contains("model"));
  request.set_if_version(4);
  EXPECT_EQ(SubjectTold(request).version, 4);
}

TEST_F(CallLogTest, RefusedChangesLeaveOneToo) {
  v1::DeleteModelRequest request;
  request.set_name("tiny");
  request.set_if_version(3);
  const Subject subject = SubjectTold(request);
  const nlohmann::json missing =
      Line(Method::kDeleteModel, subject, NotFound("model", "tiny", "upload it, or list the existing models"));
  EXPECT_EQ(missing["level"], "info");
  EXPECT_EQ(missing["code"], "NOT_FOUND");
  EXPECT_EQ(missing["model"], "tiny");
  EXPECT_EQ(missing["version"], "3");
  EXPECT_TRUE(missing.contains("error"));
  for (const StatusCode code : {StatusCode::kUnauthenticated, StatusCode::kPermissionDenied}) {
    EXPECT_EQ(Line(Method::kDeleteModel, subject, Status(code, "no"), LogLevel::kWarning)["level"], "warning");
  }
  EXPECT_TRUE(Line(Method::kDeleteModel, subject, OkStatus(), LogLevel::kWarning).is_null());
}

TEST_F(CallLogTest, ReadsLeaveNoneButAtDebug) {
  v1::ClassifyRequest request;
  request.mutable_target()->set_graph("cora");
  request.mutable_target()->set_model("tiny");
  const Subject subject = SubjectTold(request);
  for (const Method method : {Method::kClassify, Method::kGetUpload, Method::kGetTuning, Method::kListModels}) {
    EXPECT_TRUE(Line(method, subject, OkStatus()).is_null());
    EXPECT_TRUE(Line(method, subject, Status(StatusCode::kUnauthenticated, "no")).is_null());
  }
  const nlohmann::json line = Line(Method::kClassify, subject, OkStatus(), LogLevel::kDebug);
  EXPECT_EQ(line["message"], "request finished");
  EXPECT_EQ(line["graph"], "cora");
  EXPECT_EQ(line["model"], "tiny");
  EXPECT_EQ(line["peer"], "10.0.0.1:5000");
  EXPECT_EQ(Line(Method::kClassify, subject, Internal("ours"), LogLevel::kError)["message"], "request failed");
}

TEST_F(CallLogTest, WhatNoMessageSaysIsTakenFromTheMetadata) {
  // The first message of an upload is not read when its token is not known.
  const nlohmann::json line = Line(Method::kUploadGraph, {}, Status(StatusCode::kUnauthenticated, "no"));
  EXPECT_EQ(line["graph"], "routed");
}

TEST_F(CallLogTest, WhatAClientSendsIsBounded) {
  v1::DeleteGraphRequest request;
  request.set_name(std::string(1 << 20, 'x'));
  const nlohmann::json line =
      Line(Method::kDeleteGraph, SubjectTold(request), Status(StatusCode::kInvalidArgument, std::string(1 << 20, 'y')));
  EXPECT_LT(line.dump().size(), 2048u);
}

TEST(SubjectTest, Uploads) {
  v1::UploadFeaturesRequest first;
  first.mutable_spec()->set_graph("cora");
  first.mutable_spec()->set_name("monday");
  first.mutable_spec()->set_replace(true);
  first.mutable_spec()->set_if_version(2);
  first.mutable_spec()->set_upload_id("u1");
  Subject subject = SubjectTold(first);
  EXPECT_EQ(subject.graph + "/" + subject.feature_set + " " + subject.action, "cora/monday replace");
  EXPECT_EQ(subject.version, 2);
  v1::UploadFeaturesResponse response;
  response.mutable_upload()->set_state(v1::Upload::STATE_UPLOADING);
  Tell(response, &subject);
  EXPECT_EQ(subject.upload, "open");
  EXPECT_EQ(subject.version, 2);
  response.mutable_upload()->set_state(v1::Upload::STATE_FINISHED);
  response.mutable_feature_set()->set_version(3);
  Tell(response, &subject);
  EXPECT_EQ(subject.upload, "finished");
  EXPECT_EQ(subject.version, 3);
}

TEST(SubjectTest, AnUploadThatGoesOnIsNamedByItsSpecification) {
  v1::UploadModelRequest first;
  first.set_resume_upload_id("u1");
  Subject subject = SubjectTold(first);
  EXPECT_EQ(subject.action, "resume");
  EXPECT_EQ(subject.upload_id, "u1");
  v1::Upload upload;
  upload.set_resource_type("model");
  upload.set_resource_name("tiny");
  Tell(upload, &subject);
  EXPECT_EQ(subject.model, "tiny");
  upload.set_resource_type("feature set");
  upload.set_resource_name("cora/monday");
  Tell(upload, &subject);
  EXPECT_EQ(subject.graph + " " + subject.feature_set, "cora monday");
}

TEST(SubjectTest, Tuning) {
  v1::TuneGraphRequest request;
  request.set_name("cora");
  EXPECT_EQ(SubjectTold(request).action, "tune");
  request.set_reset(true);
  EXPECT_EQ(SubjectTold(request).action, "reset");
  request.set_reset(false);
  request.mutable_force()->set_kernel("row_split");
  EXPECT_EQ(SubjectTold(request).action, "force");
  EXPECT_EQ(SubjectTold(request).kernel, "row_split");
}

TEST(PeerNameTest, AsAddressesAreWritten) {
  EXPECT_EQ(PeerName("ipv4:10.0.0.1:5000"), "10.0.0.1:5000");
  EXPECT_EQ(PeerName("ipv6:%5B::1%5D:5000"), "[::1]:5000");
  EXPECT_EQ(PeerName("ipv6:%5Bfe80::1%25eth0%5D:5000"), "[fe80::1%eth0]:5000");
  EXPECT_EQ(PeerName("unix:/run/x"), "unix:/run/x");
}

TEST(PeerNameTest, AddressesHaveNoPort) {
  EXPECT_EQ(AddressIn("10.0.0.1:5000"), "10.0.0.1");
  EXPECT_EQ(AddressIn("[fe80::1%eth0]:5000"), "[fe80::1%eth0]");
  EXPECT_EQ(AddressIn("unix:/run/x"), "unix:");
  EXPECT_EQ(AddressIn("unix:"), "unix:");
  EXPECT_EQ(PeerName(""), "");
}

}  // namespace
}  // namespace vicinal::server
