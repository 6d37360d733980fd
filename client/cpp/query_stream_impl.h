// SPDX-License-Identifier: Apache-2.0
// What a QueryStream holds. Internal to the client library.
#ifndef VICINAL_CLIENT_CPP_QUERY_STREAM_IMPL_H_
#define VICINAL_CLIENT_CPP_QUERY_STREAM_IMPL_H_

#include <grpcpp/grpcpp.h>

#include <memory>

#include "client/cpp/channel.h"
#include "client/cpp/client.h"
#include "vicinal/v1/inference.grpc.pb.h"

namespace vicinal::client {

struct QueryStream::Impl {
  // `channel` must outlive the stream.
  Impl(const internal::Channel& of_client, v1::AnswerOrder answer_order) : channel(of_client), order(answer_order) {}

  const internal::Channel& channel;
  const v1::AnswerOrder order;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<v1::InferStreamRequest, v1::InferStreamResponse>> stream;
  bool finished = false;
};

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_QUERY_STREAM_IMPL_H_
