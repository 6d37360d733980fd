// SPDX-License-Identifier: Apache-2.0
// Runs one model of tests/data through LoadModel and Interpret on its data set, and compares with the reference that
// PyTorch Geometric gave in float64 (stored as float32, which alone costs up to 6e-8 of an element).
#ifndef VICINAL_TESTS_ENGINE_PLAN_INTERPRETER_REFERENCE_CASE_H_
#define VICINAL_TESTS_ENGINE_PLAN_INTERPRETER_REFERENCE_CASE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "client/cpp/formats/graph_file.h"
#include "engine/model/model.h"
#include "engine/model/safetensors.h"
#include "tests/engine/plan_interpreter/interpreter.h"

namespace vicinal::testing {

struct ReferenceCase {
  std::string model;
  std::string data;
  std::string folder = "models";  // of tests/data
};

// All models of tests/data/layers.
inline std::vector<ReferenceCase> LayerCases() {
  std::vector<ReferenceCase> cases;
  for (const auto& file : std::filesystem::directory_iterator(std::string(VICINAL_TEST_DATA) + "/layers")) {
    if (file.path().extension() != ".json") continue;
    std::ifstream text(file.path());
    const std::string document((std::istreambuf_iterator<char>(text)), std::istreambuf_iterator<char>());
    const bool batch = document.find("\"dataset\": \"tiny_batch\"") != std::string::npos;
    cases.push_back({file.path().stem().string(), batch ? "tiny_batch" : "tiny", "layers"});
  }
  std::sort(cases.begin(), cases.end(),
            [](const auto& a, const auto& b) { return std::tie(a.data, a.model) < std::tie(b.data, b.model); });
  return cases;
}

inline std::string ReadTestFile(const std::string& name) {
  std::ifstream file(std::string(VICINAL_TEST_DATA) + "/" + name, std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct DataSet {
  EdgeList edges;
  std::vector<double> x;
  std::vector<int64_t> segments;
  std::vector<float> edge_attr;  // [E, A]; empty: none
};

inline std::vector<double> Densify(const client::Features& features) {
  std::vector<double> x(features.rows * features.columns, 0.0);
  if (!features.sparse) {
    const std::vector<float> values = client::ToFloats(features.dense);
    std::copy(values.begin(), values.end(), x.begin());
    return x;
  }
  const std::vector<int64_t> indptr = *client::ToInts(features.indptr), indices = *client::ToInts(features.indices);
  const std::vector<float> values = client::ToFloats(features.values);
  for (int64_t r = 0; r < features.rows; ++r) {
    for (int64_t e = indptr[r]; e < indptr[r + 1]; ++e) x[r * features.columns + indices[e]] = values[e];
  }
  return x;
}

inline DataSet ReadDataSet(const std::string& name) {
  const std::string path = std::string(VICINAL_TEST_DATA) + "/graphs/" + name + ".npz";
  const client::Npz npz = *client::Npz::Open(path);
  const client::Features features = *client::ReadFeatures(npz, path);
  DataSet set;
  set.edges.num_nodes = features.rows;
  const std::vector<int64_t> ends = *client::ToInts(*npz.Read("edge_index"));
  set.edges.source.assign(ends.begin(), ends.begin() + ends.size() / 2);
  set.edges.target.assign(ends.begin() + ends.size() / 2, ends.end());
  if (npz.Has("edge_weight")) set.edges.weight = client::ToFloats(*npz.Read("edge_weight"));
  if (npz.Has("edge_attr")) set.edge_attr = client::ToFloats(*npz.Read("edge_attr"));
  set.x = Densify(features);
  if (npz.Has("graph_id")) {
    const std::vector<int64_t> id = *client::ToInts(*npz.Read("graph_id"));
    set.segments = {0};
    for (size_t i = 1; i < id.size(); ++i) {
      if (id[i] != id[i - 1]) set.segments.push_back(static_cast<int64_t>(i));
    }
    set.segments.push_back(static_cast<int64_t>(id.size()));
  }
  return set;
}

// The last one used is kept: cases come grouped by data set.
inline const DataSet& CachedDataSet(const std::string& name) {
  static std::string cached_name;
  static DataSet cached;
  if (cached_name != name) {
    cached = ReadDataSet(name);
    cached_name = name;
  }
  return cached;
}

inline void ExpectClose(const std::vector<double>& got, const std::vector<float>& expected, int64_t width) {
  ASSERT_EQ(got.size(), expected.size());
  constexpr double kTolerance = 1e-7;
  double error = 0.0, norm = 0.0, worst = 0.0;
  for (size_t r = 0; r < got.size() / width; ++r) {
    double row_error = 0.0, row_norm = 0.0;
    for (size_t i = r * width; i < (r + 1) * width; ++i) {
      row_error += (got[i] - expected[i]) * (got[i] - expected[i]);
      row_norm += static_cast<double>(expected[i]) * expected[i];
    }
    error += row_error;
    norm += row_norm;
    if (row_error > 0.0) worst = std::max(worst, std::sqrt(row_error / row_norm));
  }
  EXPECT_GT(norm, 0.0);
  EXPECT_LT(std::sqrt(error / norm), kTolerance) << "relative L2 error";
  EXPECT_LT(worst, kTolerance) << "worst row's error relative to its norm";
}

inline void CheckReferenceCase(const ReferenceCase& test) {
  const std::string base = test.folder + "/" + test.model;
  const bool hand_written = std::filesystem::exists(std::string(VICINAL_TEST_DATA) + "/" + base + ".vicinal.json");
  const auto model =
      LoadModel(ReadTestFile(base + (hand_written ? ".vicinal.json" : ".json")), ReadTestFile(base + ".safetensors"));
  ASSERT_TRUE(model.ok()) << model.status();
  const std::string reference_file = ReadTestFile(base + ".reference.safetensors");
  const auto reference = Safetensors::Parse(reference_file);
  ASSERT_TRUE(reference.ok()) << reference.status();
  const DataSet& data = CachedDataSet(test.data);
  InterpreterInput input;
  input.edges = &data.edges;
  input.x = &data.x;
  input.edge_attr = data.edge_attr;
  if ((*model)->graph_level) input.segments = data.segments;
  for (const auto& [name, entry] : reference->entries()) {
    SCOPED_TRACE(name);
    const NamedOutput* output = (*model)->FindOutput(name == "graph_logits" ? "logits" : name);
    ASSERT_NE(output, nullptr);
    const auto got = Interpret(**model, input, output->value);
    ASSERT_TRUE(got.ok()) << got.status();
    ExpectClose(*got, *Safetensors::ToFloats(entry, name), output->width);
  }
}

inline std::string CaseName(const ::testing::TestParamInfo<ReferenceCase>& info) {
  std::string name = info.param.model;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_PLAN_INTERPRETER_REFERENCE_CASE_H_
