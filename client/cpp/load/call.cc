// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/load/call.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include <cmath>
#include <string>

#include "client/cpp/client.h"
#include "client/cpp/errors.h"
#include "vicinal/v1/inference.pb.h"

namespace vicinal::client::load {
namespace {

template <class Response>
bool ReadTiming(grpc::ByteBuffer& reply, double* seconds) {
  Response response;
  grpc::ProtoBufferReader reader(&reply);
  if (!response.ParseFromZeroCopyStream(&reader)) return false;
  if (response.has_timing()) *seconds = response.timing().total_seconds();
  return true;
}

// False: the reply is not a message of its type. `seconds` stays as it is where the reply tells no time.
bool ReadReply(Method method, grpc::ByteBuffer& reply, double* seconds) {
  switch (method) {
    case Method::kClassify:
    case Method::kClassifyStream:
    case Method::kClassifyFeatures:
    case Method::kClassifyRows:
      return ReadTiming<v1::ClassifyResponse>(reply, seconds);
    case Method::kPredictLinks:
      return ReadTiming<v1::PredictLinksResponse>(reply, seconds);
    case Method::kEmbed:
    case Method::kEmbedStream:
      return ReadTiming<v1::EmbedResponse>(reply, seconds);
    case Method::kClassifyGraphs:
      return ReadTiming<v1::ClassifyGraphsResponse>(reply, seconds);
    case Method::kCapabilities:
    case Method::kHealth:
      return true;
  }
  return true;
}

}  // namespace

void Call::Start(Connection& connection, std::chrono::milliseconds timeout, grpc::CompletionQueue* queue) {
  channel_ = &connection.channel;
  connection.channel.Prepare(&context_, timeout, *drawn_.graph);
  const MethodTraits& traits = TraitsOf(drawn_.method);
  if (traits.stream) {
    stream_ = connection.stub.PrepareCall(&context_, traits.path, queue);
    stream_->StartCall(this);
    return;
  }
  unary_ = connection.stub.PrepareUnaryCall(&context_, traits.path, drawn_.request, queue);
  unary_->StartCall();
  state_ = State::kFinishing;
  unary_->Finish(&reply_, &status_, this);
}

void Call::Proceed(bool ok, EndedCalls* ended) {
  if (Advance(ok)) ended->emplace_back(this);
}

void Call::TakeAnswer(const v1::InferStreamResponse& answer, int64_t bytes) {
  outcome_.reply_bytes += bytes;
  const absl::Status error = ErrorOf(answer);
  if (!error.ok()) return Fail(error);
  const v1::Timing& timing = answer.has_embed()           ? answer.embed().timing()
                             : answer.has_predict_links() ? answer.predict_links().timing()
                                                          : answer.classify().timing();
  outcome_.server = std::llround(timing.total_seconds() * 1e9);
}

void Call::Fail(const absl::Status& status) {
  outcome_.Fail(status.code(), DetailsOf(status).reason, std::string(status.message()));
}

bool Call::Advance(bool ok) {
  switch (state_) {
    case State::kStarting:
      if (ok) {
        state_ = State::kReading;
        stream_->WriteLast(drawn_.request, grpc::WriteOptions(), this);
        return false;
      }
      break;
    case State::kReading:
      // First the write's event, then those of reads, whose replies are here.
      if (ok) {
        TakeReply();
        stream_->Read(&reply_, this);
        return false;
      }
      break;
    case State::kFinishing:
      TakeStatus();
      return true;
  }
  state_ = State::kFinishing;
  stream_->Finish(&status_, this);
  return false;
}

void Call::TakeReply() {
  if (!reply_.Valid()) return;
  outcome_.reply_bytes += static_cast<int64_t>(reply_.Length());
  double seconds = -1;
  if (!ReadReply(drawn_.method, reply_, &seconds)) {
    outcome_.Fail(absl::StatusCode::kInternal, "UNREADABLE_REPLY", "the server's reply is not a message of the method");
  } else if (seconds >= 0) {
    outcome_.server = std::llround(seconds * 1e9);
  }
  reply_.Clear();
}

void Call::TakeStatus() {
  if (status_.ok()) {
    if (unary_ != nullptr) TakeReply();
    return;
  }
  Fail(channel_->Translate(status_));
}

}  // namespace vicinal::client::load
