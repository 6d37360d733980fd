// SPDX-License-Identifier: Apache-2.0
#include <grpcpp/grpcpp.h>

#include <memory>
#include <utility>

#include "client/cpp/channel.h"
#include "client/cpp/client.h"
#include "client/cpp/query_stream_impl.h"

namespace vicinal::client {

QueryStream::QueryStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

QueryStream::~QueryStream() {
  if (impl_->finished) return;
  impl_->context.TryCancel();
  v1::InferStreamResponse rest;
  while (impl_->stream->Read(&rest)) continue;
  impl_->stream->Finish();
}

bool QueryStream::Send(v1::InferStreamRequest request) {
  request.set_order(impl_->order);
  return impl_->stream->Write(request);
}

void QueryStream::CloseSending() { impl_->stream->WritesDone(); }

bool QueryStream::Receive(v1::InferStreamResponse* answer) {
  if (!impl_->stream->Read(answer)) return false;
  impl_->channel.Receive(answer);
  return true;
}

absl::Status QueryStream::Finish() {
  impl_->finished = true;
  return impl_->channel.Translate(impl_->stream->Finish());
}

void QueryStream::Cancel() { impl_->context.TryCancel(); }

absl::Status ErrorOf(const v1::InferStreamResponse& answer) {
  if (!answer.has_error()) return absl::OkStatus();
  const v1::details::Status& error = answer.error();
  return FromGrpcStatus(
      grpc::Status(static_cast<grpc::StatusCode>(error.code()), error.message(), error.SerializeAsString()), "");
}

}  // namespace vicinal::client
