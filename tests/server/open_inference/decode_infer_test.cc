// SPDX-License-Identifier: Apache-2.0
#include "server/open_inference/decode_infer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>

#include "engine/base/error.h"
#include "server/open_inference/model_names.h"

namespace vicinal::server {
namespace {

using inference::ModelInferRequest;

const OpenModelName kNodes{"g", "m"}, kGraphs{"", "p"};

template <class T>
std::string Raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

ModelInferRequest::InferInputTensor* AddInput(ModelInferRequest* request, const std::string& name,
                                              const std::string& datatype, const std::vector<int64_t>& shape) {
  auto* const input = request->add_inputs();
  input->set_name(name);
  input->set_datatype(datatype);
  input->mutable_shape()->Add(shape.begin(), shape.end());
  return input;
}
void AddRaw(ModelInferRequest* request, const std::string& name, const std::string& datatype,
            const std::vector<int64_t>& shape, const std::string& bytes) {
  AddInput(request, name, datatype, shape);
  request->add_raw_input_contents(bytes);
}

// Two nodes, whose features come along.
ModelInferRequest OfNodes() {
  ModelInferRequest request;
  request.set_model_name("g/m");
  AddRaw(&request, "nodes", "INT64", {2}, Raw<int64_t>({7, 3}));
  AddRaw(&request, "x", "FP32", {1, 3}, Raw<float>({1, 2, 3}));
  AddRaw(&request, "x_nodes", "INT64", {1}, Raw<int64_t>({5}));
  return request;
}
ModelInferRequest OfGraphs() {
  ModelInferRequest request;
  request.set_model_name("p");
  AddRaw(&request, "x", "FP32", {2, 1}, Raw<float>({1, 2}));
  AddRaw(&request, "ptr", "INT64", {2}, Raw<int64_t>({0, 2}));
  AddRaw(&request, "edge_index", "INT32", {2, 1}, Raw<int32_t>({0, 1}));
  return request;
}

void ExpectRefused(const OpenModelName& name, const ModelInferRequest& request, const std::string& reason,
                   const std::string& field, const std::string& piece) {
  const StatusOr<OpenInfer> decoded = DecodeInfer(name, request);
  ASSERT_FALSE(decoded.ok()) << piece;
  EXPECT_EQ(decoded.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(DetailOf(decoded.status())->reason, reason) << decoded.status();
  EXPECT_EQ(DetailOf(decoded.status())->field, field) << decoded.status();
  EXPECT_NE(std::string(decoded.status().message()).find(piece), std::string::npos) << decoded.status();
}

TEST(DecodeInferTest, RawInputsOfNodes) {
  const StatusOr<OpenInfer> decoded = DecodeInfer(kNodes, OfNodes());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(decoded->raw);
  EXPECT_EQ(decoded->outputs, (std::vector{OpenOutput::kClasses, OpenOutput::kScores}));
  const auto& request = std::get<v1::ClassifyRequest>(decoded->request);
  EXPECT_EQ(request.target().graph(), "g");
  EXPECT_EQ(request.target().model(), "m");
  EXPECT_EQ(request.target().model_version(), 0);
  EXPECT_FALSE(request.nodes().all());
  ASSERT_EQ(request.nodes().ids_size(), 2);
  EXPECT_EQ(request.nodes().ids(0), 7);
  EXPECT_EQ(request.nodes().ids(1), 3);
  ASSERT_EQ(request.features().rows_size(), 1);
  EXPECT_EQ(request.features().rows(0), 5);
  EXPECT_EQ(request.features().dense().dtype(), v1::DATA_TYPE_FLOAT32);
  EXPECT_EQ(request.features().dense().shape(1), 3);
  EXPECT_EQ(request.features().dense().data(), Raw<float>({1, 2, 3}));
  EXPECT_EQ(request.top_k(), 1);
  EXPECT_FALSE(request.return_logits());
}

TEST(DecodeInferTest, TypedContentsMeanTheSame) {
  ModelInferRequest request;
  AddInput(&request, "nodes", "INT64", {2})->mutable_contents()->add_int64_contents(7);
  request.mutable_inputs(0)->mutable_contents()->add_int64_contents(3);
  auto* const x = AddInput(&request, "x", "FP32", {1, 3})->mutable_contents();
  for (const float value : {1, 2, 3}) x->add_fp32_contents(value);
  AddInput(&request, "x_nodes", "INT64", {1})->mutable_contents()->add_int64_contents(5);
  const StatusOr<OpenInfer> typed = DecodeInfer(kNodes, request), raw = DecodeInfer(kNodes, OfNodes());
  ASSERT_TRUE(typed.ok() && raw.ok()) << typed.status();
  EXPECT_EQ(std::get<v1::ClassifyRequest>(typed->request).SerializeAsString(),
            std::get<v1::ClassifyRequest>(raw->request).SerializeAsString());
}

TEST(DecodeInferTest, WithoutInputsAllNodesAreMeant) {
  const StatusOr<OpenInfer> decoded = DecodeInfer(kNodes, ModelInferRequest());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const auto& request = std::get<v1::ClassifyRequest>(decoded->request);
  EXPECT_TRUE(request.nodes().all());
  EXPECT_FALSE(request.has_features());
}

TEST(DecodeInferTest, OutputsDecideWhatIsAsked) {
  const auto decode = [](const std::vector<std::string>& outputs, const std::string& output = "") {
    ModelInferRequest request = OfNodes();
    for (const std::string& name : outputs) request.add_outputs()->set_name(name);
    if (!output.empty()) (*request.mutable_parameters())["output"].set_string_param(output);
    return DecodeInfer(kNodes, request).value();
  };
  const OpenInfer logits = decode({"logits"});
  EXPECT_EQ(std::get<v1::EmbedRequest>(logits.request).output(), "logits");
  EXPECT_EQ(std::get<v1::EmbedRequest>(logits.request).nodes().ids_size(), 2);
  EXPECT_EQ(std::get<v1::EmbedRequest>(decode({"embeddings"}).request).output(), "");
  EXPECT_EQ(std::get<v1::EmbedRequest>(decode({"embeddings"}, "conv1").request).output(), "conv1");
  const OpenInfer three = decode({"probabilities", "classes", "logits"});
  EXPECT_EQ(three.outputs, (std::vector{OpenOutput::kProbabilities, OpenOutput::kClasses, OpenOutput::kLogits}));
  const auto& classify = std::get<v1::ClassifyRequest>(three.request);
  EXPECT_TRUE(classify.return_logits() && classify.return_probabilities());
  EXPECT_EQ(classify.top_k(), 1);
}

TEST(DecodeInferTest, ParametersReachTheRequest) {
  ModelInferRequest request = OfNodes();
  request.set_model_version("12");
  auto& parameters = *request.mutable_parameters();
  parameters["top_k"].set_int64_param(3);
  parameters["priority"].set_uint64_param(2);
  parameters["timeout"].set_int64_param(1500);
  parameters["binary_data_output"].set_bool_param(false);
  parameters["feature_set"].set_string_param("monday");
  parameters["feature_set_version"].set_int64_param(4);
  parameters["graph_version"].set_int64_param(5);
  parameters["incarnation"].set_string_param("i");
  parameters["ids_digest"].set_string_param("d");
  const StatusOr<OpenInfer> decoded = DecodeInfer(kNodes, request);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_FALSE(decoded->raw);
  EXPECT_EQ(decoded->timeout, std::chrono::microseconds(1500));
  const auto& classify = std::get<v1::ClassifyRequest>(decoded->request);
  EXPECT_EQ(classify.top_k(), 3);
  EXPECT_EQ(classify.execution().priority(), v1::PRIORITY_BATCH);
  const v1::Target& target = classify.target();
  EXPECT_EQ(target.model_version(), 12);
  EXPECT_EQ(target.feature_set(), "monday");
  EXPECT_EQ(target.feature_set_version(), 4);
  EXPECT_EQ(target.graph_version(), 5);
  EXPECT_EQ(target.incarnation(), "i");
  EXPECT_EQ(target.ids_digest(), "d");
  parameters["priority"].set_string_param("interactive");
  EXPECT_EQ(std::get<v1::ClassifyRequest>(DecodeInfer(kNodes, request)->request).execution().priority(),
            v1::PRIORITY_INTERACTIVE);
}

// Triton's clients in C++ set it in every request.
TEST(DecodeInferTest, TritonsFinalResponse) {
  ModelInferRequest request = OfNodes();
  EXPECT_FALSE(DecodeInfer(kNodes, request)->tells_final);
  for (const bool wanted : {false, true}) {
    (*request.mutable_parameters())["triton_enable_empty_final_response"].set_bool_param(wanted);
    const StatusOr<OpenInfer> decoded = DecodeInfer(kNodes, request);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->tells_final, wanted);
  }
}

TEST(DecodeInferTest, SmallGraphs) {
  ModelInferRequest request = OfGraphs();
  const StatusOr<OpenInfer> decoded = DecodeInfer(kGraphs, request);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const auto& graphs = std::get<v1::ClassifyGraphsRequest>(decoded->request);
  EXPECT_EQ(graphs.model(), "p");
  EXPECT_EQ(graphs.graphs().ptr().data(), Raw<int64_t>({0, 2}));
  EXPECT_EQ(graphs.graphs().edge_index().dtype(), v1::DATA_TYPE_INT32);
  EXPECT_EQ(graphs.graphs().features().dense().data(), Raw<float>({1, 2}));
  EXPECT_FALSE(graphs.graphs().has_edge_weight());
  EXPECT_TRUE(graphs.return_logits()) << "it may be a regression";
  EXPECT_FALSE(graphs.has_top_k());
  AddRaw(&request, "edge_weight", "FP32", {1}, Raw<float>({2}));
  (*request.mutable_parameters())["top_k"].set_int64_param(2);
  const StatusOr<OpenInfer> weighted = DecodeInfer(kGraphs, request);
  ASSERT_TRUE(weighted.ok()) << weighted.status();
  EXPECT_TRUE(std::get<v1::ClassifyGraphsRequest>(weighted->request).graphs().has_edge_weight());
  EXPECT_EQ(std::get<v1::ClassifyGraphsRequest>(weighted->request).top_k(), 2);
  EXPECT_FALSE(std::get<v1::ClassifyGraphsRequest>(weighted->request).return_logits());
}

TEST(DecodeInferTest, LogitsInsteadAskTheSame) {
  StatusOr<OpenInfer> decoded = DecodeInfer(kNodes, OfNodes());
  ASSERT_TRUE(decoded.ok());
  const v1::EmbedRequest embed = LogitsInstead(&std::get<v1::ClassifyRequest>(decoded->request));
  EXPECT_EQ(embed.output(), "logits");
  EXPECT_EQ(embed.target().model(), "m");
  EXPECT_EQ(embed.nodes().ids_size(), 2);
  EXPECT_EQ(embed.features().dense().data(), Raw<float>({1, 2, 3}));
}

TEST(DecodeInferTest, BadInputsAreRefused) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  struct Case {
    std::function<void(ModelInferRequest*)> spoil;
    const char* field;
    std::string piece;
  };
  const auto shape = [](int input, std::vector<int64_t> extents) {
    return [input, extents](ModelInferRequest* r) {
      r->mutable_inputs(input)->clear_shape();
      r->mutable_inputs(input)->mutable_shape()->Add(extents.begin(), extents.end());
    };
  };
  const Case cases[] = {
      {[](auto* r) { r->mutable_inputs(0)->set_datatype("INT32"); }, "inputs[0].datatype", "must be INT64"},
      {[](auto* r) { r->mutable_inputs(0)->set_datatype(""); }, "inputs[0].datatype", "must be INT64"},
      {[](auto* r) { r->mutable_inputs(1)->set_datatype("FP64"); }, "inputs[1].datatype", "FP32 or FP16 or BF16"},
      {[](auto* r) { r->mutable_inputs(1)->set_datatype("FP16"); }, "raw_input_contents[1]", "need 6"},
      {shape(0, {}), "inputs[0].shape", "must have 1"},
      {shape(0, {2, 1}), "inputs[0].shape", "must have 1"},
      {shape(1, {3}), "inputs[1].shape", "must have 2"},
      {shape(0, {-1}), "inputs[0].shape", "extent -1"},
      {shape(0, {3}), "raw_input_contents[0]", "16 bytes; its shape [3] and datatype need 24"},
      {shape(1, {kHuge, kHuge}), "inputs[1].shape", "too large"},
      {shape(1, {int64_t{1} << 62, 4}), "inputs[1].shape", "too large"},
      {shape(1, {0, kHuge}), "raw_input_contents[1]", "need 0"},
      {shape(0, {int64_t{1} << 61}), "inputs[0].shape", "too large"},
      {[](auto* r) { r->mutable_raw_input_contents(0)->pop_back(); }, "raw_input_contents[0]", "15 bytes"},
      {[](auto* r) { r->mutable_raw_input_contents()->RemoveLast(); }, "raw_input_contents", "2 entries for 3 inputs"},
      {[](auto* r) { r->add_raw_input_contents(""); }, "raw_input_contents", "4 entries for 3 inputs"},
      {[](auto* r) { r->clear_raw_input_contents(); }, "inputs[0].contents", "0 elements; its shape [2] needs 2"},
      {[](auto* r) { r->mutable_inputs(0)->mutable_contents()->add_int64_contents(1); }, "inputs[0].contents",
       "send one"},
      {[](auto* r) { r->mutable_inputs(0)->set_name("node"); }, "inputs[0].name", "no input 'node'"},
      {[](auto* r) { r->mutable_inputs(0)->set_name("ptr"); }, "inputs[0].name", "its inputs are nodes, x, x_nodes"},
      {[](auto* r) { r->mutable_inputs(0)->set_name(std::string(1000, 'n')); }, "inputs[0].name",
       "'" + std::string(80, 'n') + "...'"},
      {[](auto* r) { r->mutable_inputs(2)->set_name("nodes"); }, "inputs[2].name", "there twice"},
      {[](auto* r) { (*r->mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("a"); },
       "inputs[0].parameters", "shared memory"},
      {[](auto* r) {
         r->mutable_inputs()->DeleteSubrange(1, 1);
         r->mutable_raw_input_contents()->DeleteSubrange(1, 1);
       },
       "inputs", "'x_nodes' needs the input 'x'"},
      {[&](auto* r) {
         shape(0, {0})(r);
         r->mutable_raw_input_contents(0)->clear();
       },
       "inputs", "'nodes' is empty"},
      {[&](auto* r) {
         shape(2, {0})(r);
         r->mutable_raw_input_contents(2)->clear();
       },
       "inputs", "'x_nodes' is empty"},
  };
  for (const Case& one : cases) {
    ModelInferRequest request = OfNodes();
    one.spoil(&request);
    ExpectRefused(kNodes, request, "BAD_INPUT", one.field, one.piece);
  }
}

TEST(DecodeInferTest, BadTypedContentsAreRefused) {
  ModelInferRequest request;
  auto* const contents = AddInput(&request, "nodes", "INT64", {1})->mutable_contents();
  contents->add_int_contents(1);
  ExpectRefused(kNodes, request, "BAD_INPUT", "inputs[0].contents", "another type than its datatype 'INT64'");
  contents->add_int64_contents(1);
  ExpectRefused(kNodes, request, "BAD_INPUT", "inputs[0].contents", "another type");
  contents->clear_int_contents();
  EXPECT_TRUE(DecodeInfer(kNodes, request).ok());
  contents->add_int64_contents(2);
  ExpectRefused(kNodes, request, "BAD_INPUT", "inputs[0].contents", "2 elements; its shape [1] needs 1");
  contents->clear_int64_contents();
  contents->add_bytes_contents("1");
  ExpectRefused(kNodes, request, "BAD_INPUT", "inputs[0].contents", "another type");
}

TEST(DecodeInferTest, BadGraphsAreRefused) {
  for (const int input : {0, 1, 2}) {
    ModelInferRequest request = OfGraphs();
    const std::string name = request.inputs(input).name();
    request.mutable_inputs()->DeleteSubrange(input, 1);
    request.mutable_raw_input_contents()->DeleteSubrange(input, 1);
    ExpectRefused(kGraphs, request, "BAD_INPUT", "inputs", "'" + name + "' is missing");
  }
  ModelInferRequest request = OfGraphs();
  request.add_outputs()->set_name("embeddings");
  ExpectRefused(kGraphs, request, "BAD_OUTPUT", "outputs[0].name", "no output 'embeddings'");
  request.clear_outputs();
  (*request.mutable_parameters())["feature_set"].set_string_param("a");
  ExpectRefused(kGraphs, request, "BAD_PARAMETER", "parameters", "no stored graph");
}

TEST(DecodeInferTest, BadOutputsAreRefused) {
  const auto expect = [](const std::vector<std::string>& names, const std::string& field, const std::string& piece) {
    ModelInferRequest request = OfNodes();
    for (const std::string& name : names) request.add_outputs()->set_name(name);
    ExpectRefused(kNodes, request, "BAD_OUTPUT", field, piece);
  };
  expect({"class"}, "outputs[0].name", "no output 'class'");
  expect({"classes", ""}, "outputs[1].name", "no output ''");
  expect({"scores", "scores"}, "outputs[1].name", "twice");
  expect({"embeddings", "classes"}, "outputs", "alone");
  ModelInferRequest request = OfNodes();
  request.add_outputs()->set_name("classes");
  (*request.mutable_outputs(0)->mutable_parameters())["classification"].set_int64_param(3);
  ExpectRefused(kNodes, request, "BAD_OUTPUT", "outputs[0].parameters", "'top_k'");
}

TEST(DecodeInferTest, BadParametersAreRefused) {
  const auto expect = [](const std::string& name, const std::function<void(inference::InferParameter*)>& set,
                         const std::string& piece) {
    ModelInferRequest request = OfNodes();
    set(&(*request.mutable_parameters())[name]);
    ExpectRefused(kNodes, request, "BAD_PARAMETER", "parameters[" + name + "]", piece);
  };
  for (const int64_t k : {int64_t{0}, int64_t{-1}, int64_t{1} << 31, std::numeric_limits<int64_t>::min()})
    expect(
        "top_k", [&](auto* p) { p->set_int64_param(k); }, "from 1 to 2147483647");
  expect(
      "top_k", [](auto* p) { p->set_uint64_param(std::numeric_limits<uint64_t>::max()); }, "from 1 to");
  expect(
      "top_k", [](auto* p) { p->set_string_param("2"); }, "whole number");
  expect(
      "top_k", [](auto*) {}, "whole number");
  expect(
      "top_k", [](auto* p) { p->set_double_param(2.5); }, "whole number");
  expect(
      "priority", [](auto* p) { p->set_uint64_param(3); }, "from 0 to 2");
  expect(
      "priority", [](auto* p) { p->set_string_param("high"); }, "'high' is unknown");
  expect(
      "timeout", [](auto* p) { p->set_int64_param(-5); }, "from 0");
  expect(
      "binary_data_output", [](auto* p) { p->set_int64_param(1); }, "true or false");
  expect(
      "triton_enable_empty_final_response", [](auto* p) { p->set_string_param("true"); }, "true or false");
  expect(
      "feature_set", [](auto* p) { p->set_bool_param(true); }, "a text");
  expect(
      "graph_version", [](auto* p) { p->set_int64_param(-1); }, "from 0");
  expect(
      "output", [](auto* p) { p->set_string_param("conv1"); }, "needs the output 'embeddings'");
  ModelInferRequest request = OfNodes();
  (*request.mutable_parameters())["sequence_id"].set_int64_param(1);
  ExpectRefused(kNodes, request, "BAD_PARAMETER", "parameters", "'sequence_id' is unknown");
  request = OfNodes();
  (*request.mutable_parameters())["top_k"].set_int64_param(1);
  request.add_outputs()->set_name("logits");
  ExpectRefused(kNodes, request, "BAD_PARAMETER", "parameters[top_k]", "needs the output 'classes'");
}

TEST(OpenModelNamesTest, NamesAndVersions) {
  const auto name = [](const std::string& text) { return ParseOpenModelName(text, "name"); };
  EXPECT_EQ(name("g/m")->graph, "g");
  EXPECT_EQ(name("g/m")->model, "m");
  EXPECT_EQ(name("m")->graph, "");
  EXPECT_EQ(ToString(*name("g/m")), "g/m");
  EXPECT_EQ(ToString(*name("m")), "m");
  for (const char* bad : {"", "/", "g/", "/m", "g/m/x", "G/m", "g/..", "../m", "g m", "g//m"})
    EXPECT_EQ(DetailOf(name(bad).status())->reason, "BAD_NAME") << bad;
  EXPECT_LT(name(std::string(1 << 20, 'a')).status().message().size(), 1000u);
  EXPECT_EQ(*ParseOpenVersion("", "version"), 0);
  EXPECT_EQ(*ParseOpenVersion("12", "version"), 12);
  for (const char* bad : {"0", "-1", "1.0", "v1", " 1", "1 ", "9223372036854775808", "+1"})
    EXPECT_EQ(DetailOf(ParseOpenVersion(bad, "version").status())->reason, "BAD_VERSION") << bad;
}

}  // namespace
}  // namespace vicinal::server
