// SPDX-License-Identifier: Apache-2.0
#include "server/open_inference/infer_inputs.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "proto/wire/tensors.h"
#include "server/open_inference/model_names.h"

namespace vicinal::server {
namespace {

using inference::ModelInferRequest;

struct DataTypeName {
  const char* name;
  v1::DataType dtype;
};
constexpr DataTypeName kInt64[] = {{"INT64", v1::DATA_TYPE_INT64}};
constexpr DataTypeName kIntegers[] = {{"INT64", v1::DATA_TYPE_INT64}, {"INT32", v1::DATA_TYPE_INT32}};
constexpr DataTypeName kFloat32[] = {{"FP32", v1::DATA_TYPE_FLOAT32}};
constexpr DataTypeName kFloats[] = {
    {"FP32", v1::DATA_TYPE_FLOAT32}, {"FP16", v1::DATA_TYPE_FLOAT16}, {"BF16", v1::DATA_TYPE_BFLOAT16}};

struct InputKind {
  const char* name;
  const DataTypeName* types;
  size_t type_count;
  int dimensions;
};
constexpr InputKind kNodeInputs[] = {{"nodes", kInt64, 1, 1}, {"x", kFloats, 3, 2}, {"x_nodes", kInt64, 1, 1}};
constexpr InputKind kGraphInputs[] = {{"ptr", kInt64, 1, 1},
                                      {"edge_index", kIntegers, 2, 2},
                                      {"x", kFloats, 3, 2},
                                      {"edge_weight", kFloat32, 1, 1},
                                      {"edge_attr", kFloat32, 1, 2}};

Status BadInput(std::string_view field, std::string_view message) {
  return InvalidArgument("BAD_INPUT", field, message);
}

// Elements in the typed field of `dtype`, and in all of them.
int64_t TypedCount(const inference::InferTensorContents& contents, v1::DataType dtype) {
  switch (dtype) {
    case v1::DATA_TYPE_INT64:
      return contents.int64_contents_size();
    case v1::DATA_TYPE_INT32:
      return contents.int_contents_size();
    case v1::DATA_TYPE_FLOAT32:
      return contents.fp32_contents_size();
    default:  // FP16 and BF16 have none
      return 0;
  }
}
int64_t TypedCount(const inference::InferTensorContents& contents) {
  return int64_t{contents.bool_contents_size()} + contents.int_contents_size() + contents.int64_contents_size() +
         contents.uint_contents_size() + contents.uint64_contents_size() + contents.fp32_contents_size() +
         contents.fp64_contents_size() + contents.bytes_contents_size();
}

template <class T>
std::string BytesOf(const google::protobuf::RepeatedField<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), static_cast<size_t>(values.size()) * sizeof(T)};
}

std::string TypedBytes(const inference::InferTensorContents& contents, v1::DataType dtype) {
  if (dtype == v1::DATA_TYPE_INT64) return BytesOf(contents.int64_contents());
  if (dtype == v1::DATA_TYPE_INT32) return BytesOf(contents.int_contents());
  return BytesOf(contents.fp32_contents());
}

using NamedTensors = std::vector<std::pair<std::string_view, v1::Tensor>>;

v1::Tensor* FindIn(NamedTensors& tensors, std::string_view name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& one) { return one.first == name; });
  return found == tensors.end() ? nullptr : &found->second;
}

class Reader {
 public:
  explicit Reader(const ModelInferRequest& request) : request_(request) {}

  // Names, types, shapes and sizes of all inputs.
  template <size_t n>
  Status Read(const InputKind (&kinds)[n]) {
    raw_ = request_.raw_input_contents_size() > 0;
    if (raw_ && request_.raw_input_contents_size() != request_.inputs_size()) {
      return BadInput("raw_input_contents",
                      absl::StrCat("raw_input_contents has ", request_.raw_input_contents_size(), " entries for ",
                                   request_.inputs_size(), " inputs; send one for each, or none"));
    }
    for (int i = 0; i < request_.inputs_size(); ++i) {
      const std::string field = absl::StrCat("inputs[", i, "]");
      const auto& input = request_.inputs(i);
      const auto* const kind =
          std::find_if(kinds, kinds + n, [&](const InputKind& known) { return known.name == input.name(); });
      if (kind == kinds + n) {
        std::string known;
        for (const InputKind& one : kinds) absl::StrAppend(&known, known.empty() ? "" : ", ", one.name);
        return BadInput(field + ".name",
                        absl::StrCat("the model has no input ", Quoted(input.name()), "; its inputs are ", known));
      }
      if (FindIn(read_, kind->name) != nullptr)
        return BadInput(field + ".name", absl::StrCat("the input '", kind->name, "' is there twice"));
      VICINAL_RETURN_IF_ERROR(ReadOne(*kind, i, field));
    }
    return OkStatus();
  }
  NamedTensors& tensors() { return read_; }

 private:
  Status ReadOne(const InputKind& kind, int i, const std::string& field) {
    const auto& input = request_.inputs(i);
    if (!input.parameters().empty()) {
      return BadInput(field + ".parameters",
                      absl::StrCat("the input '", kind.name,
                                   "' has parameters; none is known, and shared memory is not supported"));
    }
    v1::Tensor tensor;
    VICINAL_RETURN_IF_ERROR(ReadType(kind, input.datatype(), field, &tensor));
    VICINAL_ASSIGN_OR_RETURN(const int64_t count, ReadShape(kind, input, field, &tensor));
    VICINAL_RETURN_IF_ERROR(raw_ ? ReadRaw(kind, i, count, field, &tensor)
                                 : ReadTyped(kind, input, count, field, &tensor));
    read_.emplace_back(kind.name, std::move(tensor));
    return OkStatus();
  }

  static Status ReadType(const InputKind& kind, const std::string& datatype, const std::string& field,
                         v1::Tensor* tensor) {
    std::string known;
    for (size_t t = 0; t < kind.type_count; ++t) {
      if (datatype == kind.types[t].name) {
        tensor->set_dtype(kind.types[t].dtype);
        return OkStatus();
      }
      absl::StrAppend(&known, known.empty() ? "" : " or ", kind.types[t].name);
    }
    return BadInput(field + ".datatype", absl::StrCat("the input '", kind.name, "' has the datatype ", Quoted(datatype),
                                                      "; it must be ", known));
  }

  // The number of elements.
  static StatusOr<int64_t> ReadShape(const InputKind& kind, const ModelInferRequest::InferInputTensor& input,
                                     const std::string& field, v1::Tensor* tensor) {
    if (input.shape_size() != kind.dimensions) {
      return BadInput(field + ".shape", absl::StrCat("the input '", kind.name, "' has ", input.shape_size(),
                                                     " dimensions; it must have ", kind.dimensions));
    }
    int64_t count = 1;
    for (const int64_t extent : input.shape()) {
      if (extent < 0) {
        return BadInput(field + ".shape",
                        absl::StrCat("the input '", kind.name, "' has the extent ", extent, " in its shape"));
      }
      tensor->add_shape(extent);
      // Far from any overflow when it is multiplied by the size of an element.
      constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 16;
      if (extent > 0 && count > kMost / extent)
        return BadInput(field + ".shape", absl::StrCat("the shape of the input '", kind.name, "' is too large"));
      count *= extent;
    }
    return count;
  }

  Status ReadRaw(const InputKind& kind, int i, int64_t count, const std::string& field, v1::Tensor* tensor) const {
    if (TypedCount(request_.inputs(i).contents()) > 0) {
      return BadInput(
          field + ".contents",
          absl::StrCat("the input '", kind.name, "' has contents, and raw_input_contents is set, too; send one"));
    }
    const std::string& bytes = request_.raw_input_contents(i);
    const int64_t expected = count * wire::SizeOf(tensor->dtype());
    if (static_cast<int64_t>(bytes.size()) != expected) {
      return BadInput(absl::StrCat("raw_input_contents[", i, "]"),
                      absl::StrCat("the input '", kind.name, "' has ", bytes.size(), " bytes; its shape ",
                                   wire::ShapeToString(wire::ShapeOf(*tensor)), " and datatype need ", expected));
    }
    tensor->set_data(bytes);
    return OkStatus();
  }

  static Status ReadTyped(const InputKind& kind, const ModelInferRequest::InferInputTensor& input, int64_t count,
                          const std::string& field, v1::Tensor* tensor) {
    const int64_t typed = TypedCount(input.contents(), tensor->dtype());
    if (typed != TypedCount(input.contents())) {
      return BadInput(field + ".contents",
                      absl::StrCat("the input '", kind.name, "' has contents of another type than its datatype ",
                                   Quoted(input.datatype())));
    }
    if (typed != count) {
      return BadInput(field + ".contents",
                      absl::StrCat("the input '", kind.name, "' has ", typed, " elements; its shape ",
                                   wire::ShapeToString(wire::ShapeOf(*tensor)), " needs ", count));
    }
    tensor->set_data(TypedBytes(input.contents(), tensor->dtype()));
    return OkStatus();
  }

  const ModelInferRequest& request_;
  bool raw_ = false;
  NamedTensors read_;
};

template <size_t n>
StatusOr<NamedTensors> ReadAll(const ModelInferRequest& request, const InputKind (&kinds)[n]) {
  Reader reader(request);
  VICINAL_RETURN_IF_ERROR(reader.Read(kinds));
  return std::move(reader.tensors());
}

}  // namespace

StatusOr<InferInputs> InferInputs::OfNodes(const ModelInferRequest& request) {
  VICINAL_ASSIGN_OR_RETURN(NamedTensors tensors, ReadAll(request, kNodeInputs));
  return InferInputs(std::move(tensors));
}

StatusOr<InferInputs> InferInputs::OfGraphs(const ModelInferRequest& request) {
  VICINAL_ASSIGN_OR_RETURN(NamedTensors tensors, ReadAll(request, kGraphInputs));
  return InferInputs(std::move(tensors));
}

v1::Tensor* InferInputs::Find(std::string_view name) { return FindIn(tensors_, name); }

bool InferInputs::Move(std::string_view name, v1::Tensor* tensor) {
  v1::Tensor* const found = Find(name);
  if (found != nullptr) *tensor = std::move(*found);
  return found != nullptr;
}

}  // namespace vicinal::server
