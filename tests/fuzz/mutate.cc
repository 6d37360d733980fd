// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/mutate.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>

#include "proto/wire/crc32c.h"
#include "tests/fuzz/calls.pb.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace vicinal::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int kMaxRepeated = 24;
constexpr size_t kMaxText = 400;
// Words that reach further than random ones: names of the world, tensors, kernels, operations.
const char* const kWords[] = {"",
                              "g",
                              "m",
                              "p",
                              "h",
                              "default",
                              "other",
                              "upload-1",
                              "upload-22222",
                              "edge_index",
                              "edge_weight",
                              "x",
                              "x_indptr",
                              "x_indices",
                              "x_values",
                              "weights",
                              "reference",
                              "logits",
                              "last_conv_input",
                              "a",
                              "b",
                              "c",
                              "aggregate",
                              "attention",
                              "dense_update",
                              "sparse_update",
                              "sparse_aggregate_update",
                              "reference",
                              "simd",
                              "sum",
                              "mean",
                              "max",
                              "min",
                              "none",
                              "edge",
                              "gcn",
                              "g/default",
                              "../g",
                              "\xC3\xA9",
                              "A"};

class Mutator {
 public:
  Mutator(const std::vector<std::string>& methods, unsigned seed) : methods_(methods), random_(seed) {}

  void Mutate(Calls* calls) {
    if (calls->calls_size() == 0 || Chance(8)) AddCall(calls);
    std::vector<Message*> all;
    for (Call& call : *calls->mutable_calls()) Collect(&call, &all);
    Change(all[Below(all.size())]);
    if (Chance(8)) ChangeOrder(calls);
    if (!Chance(6)) Repair(calls);
  }

 private:
  uint64_t Below(uint64_t n) { return n == 0 ? 0 : random_() % n; }
  bool Chance(unsigned n) { return Below(n) == 0; }

  static void Collect(Message* message, std::vector<Message*>* all) {
    all->push_back(message);
    const Reflection* reflection = message->GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection->ListFields(*message, &fields);
    for (const FieldDescriptor* field : fields) {
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
      if (!field->is_repeated()) {
        Collect(reflection->MutableMessage(message, field), all);
        continue;
      }
      for (int i = 0; i < reflection->FieldSize(*message, field); ++i) {
        Collect(reflection->MutableRepeatedMessage(message, field, i), all);
      }
    }
  }

  bool Allowed(const FieldDescriptor* field) const {
    if (field->containing_type() != Call::descriptor() || field->containing_oneof() == nullptr) return true;
    std::string name = field->camelcase_name();
    name[0] = static_cast<char>(name[0] - 'a' + 'A');
    return std::find(methods_.begin(), methods_.end(), name) != methods_.end();
  }

  void AddCall(Calls* calls) {
    if (calls->calls_size() >= kMaxRepeated) return;
    Call* call = calls->add_calls();
    if (calls->calls_size() > 1 && !Chance(3)) {
      *call = calls->calls(static_cast<int>(Below(calls->calls_size() - 1)));
      return;
    }
    Fill(call, 0);
  }

  void ChangeOrder(Calls* calls) {
    const int size = calls->calls_size();
    if (Chance(2)) {
      calls->mutable_calls()->SwapElements(static_cast<int>(Below(size)), static_cast<int>(Below(size)));
    } else if (size > 1) {
      calls->mutable_calls()->DeleteSubrange(static_cast<int>(Below(size)), 1);
    }
  }

  // Sets about half the fields.
  void Fill(Message* message, int depth) {
    const auto* type = message->GetDescriptor();
    if (type == Call::descriptor()) {
      const auto* oneof = type->FindOneofByName("request");
      std::vector<const FieldDescriptor*> allowed;
      for (int i = 0; i < oneof->field_count(); ++i) {
        if (Allowed(oneof->field(i))) allowed.push_back(oneof->field(i));
      }
      if (!allowed.empty()) {
        Fill(message->GetReflection()->MutableMessage(message, allowed[Below(allowed.size())]), depth + 1);
      }
      return;
    }
    for (int i = 0; i < type->field_count(); ++i) {
      if (depth < 6 && Chance(2)) SetField(message, type->field(i), depth);
    }
  }

  void Change(Message* message) {
    const auto* type = message->GetDescriptor();
    if (type->field_count() == 0) return;
    const FieldDescriptor* field = type->field(static_cast<int>(Below(type->field_count())));
    if (!Allowed(field)) return;
    const Reflection* reflection = message->GetReflection();
    if (field->is_repeated()) return ChangeRepeated(message, field);
    if (Chance(6)) return reflection->ClearField(message, field);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && reflection->HasField(*message, field)) {
      return Change(reflection->MutableMessage(message, field));
    }
    SetField(message, field, 0);
  }

  void ChangeRepeated(Message* message, const FieldDescriptor* field) {
    const Reflection* reflection = message->GetReflection();
    const int size = reflection->FieldSize(*message, field);
    if (size == 0 || (Chance(3) && size < kMaxRepeated)) return SetField(message, field, 0);
    switch (Below(3)) {
      case 0:
        return reflection->RemoveLast(message, field);
      case 1:
        return reflection->SwapElements(message, field, static_cast<int>(Below(size)), static_cast<int>(Below(size)));
      default:
        SetField(message, field, 0);
        reflection->SwapElements(message, field, static_cast<int>(Below(size)), size);
        reflection->RemoveLast(message, field);
    }
  }

  int64_t Int() {
    static constexpr int64_t kEdges[] = {-1, 255, 1000, 1001, 65536, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
    if (Chance(4)) return kEdges[Below(std::size(kEdges))];
    return static_cast<int64_t>(Below(Chance(4) ? 200 : 9));
  }
  double Real() {
    static constexpr double kEdges[] = {-1.0, 1e-300, 1e300, std::numeric_limits<double>::infinity(),
                                        std::numeric_limits<double>::quiet_NaN()};
    return Chance(2) ? kEdges[Below(std::size(kEdges))] : static_cast<double>(Below(100)) / 16;
  }
  std::string Bytes(std::string text) {
    const size_t size = text.size();
    text.resize(std::max(size, kMaxText) + 16);
    text.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(text.data()), size, text.size()));
    return text;
  }
  std::string Text(const std::string& before) {
    if (Chance(4)) return Bytes(before);
    return kWords[Below(std::size(kWords))];
  }

  // Of a repeated field: adds an element.
  void SetField(Message* message, const FieldDescriptor* field, int depth) {
    const Reflection* r = message->GetReflection();
    const bool add = field->is_repeated();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32: {
        const auto value = static_cast<int32_t>(Int());
        return add ? r->AddInt32(message, field, value) : r->SetInt32(message, field, value);
      }
      case FieldDescriptor::CPPTYPE_INT64:
        return add ? r->AddInt64(message, field, Int()) : r->SetInt64(message, field, Int());
      case FieldDescriptor::CPPTYPE_UINT32: {
        const auto value = static_cast<uint32_t>(Int());
        return add ? r->AddUInt32(message, field, value) : r->SetUInt32(message, field, value);
      }
      case FieldDescriptor::CPPTYPE_UINT64: {
        const auto value = static_cast<uint64_t>(Int());
        return add ? r->AddUInt64(message, field, value) : r->SetUInt64(message, field, value);
      }
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return add ? r->AddDouble(message, field, Real()) : r->SetDouble(message, field, Real());
      case FieldDescriptor::CPPTYPE_FLOAT: {
        const auto value = static_cast<float>(Below(100));
        return add ? r->AddFloat(message, field, value) : r->SetFloat(message, field, value);
      }
      case FieldDescriptor::CPPTYPE_BOOL:
        return add ? r->AddBool(message, field, Chance(2)) : r->SetBool(message, field, Chance(2));
      case FieldDescriptor::CPPTYPE_ENUM: {
        const int value = static_cast<int>(Below(9));
        return add ? r->AddEnumValue(message, field, value) : r->SetEnumValue(message, field, value);
      }
      case FieldDescriptor::CPPTYPE_STRING: {
        const std::string before = add ? "" : r->GetString(*message, field);
        const std::string value = field->type() == FieldDescriptor::TYPE_BYTES ? Bytes(before) : Text(before);
        return add ? r->AddString(message, field, value) : r->SetString(message, field, value);
      }
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return Fill(add ? r->AddMessage(message, field) : r->MutableMessage(message, field), depth + 1);
    }
  }

  // Checksums always, and often sizes: bytes that fit their shape get further.
  void Repair(Calls* calls) {
    std::vector<Message*> all;
    Collect(calls, &all);
    for (Message* message : all) {
      if (auto* tensor = dynamic_cast<v1::Tensor*>(message); tensor != nullptr && Chance(2)) RepairTensor(tensor);
      if (auto* chunk = dynamic_cast<v1::UploadChunk*>(message)) {
        chunk->set_crc32c(wire::Crc32c(chunk->data().data(), chunk->data().size()));
      }
    }
  }
  static void RepairTensor(v1::Tensor* tensor) {
    static constexpr int64_t kSizes[] = {0, 4, 2, 2, 4, 8, 1};
    const int type = tensor->dtype();
    int64_t bytes = type >= 0 && type < static_cast<int>(std::size(kSizes)) ? kSizes[type] : 0;
    for (const int64_t extent : tensor->shape()) {
      if (extent < 0 || extent > 4096 || bytes > 4096) return;
      bytes *= extent;
    }
    if (bytes <= 4096) tensor->mutable_data()->resize(static_cast<size_t>(bytes), '\0');
  }

  const std::vector<std::string>& methods_;
  std::mt19937_64 random_;
};

}  // namespace

std::string MutateCalls(const std::string& input, const std::vector<std::string>& methods, unsigned seed) {
  struct Silent final : google::protobuf::io::ErrorCollector {
    void AddError(int, int, const std::string&) override {}
  } silent;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&silent);
  Calls calls;
  if (!parser.ParseFromString(input, &calls)) calls.Clear();
  Mutator mutator(methods, seed);
  for (unsigned i = 0; i < 1 + seed % 4; ++i) mutator.Mutate(&calls);
  std::string text;
  google::protobuf::TextFormat::PrintToString(calls, &text);
  return text;
}

}  // namespace vicinal::fuzz
