// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/load/call_stream.h"

#include <google/protobuf/io/coded_stream.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "vicinal/v1/inference.pb.h"

namespace vicinal::client::load {
namespace {

constexpr char kPath[] = "/vicinal.v1.InferenceService/InferStream";

// The request of a call as a field of an InferStreamRequest, whose other fields stand before it: a message is the merge
// of its concatenated parts.
grpc::ByteBuffer Wrapped(const DrawnCall& call, int64_t id, std::chrono::milliseconds timeout) {
  v1::InferStreamRequest head;
  head.set_request_id(id);
  head.set_timeout_ms(timeout.count());
  head.set_order(v1::ANSWER_ORDER_AS_COMPLETED);
  std::string bytes = head.SerializeAsString();
  const int field = call.method == Method::kEmbed          ? v1::InferStreamRequest::kEmbedFieldNumber
                    : call.method == Method::kPredictLinks ? v1::InferStreamRequest::kPredictLinksFieldNumber
                                                           : v1::InferStreamRequest::kClassifyFieldNumber;
  constexpr int kLengthDelimited = 2;
  bytes.push_back(static_cast<char>(field << 3 | kLengthDelimited));
  uint8_t length[10];
  const uint8_t* const end =
      google::protobuf::io::CodedOutputStream::WriteVarint64ToArray(call.request.Length(), length);
  bytes.append(reinterpret_cast<const char*>(length), static_cast<size_t>(end - length));
  std::vector<grpc::Slice> slices;
  call.request.Dump(&slices);
  slices.insert(slices.begin(), grpc::Slice(bytes));
  return {slices.data(), slices.size()};
}

}  // namespace

bool CanStream(Method method) {
  return method == Method::kClassify || method == Method::kEmbed || method == Method::kPredictLinks ||
         method == Method::kClassifyFeatures || method == Method::kClassifyRows;
}

CallStream::CallStream(Connection& connection, grpc::CompletionQueue* queue) : connection_(connection) {
  connection_.channel.Prepare(&context_, std::chrono::milliseconds(0), "");
  stream_ = connection_.stub.PrepareCall(&context_, kPath, queue);
  stream_->StartCall(&started_);
}

bool CallStream::Send(std::unique_ptr<Call>* call, std::chrono::milliseconds timeout) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (ended_) return false;
  waiting_.push_back(Wrapped((*call)->drawn(), next_, timeout));
  calls_[next_++] = std::move(*call);
  WriteNext();
  return true;
}

void CallStream::WriteNext() {
  if (writes_ || waiting_.empty()) return;
  writes_ = true;
  const grpc::ByteBuffer request = waiting_.front();
  waiting_.pop_front();
  stream_->Write(request, &written_);
}

void CallStream::Started(bool ok, EndedCalls*) {
  // Also of a stream that could not be started: the read then says so.
  stream_->Read(&answer_, &received_);
  if (ok) Written(true, nullptr);
}

void CallStream::Written(bool ok, EndedCalls*) {
  const std::lock_guard<std::mutex> lock(mutex_);
  writes_ = !ok;  // after a write that failed no further one is made
  WriteNext();
}

void CallStream::Received(bool ok, EndedCalls* ended) {
  if (!ok) return stream_->Finish(&status_, &finished_);
  v1::InferStreamResponse answer;
  const auto bytes = static_cast<int64_t>(answer_.Length());
  grpc::ProtoBufferReader reader(&answer_);
  const bool readable = answer.ParseFromZeroCopyStream(&reader);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = readable ? calls_.find(answer.request_id()) : calls_.end();
    if (found != calls_.end()) {
      found->second->TakeAnswer(answer, bytes);
      ended->push_back(std::move(found->second));
      calls_.erase(found);
    }
  }
  answer_.Clear();
  stream_->Read(&answer_, &received_);
}

void CallStream::Finished(bool, EndedCalls* ended) {
  const absl::Status end = status_.ok() ? absl::UnavailableError("the stream ended before the call was answered")
                                        : connection_.channel.Translate(status_);
  const std::lock_guard<std::mutex> lock(mutex_);
  ended_ = true;
  waiting_.clear();
  for (auto& [id, call] : calls_) {
    call->Fail(end);
    ended->push_back(std::move(call));
  }
  calls_.clear();
}

}  // namespace vicinal::client::load
