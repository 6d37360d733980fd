// SPDX-License-Identifier: Apache-2.0
// The reference models through the engine's door: every order, every kernel forced in turn, all nodes and subsets,
// against answers that PyTorch Geometric gave in float64. Bounds: relative L2 error 2e-6, no row worse than 1e-4 of its
// norm.
#ifndef VICINAL_TESTS_ENGINE_API_REFERENCE_MODELS_H_
#define VICINAL_TESTS_ENGINE_API_REFERENCE_MODELS_H_

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "client/cpp/formats/graph_file.h"
#include "engine/base/error.h"
#include "engine/model/safetensors.h"
#include "tests/engine/api/engine_testing.h"

namespace vicinal::testing {

struct ReferenceModel {
  std::string model;
  std::string data;
  double tolerance = 2e-6;
  std::string folder = "models";  // of tests/data
};

// Models on Cora and on the awkward directed graph: small enough for every test of models.
inline std::vector<ReferenceModel> SmallReferenceModels() {
  return {{"cora-gcn", "cora"},
          {"cora-gcn4", "cora"},
          {"cora-gat", "cora"},
          {"cora-gatv2", "cora"},
          {"cora-gin", "cora"},
          {"cora-sage", "cora"},
          {"cora-sagemax", "cora"},
          {"directed-gcn", "directed"},
          {"directed-gcn4", "directed"},
          {"directed-gat", "directed"},
          {"directed-gatv2", "directed"},
          {"directed-gin", "directed", 4 * 9.7e-7},
          {"directed-sage", "directed"},
          {"directed-sagemax", "directed"},
          {"directed-chain-gat", "directed"},
          {"directed-chain-gatv2", "directed"},
          {"directed-chain-gcnimproved", "directed"},
          {"directed-chain-gcnplain", "directed"},
          {"directed-chain-gcnw", "directed"},
          {"directed-chain-gin", "directed"},
          {"directed-chain-sageproject", "directed"},
          {"directed-chain-sagesum", "directed"},
          {"directed-chain-transformer", "directed"},
          {"directed-chain-edge", "directed"},
          {"directed-chain-sg", "directed"},
          {"directed-chain-appnp", "directed"}};
}

inline std::string ReadTestFile(const std::string& name) {
  std::ifstream file(std::string(VICINAL_TEST_DATA) + "/" + name, std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline HostTensor TensorOf(const client::Array& array) {
  if (array.type == client::ElementType::kFloat32) return {DataType::kFloat32, array.shape, array.data};
  if (array.type == client::ElementType::kInt32) return {DataType::kInt32, array.shape, array.data};
  EXPECT_EQ(array.type, client::ElementType::kInt64);
  return {DataType::kInt64, array.shape, array.data};
}

inline GraphSource SourceOf(const client::GraphData& data, const std::string& name, OrderKind order) {
  GraphSource source;
  source.name = name;
  source.node_count = data.node_count;
  source.edge_index = TensorOf(data.edge_index);
  if (data.edge_weight) source.edge_weight = TensorOf(*data.edge_weight);
  if (data.edge_attr) source.edge_attr = TensorOf(*data.edge_attr);
  source.order = order;
  source.feature_count = data.features->columns;
  if (data.features->sparse) {
    source.x_indptr = TensorOf(data.features->indptr);
    source.x_indices = TensorOf(data.features->indices);
    source.x_values = TensorOf(data.features->values);
  } else {
    source.x = TensorOf(data.features->dense);
  }
  return source;
}

// The expected rows of `tensor`.
inline std::vector<float> Expected(const std::string& model, const std::string& tensor,
                                   const std::string& folder = "models") {
  const std::string file = ReadTestFile(folder + "/" + model + ".reference.safetensors");
  const auto parsed = Safetensors::Parse(file);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  const SafetensorsEntry* entry = parsed->Find(tensor);
  return entry == nullptr ? std::vector<float>() : *Safetensors::ToFloats(*entry, tensor);
}

inline void ExpectClose(const InferenceResult& got, const std::vector<float>& expected, double tolerance,
                        const std::string& what) {
  ASSERT_EQ(got.values.size(), expected.size()) << what;
  double error = 0, norm = 0, worst = 0;
  for (int64_t r = 0; r < got.rows; ++r) {
    double row_error = 0, row_norm = 0;
    for (int64_t i = r * got.width; i < (r + 1) * got.width; ++i) {
      row_error += std::pow(static_cast<double>(got.values[i]) - expected[i], 2);
      row_norm += std::pow(static_cast<double>(expected[i]), 2);
    }
    error += row_error;
    norm += row_norm;
    if (row_error > 0) worst = std::max(worst, std::sqrt(row_error / row_norm));
  }
  EXPECT_LE(std::sqrt(error / norm), tolerance) << what;
  EXPECT_LE(worst, 1e-4) << what;
}

inline void PutModel(Engine& engine, const std::string& name, const std::string& folder = "models") {
  const std::string base = folder + "/" + name;
  const bool by_hand = std::filesystem::exists(std::string(VICINAL_TEST_DATA) + "/" + base + ".vicinal.json");
  ModelSource source;
  source.name = name;
  source.architecture_json = ReadTestFile(base + (by_hand ? ".vicinal.json" : ".json"));
  source.weights_file = ReadTestFile(base + ".safetensors");
  const auto handle = engine.PutModel(std::move(source), {});
  ASSERT_TRUE(handle.ok()) << handle.status();
}

// One engine for all cases: a graph is prepared once per order.
class ReferenceBench {
 public:
  static Engine& TheEngine() {
    static Engine& engine = *MakeEngine().release();
    return engine;
  }
  static const client::GraphData& Data(const std::string& name) {
    static auto& cache = *new std::map<std::string, client::GraphData>();
    if (!cache.count(name)) {
      cache[name] = *client::ReadGraphFile(std::string(VICINAL_TEST_DATA) + "/graphs/" + name + ".npz", {});
    }
    return cache[name];
  }
  static int64_t Launches(const KernelStatus& of) {
    for (const KernelStatus& kernel : TheEngine().Kernels()) {
      if (kernel.operation == of.operation && kernel.name == of.name) return kernel.launches;
    }
    return -1;
  }
  static std::string Graph(const std::string& data, OrderKind order) {
    const std::string name = data + "-" + std::string(ToString(order));
    if (!TheEngine().GetGraph(name).ok()) {
      EXPECT_TRUE(TheEngine().PutGraph(SourceOf(Data(data), name, order)).ok());
      const auto status = AwaitGraph(TheEngine(), name);
      EXPECT_TRUE(status.ok() && status->state == GraphState::kReady);
    }
    return name;
  }
};

// Every order gives the reference's answers, the same bits again, and the same for any subset.
inline void CheckEveryOrder(const ReferenceModel& test) {
  PutModel(ReferenceBench::TheEngine(), test.model, test.folder);
  const std::vector<float> expected = Expected(test.model, "logits", test.folder);
  for (const OrderKind order : {OrderKind::kNone, OrderKind::kDegree, OrderKind::kRcm}) {
    const std::string graph = ReferenceBench::Graph(test.data, order);
    const auto all = Infer(ReferenceBench::TheEngine(), AllNodes(graph, test.model));
    ASSERT_TRUE(all.ok()) << all.status();
    ExpectClose(*all, expected, test.tolerance, graph);
    EXPECT_EQ(Infer(ReferenceBench::TheEngine(), AllNodes(graph, test.model))->values, all->values) << "repeated";
    InferenceRequest some = AllNodes(graph, test.model);
    some.nodes = {false, {7, 0, all->rows - 1, 7}};
    const auto subset = Infer(ReferenceBench::TheEngine(), some);
    ASSERT_TRUE(subset.ok()) << subset.status();
    for (size_t i = 0; i < some.nodes.ids.size(); ++i) {
      EXPECT_EQ(0, std::memcmp(subset->values.data() + i * all->width,
                               all->values.data() + some.nodes.ids[i] * all->width, all->width * sizeof(float)));
    }
  }
  const std::vector<float> inner = Expected(test.model, "last_conv_input", test.folder);
  if (inner.empty()) return;
  InferenceRequest embed = AllNodes(ReferenceBench::Graph(test.data, OrderKind::kNone), test.model);
  embed.options.output = "last_conv_input";
  const auto embedded = Infer(ReferenceBench::TheEngine(), embed);
  ASSERT_TRUE(embedded.ok()) << embedded.status();
  ExpectClose(*embedded, inner, test.tolerance, "last_conv_input");
}

// Every kernel forced gives them, too, and is the one that was launched, as often as the plan has steps of its
// operation.
inline void CheckEveryKernel(const ReferenceModel& test) {
  if (!ReferenceBench::TheEngine().GetModel(test.model).ok())
    PutModel(ReferenceBench::TheEngine(), test.model, test.folder);
  const std::vector<float> expected = Expected(test.model, "logits", test.folder);
  const std::string graph = ReferenceBench::Graph(test.data, OrderKind::kRcm);
  const auto plan = ReferenceBench::TheEngine().Explain(AllNodes(graph, test.model));
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (const KernelStatus& kernel : ReferenceBench::TheEngine().Kernels()) {
    InferenceRequest forced = AllNodes(graph, test.model);
    forced.options.kernels[kernel.operation] = kernel.name;
    const int64_t before = ReferenceBench::Launches(kernel);
    const auto got = Infer(ReferenceBench::TheEngine(), forced);
    if (const auto detail = DetailOf(got.status()); detail.has_value() && detail->reason == "KERNEL_REFUSED") continue;
    ASSERT_TRUE(got.ok()) << kernel.operation << " " << kernel.name << ": " << got.status();
    ExpectClose(*got, expected, test.tolerance, kernel.operation + " " + kernel.name);
    EXPECT_EQ(got->served_by.numerics_revision, 0);
    int64_t steps = 0;
    for (const PlanStepInfo& step : plan->steps) steps += step.operation == kernel.operation ? 1 : 0;
    EXPECT_EQ(ReferenceBench::Launches(kernel) - before, steps) << kernel.operation << " " << kernel.name;
  }
}

inline std::string CaseName(const ::testing::TestParamInfo<ReferenceModel>& info) {
  std::string name = info.param.model;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_API_REFERENCE_MODELS_H_
