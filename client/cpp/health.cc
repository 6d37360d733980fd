// SPDX-License-Identifier: Apache-2.0
// The messages, by hand: the request's field 1 is the service (a string), the reply's field 1 its status (an enum).
#include "client/cpp/health.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <utility>
#include <vector>

namespace vicinal::client::internal {
namespace {

constexpr uint32_t kServiceTag = 1 << 3 | 2, kStatusTag = 1 << 3 | 0;

grpc::ByteBuffer EncodeRequest(const std::string& service) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    if (!service.empty()) {
      coded.WriteTag(kServiceTag);
      coded.WriteVarint32(static_cast<uint32_t>(service.size()));
      coded.WriteString(service);
    }
  }
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string DecodeStatus(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (buffer.Dump(&slices).ok()) {
    for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  google::protobuf::io::CodedInputStream coded(reinterpret_cast<const uint8_t*>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  uint32_t status = 0;
  if (coded.ReadTag() == kStatusTag) coded.ReadVarint32(&status);
  static constexpr const char* kNames[] = {"UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"};
  return status < 4 ? kNames[status] : "UNKNOWN";
}

}  // namespace

absl::StatusOr<std::string> CheckHealth(const Channel& channel, const std::string& service) {
  grpc::GenericStub stub(channel.grpc());
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  channel.Prepare(&context, channel.options().call_timeout, std::string());
  const auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", EncodeRequest(service), &queue);
  grpc::ByteBuffer reply;
  grpc::Status status;
  void* tag = nullptr;
  bool ok = false;
  call->StartCall();
  call->Finish(&reply, &status, &tag);
  queue.Next(&tag, &ok);
  if (!status.ok()) return channel.Translate(status);
  return DecodeStatus(reply);
}

}  // namespace vicinal::client::internal
