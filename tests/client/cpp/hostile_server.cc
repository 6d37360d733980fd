// SPDX-License-Identifier: Apache-2.0
#include "tests/client/cpp/hostile_server.h"

#include <google/protobuf/descriptor.h>
#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace vicinal::client {
namespace {

// Reads the first message of a call, then writes. An upload's other messages are left unread.
class Reactor final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Reactor(HostileReply reply) : reply_(std::move(reply)) { StartRead(&request_); }

  void OnReadDone(bool) override { Next(); }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish({grpc::StatusCode::CANCELLED, "the client left"});
    Next();
  }
  void OnDone() override { delete this; }

 private:
  void Next() {
    if (sent_ == reply_.count) return Finish(reply_.status);
    const std::string bytes = reply_.message(sent_++);
    const grpc::Slice slice(bytes);
    response_ = grpc::ByteBuffer(&slice, 1);
    StartWrite(&response_);
  }

  const HostileReply reply_;
  int64_t sent_ = 0;
  grpc::ByteBuffer request_, response_;
};

template <class T>
T Convert(double number) {
  if (!(number > static_cast<double>(std::numeric_limits<T>::min()))) return std::numeric_limits<T>::min();
  if (number >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(number);
}

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

void AddOne(const FieldDescriptor& field, const std::string& text, double number, Message* message) {
  const google::protobuf::Reflection& set = *message->GetReflection();
  const bool many = field.is_repeated();
  const bool bytes = field.type() == FieldDescriptor::TYPE_BYTES;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return many ? set.AddBool(message, &field, true) : set.SetBool(message, &field, true);
    case FieldDescriptor::CPPTYPE_INT32:
      return many ? set.AddInt32(message, &field, Convert<int32_t>(number))
                  : set.SetInt32(message, &field, Convert<int32_t>(number));
    case FieldDescriptor::CPPTYPE_INT64:
      return many ? set.AddInt64(message, &field, Convert<int64_t>(number))
                  : set.SetInt64(message, &field, Convert<int64_t>(number));
    case FieldDescriptor::CPPTYPE_UINT32:
      return many ? set.AddUInt32(message, &field, 7) : set.SetUInt32(message, &field, 7);
    case FieldDescriptor::CPPTYPE_UINT64:
      return many ? set.AddUInt64(message, &field, 7) : set.SetUInt64(message, &field, 7);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return many ? set.AddFloat(message, &field, static_cast<float>(number))
                  : set.SetFloat(message, &field, static_cast<float>(number));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return many ? set.AddDouble(message, &field, number) : set.SetDouble(message, &field, number);
    case FieldDescriptor::CPPTYPE_ENUM:
      return many ? set.AddEnumValue(message, &field, 99) : set.SetEnumValue(message, &field, 99);
    case FieldDescriptor::CPPTYPE_STRING:
      return many ? set.AddString(message, &field, bytes ? "" : text)
                  : set.SetString(message, &field, bytes ? "" : text);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return FillAll(text, number, many ? set.AddMessage(message, &field) : set.MutableMessage(message, &field));
  }
}

}  // namespace

class HostileServer::Service final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return new Reactor(answer_(context->method()));
  }
  void set_answer(Answer answer) {
    const std::lock_guard<std::mutex> lock(mutex_);
    answer_ = std::move(answer);
  }

 private:
  std::mutex mutex_;
  Answer answer_ = [](const std::string&) { return HostileReply{[](int64_t) { return std::string(); }, 1, {}}; };
};

HostileServer::HostileServer(bool compress) : service_(std::make_unique<Service>()) {
  grpc::EnableDefaultHealthCheckService(false);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(service_.get());
  builder.SetMaxSendMessageSize(std::numeric_limits<int>::max());
  if (compress) builder.SetDefaultCompressionAlgorithm(GRPC_COMPRESS_GZIP);
  server_ = builder.BuildAndStart();
  target_ = "127.0.0.1:" + std::to_string(port);
}

HostileServer::~HostileServer() { server_->Shutdown(std::chrono::system_clock::now()); }

void HostileServer::set_answer(Answer answer) { service_->set_answer(std::move(answer)); }

HostileReply Always(const Message& message, int64_t count) {
  return {[bytes = message.SerializeAsString()](int64_t) { return bytes; }, count, grpc::Status::OK};
}

void FillAll(const std::string& text, double number, Message* message) {
  const google::protobuf::Descriptor& type = *message->GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    for (int k = 0; k < (field.is_repeated() ? 2 : 1); ++k) AddOne(field, text, number, message);
  }
}

}  // namespace vicinal::client
