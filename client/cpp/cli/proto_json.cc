// SPDX-License-Identifier: Apache-2.0
// By reflection, so that a new field of the API shows up by itself.
#include "client/cpp/cli/proto_json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/timestamp.pb.h>
#include <google/protobuf/util/time_util.h>

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/printable.h"
#include "proto/wire/tensors.h"
#include "vicinal/v1/tensor.pb.h"

namespace vicinal::client::cli {
namespace {

using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// "STATE_READY" of enum State -> "READY"; the prefix is the enum's own name in capitals.
std::string EnumName(const EnumValueDescriptor& value) {
  std::string prefix;
  for (const char c : value.type()->name()) {
    if (absl::ascii_isupper(static_cast<unsigned char>(c)) && !prefix.empty()) prefix += '_';
    prefix += absl::ascii_toupper(static_cast<unsigned char>(c));
  }
  prefix += '_';
  return value.name().rfind(prefix, 0) == 0 ? value.name().substr(prefix.size()) : value.name();
}

// One value: of a singular field (index < 0) or of a repeated one.
Json ValueToJson(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& reflection = *message.GetReflection();
  const bool one = index < 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return one ? reflection.GetBool(message, &field) : reflection.GetRepeatedBool(message, &field, index);
    case FieldDescriptor::CPPTYPE_INT32:
      return one ? reflection.GetInt32(message, &field) : reflection.GetRepeatedInt32(message, &field, index);
    case FieldDescriptor::CPPTYPE_INT64:
      return one ? reflection.GetInt64(message, &field) : reflection.GetRepeatedInt64(message, &field, index);
    case FieldDescriptor::CPPTYPE_UINT32:
      return one ? reflection.GetUInt32(message, &field) : reflection.GetRepeatedUInt32(message, &field, index);
    case FieldDescriptor::CPPTYPE_UINT64:
      return one ? reflection.GetUInt64(message, &field) : reflection.GetRepeatedUInt64(message, &field, index);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return one ? reflection.GetFloat(message, &field) : reflection.GetRepeatedFloat(message, &field, index);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return one ? reflection.GetDouble(message, &field) : reflection.GetRepeatedDouble(message, &field, index);
    case FieldDescriptor::CPPTYPE_STRING:
      return one ? reflection.GetString(message, &field) : reflection.GetRepeatedString(message, &field, index);
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumName(one ? *reflection.GetEnum(message, &field) : *reflection.GetRepeatedEnum(message, &field, index));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(one ? reflection.GetMessage(message, &field)
                        : reflection.GetRepeatedMessage(message, &field, index));
  }
  return nullptr;
}

}  // namespace

Json ToJson(const Message& message) {
  const std::string& type = message.GetDescriptor()->full_name();
  if (type == "google.protobuf.Timestamp") {
    return google::protobuf::util::TimeUtil::ToString(static_cast<const google::protobuf::Timestamp&>(message));
  }
  if (type == "vicinal.v1.Tensor") {
    const auto& tensor = static_cast<const v1::Tensor&>(message);
    return Json{{"dtype", std::string(wire::NameOf(tensor.dtype()))}, {"shape", wire::ShapeOf(tensor)}};
  }
  Json json = Json::object();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    if (field.is_repeated()) {
      Json values = Json::array();
      const int count = message.GetReflection()->FieldSize(message, &field);
      for (int k = 0; k < count; ++k) values.push_back(ValueToJson(message, field, k));
      json[field.name()] = std::move(values);
    } else if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE ||
               message.GetReflection()->HasField(message, &field)) {
      json[field.name()] = ValueToJson(message, field, -1);
    }
  }
  return json;
}

std::string Dump(const Json& json) { return PrintableJson(json.dump(2, ' ', false, Json::error_handler_t::replace)); }

}  // namespace vicinal::client::cli
