// SPDX-License-Identifier: Apache-2.0
// What tests of plans share: a prepared graph in any order, features in both forms, a plan built and run, and the
// oracle beside it.
#ifndef VICINAL_TESTS_ENGINE_PLAN_PLAN_TESTING_H_
#define VICINAL_TESTS_ENGINE_PLAN_PLAN_TESTING_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/plan/plan.h"
#include "tests/engine/plan/model_maker.h"
#include "tests/engine/plan_interpreter/interpreter.h"

namespace vicinal::testing {

struct PlanBench {
  PlanBench() { RegisterCpuKernels(registry); }
  std::unique_ptr<Device> device = MakeCpuDevice(2);
  std::unique_ptr<DeviceContext> context = device->CreateContext();
  KernelRegistry registry;
};

// Its threads end with the program: the thread sanitizer waits a second for those that do not.
inline PlanBench& ThePlanBench() {
  static PlanBench bench;
  return bench;
}

// Features of each edge of a list, kEdgeFeatures random numbers.
inline std::vector<float> EdgeFeaturesOf(const EdgeList& edges) {
  std::mt19937 random(static_cast<uint32_t>(edges.num_edges()) + 1);
  std::vector<float> features(static_cast<size_t>(edges.num_edges() * kEdgeFeatures));
  for (float& feature : features) feature = static_cast<float>(static_cast<int>(random() % 2000) - 1000) / 700.0f;
  return features;
}

// With `edge_attr` (null: EdgeFeaturesOf) as features of edges.
inline std::shared_ptr<const PreparedGraph> PrepareEdges(const EdgeList& edges, OrderKind order,
                                                         std::vector<int64_t> segments = {},
                                                         Device* device = ThePlanBench().device.get(),
                                                         const std::vector<float>* edge_attr = nullptr) {
  PreparedGraph::Parts parts;
  parts.name = "g";
  parts.version = 1;
  parts.order = order;
  std::vector<EdgeId> sent;
  parts.csr = BuildCsrByTarget(edges, &sent);
  parts.permutation = ComputeOrder(order, parts.csr).value();
  if (!parts.permutation.is_identity()) parts.csr = RenumberCsr(parts.csr, parts.permutation.new_of_old(), &sent);
  const std::vector<float> features = edge_attr != nullptr ? *edge_attr : EdgeFeaturesOf(edges);
  const int64_t width = edges.num_edges() == 0 ? 0 : static_cast<int64_t>(features.size()) / edges.num_edges();
  parts.edge_feature_width = width;
  for (const EdgeId edge : sent) {
    parts.edge_attr.insert(parts.edge_attr.end(), features.begin() + edge * width,
                           features.begin() + (edge + 1) * width);
  }
  parts.segments = std::move(segments);
  return std::make_shared<PreparedGraph>(std::move(parts), device);
}

// Features [nodes, cols] in the client's order, two thirds of them zero.
inline std::vector<double> RandomFeatures(int64_t nodes, int64_t cols, std::mt19937& random) {
  std::vector<double> x(nodes * cols, 0.0);
  for (double& value : x) {
    if (random() % 3 == 0) value = static_cast<float>(static_cast<int>(random() % 2000) - 1000) / 400.0f;
  }
  return x;
}

inline std::shared_ptr<const FeatureMatrix> UploadFeatures(const std::vector<double>& x, int64_t cols, bool sparse,
                                                           const PreparedGraph& graph,
                                                           Device* device = ThePlanBench().device.get()) {
  HostFeatures host;
  host.sparse = sparse;
  host.rows = graph.num_nodes();
  host.cols = cols;
  if (!sparse) {
    host.dense.assign(x.begin(), x.end());
  } else {
    host.csr.num_rows = host.rows;
    host.csr.num_cols = cols;
    host.csr.row_ptr.push_back(0);
    for (int64_t r = 0; r < host.rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        if (x[r * cols + c] == 0) continue;
        host.csr.col.push_back(static_cast<NodeId>(c));
        host.csr.value.push_back(static_cast<float>(x[r * cols + c]));
      }
      host.csr.row_ptr.push_back(host.csr.nnz());
    }
  }
  const Permutation& permutation = graph.parts().permutation;
  if (!permutation.is_identity()) host = PermuteRows(host, permutation.new_of_old());
  return *FeatureMatrix::Upload(host, *device);
}

inline PlanRequest RequestFor(const std::shared_ptr<const Model>& model,
                              const std::shared_ptr<const PreparedGraph>& graph, const FeatureMatrix& features,
                              ForcedKernels forced = {}) {
  PlanRequest request;
  request.model = model;
  request.graph = graph;
  request.features = FeatureShape::Of(features);
  request.output = model->FindOutput("logits")->value;
  request.forced = std::move(forced);
  request.num_threads = 2;
  return request;
}

// A run's rows in the client's order.
inline std::vector<float> RunPlan(Plan& plan, const FeatureMatrix& features, const PreparedGraph& graph,
                                  bool per_graph) {
  const auto view = plan.Run(*ThePlanBench().context, features, nullptr, StatsSink::Null(), Clock::Real());
  EXPECT_TRUE(view.ok()) << view.status();
  std::vector<float> rows;
  for (int64_t r = 0; view.ok() && r < view->rows; ++r) {
    const int64_t at = per_graph ? r : graph.parts().permutation.ToNew(static_cast<NodeId>(r));
    rows.insert(rows.end(), view->row(at), view->row(at) + view->cols);
  }
  return rows;
}

// Relative L2 error at most 2e-6, no row worse than 1e-4 of its norm.
inline void ExpectNear(const std::vector<float>& got, const std::vector<double>& expected, int64_t width,
                       const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double error = 0, norm = 0, worst = 0;
  for (size_t r = 0; r < got.size() / width; ++r) {
    double row_error = 0, row_norm = 0;
    for (size_t i = r * width; i < (r + 1) * width; ++i) {
      row_error += (got[i] - expected[i]) * (got[i] - expected[i]);
      row_norm += expected[i] * expected[i];
    }
    error += row_error;
    norm += row_norm;
    if (row_error > 0) worst = std::max(worst, std::sqrt(row_error / row_norm));
  }
  EXPECT_LE(std::sqrt(error), 2e-6 * std::sqrt(norm)) << what;
  EXPECT_LE(worst, 1e-4) << what;
}

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_PLAN_PLAN_TESTING_H_
