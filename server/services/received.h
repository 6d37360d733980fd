// SPDX-License-Identifier: Apache-2.0
// A message of a client together with how it arrived. gRPC's reactors report a message that does not parse just as the
// end of the client's side; so that a stream can tell them apart, reactors read Received<Message>, which always parses.
// The bytes are parsed straight out of gRPC's buffer, as gRPC itself does.
#ifndef VICINAL_SERVER_SERVICES_RECEIVED_H_
#define VICINAL_SERVER_SERVICES_RECEIVED_H_

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/codegen/serialization_traits.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <new>

#include "server/rpc_scope.h"

namespace vicinal::server {

template <class Message>
struct Received {
  Message message;  // empty unless the arrival is kMessage
  Arrival arrival;
};

}  // namespace vicinal::server

namespace grpc {

template <class Message>
class SerializationTraits<vicinal::server::Received<Message>, void> {
 public:
  // OK whatever the bytes are: gRPC would hide an error.
  static Status Deserialize(ByteBuffer* buffer, vicinal::server::Received<Message>* received) {
    using Kind = vicinal::server::Arrival::Kind;
    received->arrival.bytes = buffer->Length();
    try {
      const bool parsed = SerializationTraits<Message>::Deserialize(buffer, &received->message).ok();
      received->arrival.kind = parsed ? Kind::kMessage : Kind::kMalformed;
    } catch (const std::bad_alloc&) {
      received->arrival.kind = Kind::kNoMemory;
    }
    if (received->arrival.kind != Kind::kMessage) {
      received->message.Clear();
      buffer->Clear();
    }
    return Status::OK;
  }
};

}  // namespace grpc

#endif  // VICINAL_SERVER_SERVICES_RECEIVED_H_
