// SPDX-License-Identifier: Apache-2.0
// Every model of tests/data/models through the server against its float64 reference, on its data set. Per data set one
// test:
//   - every model, every order (none, degree, rcm, auto): all nodes twice (equal bits), a random subset (the bits of
//   all nodes' rows);
//   - every kernel forced in turn, in order none (on `directed`, the smallest and most awkward, in every order): the
//   plain reference too on graphs
//     of up to kSmallNodes nodes. The launch counters prove that this kernel ran and no other of its operation; one
//     that refuses says why.
// The bar is docs/testing.md's: relative L2 error at most 2e-6 (or 4 times PyTorch Geometric's own, where that is above
// 5e-7), and no row off by more than 1e-4 of its norm.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "client/cpp/formats/graph_file.h"
#include "tests/integration/fixture.h"

namespace vicinal::testing {
namespace {

constexpr int64_t kSmallNodes = 10'000;
constexpr int kSubset = 50;
const std::map<std::string, v1::Reorder> kOrders = {
    {"none", v1::REORDER_NONE}, {"degree", v1::REORDER_DEGREE}, {"rcm", v1::REORDER_RCM}, {"auto", v1::REORDER_AUTO}};

struct Matrix {
  int64_t rows = 0, cols = 0;
  std::vector<float> values;

  std::string RowBits(int64_t row) const {
    return std::string(reinterpret_cast<const char*>(values.data() + row * cols), cols * 4);
  }
};

struct ModelCase {
  std::string name, architecture, weights;
  double tolerance = 2e-6;
  std::map<std::string, Matrix> reference;  // "logits", "graph_logits", "last_conv_input"
};

// The float32 matrices of a safetensors file that is known to be sound.
std::map<std::string, Matrix> ReadReference(const std::string& file) {
  uint64_t size = 0;
  std::memcpy(&size, file.data(), sizeof(size));
  const nlohmann::json header = nlohmann::json::parse(file.substr(8, size));
  std::map<std::string, Matrix> matrices;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__" || entry.at("shape").size() != 2) continue;
    Matrix& matrix = matrices[name];
    matrix.rows = entry.at("shape")[0];
    matrix.cols = entry.at("shape")[1];
    matrix.values.resize(matrix.rows * matrix.cols);
    std::memcpy(matrix.values.data(), file.data() + 8 + size + entry.at("data_offsets")[0].get<size_t>(),
                matrix.values.size() * 4);
  }
  return matrices;
}

// Models of a data set: JSON files with a `class`, and explicit lists of layers (*.vicinal.json).
std::vector<ModelCase> ModelsOf(const std::string& dataset) {
  std::vector<ModelCase> models;
  const std::string folder = std::string(VICINAL_TEST_DATA) + "/models";
  std::set<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") paths.insert(entry.path().filename());
  }
  for (const std::string& path : paths) {
    const std::string text = ReadTestFile("models/" + path);
    const nlohmann::json json = nlohmann::json::parse(text);
    const bool listed = path.find(".vicinal.json") != std::string::npos;
    if (json.value("dataset", "") != dataset || (!listed && !json.contains("class"))) continue;
    ModelCase model;
    model.name = path.substr(0, path.find('.'));
    model.architecture = text;
    model.weights = ReadTestFile("models/" + model.name + ".safetensors");
    const double own = json.value("pyg_float32_relative_error", 0.0);
    if (own > 5e-7) model.tolerance = 4 * own;
    model.reference = ReadReference(ReadTestFile("models/" + model.name + ".reference.safetensors"));
    models.push_back(std::move(model));
  }
  return models;
}

void ExpectClose(const Matrix& got, const Matrix& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(got.rows, expected.rows) << what;
  ASSERT_EQ(got.cols, expected.cols) << what;
  double error = 0, norm = 0, worst_row = 0;
  for (int64_t row = 0; row < got.rows; ++row) {
    double row_error = 0, row_norm = 0;
    for (int64_t i = row * got.cols; i < (row + 1) * got.cols; ++i) {
      const double difference = static_cast<double>(got.values[i]) - expected.values[i];
      row_error += difference * difference;
      row_norm += static_cast<double>(expected.values[i]) * expected.values[i];
    }
    error += row_error;
    norm += row_norm;
    if (row_error > 0) worst_row = std::max(worst_row, row_norm > 0 ? std::sqrt(row_error / row_norm) : 1.0);
  }
  EXPECT_LE(std::sqrt(error / norm), tolerance) << what;
  EXPECT_LE(worst_row, 1e-4) << what;
}

Matrix ToMatrix(const v1::Tensor& tensor) {
  Matrix matrix{tensor.shape(0), tensor.shape(1), {}};
  matrix.values.resize(tensor.data().size() / 4);
  std::memcpy(matrix.values.data(), tensor.data().data(), tensor.data().size());
  return matrix;
}

v1::DataType TypeOf(client::ElementType type) {
  switch (type) {
    case client::ElementType::kFloat16:
      return v1::DATA_TYPE_FLOAT16;
    case client::ElementType::kInt32:
      return v1::DATA_TYPE_INT32;
    case client::ElementType::kInt64:
      return v1::DATA_TYPE_INT64;
    default:
      return v1::DATA_TYPE_FLOAT32;
  }
}

client::UploadTensor View(const std::string& name, const client::Array& array) {
  return {name, TypeOf(array.type), array.shape, array.data};
}

class ModelsTest : public IntegrationTest, public ::testing::WithParamInterface<const char*> {
 protected:
  static std::string GraphPath() { return std::string(VICINAL_TEST_DATA) + "/graphs/" + GetParam() + ".npz"; }

  void UploadGraphs() {
    const auto data = client::ReadGraphFile(GraphPath(), {});
    ASSERT_TRUE(data.ok()) << data.status();
    node_count_ = data->node_count;
    std::vector<client::UploadTensor> tensors = {View("edge_index", data->edge_index)};
    if (data->edge_weight) tensors.push_back(View("edge_weight", *data->edge_weight));
    const client::Features& features = *data->features;
    if (features.sparse) {
      tensors.push_back(View("x_indptr", features.indptr));
      tensors.push_back(View("x_indices", features.indices));
      tensors.push_back(View("x_values", features.values));
    } else {
      tensors.push_back(View("x", features.dense));
    }
    for (const auto& [order, value] : kOrders) {
      v1::UploadGraphSpec spec;
      spec.set_name(order);
      spec.set_node_count(data->node_count);
      spec.set_feature_count(features.sparse ? features.columns : 0);
      spec.set_reorder(value);
      const auto graph = client_->UploadGraph(spec, tensors);
      ASSERT_TRUE(graph.ok()) << graph.status();
      if (order != "auto") {
        EXPECT_EQ(graph->order(), order);
      }
    }
  }

  void UploadModel(const ModelCase& model) {
    v1::UploadModelSpec spec;
    spec.set_name(model.name);
    spec.set_architecture_json(model.architecture);
    const OwnedTensor weights = Bytes("weights", model.weights);
    const auto uploaded = client_->UploadModel(spec, {weights.view()});
    ASSERT_TRUE(uploaded.ok()) << model.name << ": " << uploaded.status();
  }

  struct Forced {
    std::string operation, kernel;
  };
  absl::StatusOr<Matrix> Run(const std::string& model, const std::string& order, const std::string& output,
                             const std::vector<int64_t>& ids, const Forced& forced = {}) {
    v1::EmbedRequest request;
    request.mutable_target()->set_graph(order);
    request.mutable_target()->set_model(model);
    request.mutable_nodes()->set_all(ids.empty());
    for (const int64_t id : ids) request.mutable_nodes()->add_ids(id);
    request.set_output(output);
    if (!forced.operation.empty()) (*request.mutable_execution()->mutable_kernels())[forced.operation] = forced.kernel;
    Matrix whole;
    const absl::Status status = client_->EmbedStream(request, [&](const v1::EmbedResponse& piece) {
      const Matrix part = ToMatrix(piece.embeddings());
      EXPECT_EQ(piece.first_row(), whole.rows);
      whole.cols = part.cols;
      whole.rows += part.rows;
      whole.values.insert(whole.values.end(), part.values.begin(), part.values.end());
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
    return whole;
  }

  // All nodes twice and a subset, with what the references hold.
  void Check(const ModelCase& model, const std::string& order, const Forced& forced = {}) {
    for (const auto& [output, expected] : model.reference) {
      const std::string what = model.name + " " + order + " " + output + " " + forced.operation + "=" + forced.kernel;
      const auto all = Run(model.name, order, output, {}, forced);
      ASSERT_TRUE(all.ok()) << what << ": " << all.status();
      ExpectClose(*all, expected, model.tolerance, what);
      const auto again = Run(model.name, order, output, {}, forced);
      ASSERT_TRUE(again.ok()) << what;
      EXPECT_EQ(std::memcmp(all->values.data(), again->values.data(), all->values.size() * 4), 0)
          << what << ": repeated";
      std::vector<int64_t> ids(kSubset);
      for (int64_t& id : ids) id = std::uniform_int_distribution<int64_t>(0, node_count_ - 1)(random_);
      const auto some = Run(model.name, order, output, ids, forced);
      ASSERT_TRUE(some.ok()) << what << ": " << some.status();
      for (int i = 0; i < kSubset; ++i)
        EXPECT_EQ(some->RowBits(i), all->RowBits(ids[i])) << what << ": node " << ids[i];
    }
  }

  std::map<std::string, int64_t> Launches(const std::string& operation) {
    std::map<std::string, int64_t> launches;
    const auto capabilities = client_->GetCapabilities();
    EXPECT_TRUE(capabilities.ok()) << capabilities.status();
    if (!capabilities.ok()) return launches;
    for (const v1::KernelInfo& kernel : capabilities->kernels()) {
      if (kernel.operation() == operation) launches[kernel.name()] = kernel.launch_count();
    }
    return launches;
  }

  // Every kernel of every operation that the model's plan has.
  void CheckForced(const ModelCase& model, const std::string& order) {
    v1::ExplainRequest request;
    request.mutable_target()->set_graph(order);
    request.mutable_target()->set_model(model.name);
    const auto explained = client_->Explain(request);
    ASSERT_TRUE(explained.ok()) << model.name << ": " << explained.status();
    std::set<std::string> operations;
    for (const v1::PlanStep& step : explained->steps()) operations.insert(step.operation());
    for (const std::string& operation : operations) {
      for (const auto& [kernel, ignored] : Launches(operation)) {
        if (kernel == "reference" && node_count_ > kSmallNodes) continue;
        CheckOneForced(model, order, {operation, kernel});
      }
    }
  }

  void CheckOneForced(const ModelCase& model, const std::string& order, const Forced& forced) {
    const auto before = Launches(forced.operation);
    const auto probe = Run(model.name, order, "logits", {0}, forced);
    const std::string what = model.name + " " + order + " " + forced.operation + "=" + forced.kernel;
    if (!probe.ok()) {
      ++refused_;
      ExpectError(probe.status(), absl::StatusCode::kInvalidArgument, "KERNEL_REFUSED");
      ExpectError(probe.status(), absl::StatusCode::kInvalidArgument, forced.kernel + ": ");
      return;
    }
    for (const auto& [kernel, count] : Launches(forced.operation)) {
      if (kernel == forced.kernel) {
        EXPECT_GT(count, before.at(kernel)) << what;
      } else {
        EXPECT_EQ(count, before.at(kernel)) << what << ": " << kernel << " ran too";
      }
    }
    ++forced_;
    Check(model, order, forced);
  }

  int64_t node_count_ = 0;
  int forced_ = 0, refused_ = 0;
  std::mt19937 random_{20260101};
};

TEST_P(ModelsTest, MeetTheirReferences) {
  // A pass for kept answers would launch kernels, too.
  ASSERT_NO_FATAL_FAILURE(StartServer({"--keep_answers=never"}));
  UploadGraphs();
  const std::vector<ModelCase> models = ModelsOf(GetParam());
  ASSERT_FALSE(models.empty());
  for (const ModelCase& model : models) {
    UploadModel(model);
    if (HasFatalFailure()) return;
    for (const auto& [order, ignored] : kOrders) {
      Check(model, order);
      if (order == "none" || std::string(GetParam()) == "directed") CheckForced(model, order);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(forced_, 0);
  RecordProperty("models", static_cast<int>(models.size()));
  RecordProperty("forced", forced_);
  RecordProperty("refused", refused_);
}

INSTANTIATE_TEST_SUITE_P(Data, ModelsTest,
                         ::testing::Values("cora", "directed", "pubmed", "amazon_computers", "cornell5"),
                         [](const auto& info) { return std::string(info.param); });

// Batches of small graphs.
class GraphModelsTest : public IntegrationTest {
 protected:
  static v1::GraphBatch BatchOf(const client::GraphBatchData& data, const std::vector<int64_t>& graphs) {
    std::vector<int64_t> ptr = {0}, sources, targets;
    std::vector<float> x;
    const auto* features = reinterpret_cast<const float*>(data.features.dense.data.data());
    const int64_t width = data.features.columns;
    std::map<int64_t, int64_t> shift;  // of each graph's first node
    for (const int64_t graph : graphs) {
      shift[graph] = ptr.back() - data.ptr[graph];
      x.insert(x.end(), features + data.ptr[graph] * width, features + data.ptr[graph + 1] * width);
      ptr.push_back(ptr.back() + data.ptr[graph + 1] - data.ptr[graph]);
    }
    for (size_t e = 0; e < data.sources.size(); ++e) {
      const int64_t graph = std::upper_bound(data.ptr.begin(), data.ptr.end(), data.sources[e]) - data.ptr.begin() - 1;
      const auto found = shift.find(graph);
      if (found == shift.end()) continue;
      sources.push_back(data.sources[e] + found->second);
      targets.push_back(data.targets[e] + found->second);
    }
    std::vector<int64_t> edges = sources;
    edges.insert(edges.end(), targets.begin(), targets.end());
    v1::GraphBatch batch;
    *batch.mutable_ptr() = Ints("", {static_cast<int64_t>(ptr.size())}, ptr).message();
    *batch.mutable_edge_index() = Ints("", {2, static_cast<int64_t>(sources.size())}, edges).message();
    *batch.mutable_features()->mutable_dense() = Floats("", {ptr.back(), width}, x).message();
    return batch;
  }
};

TEST_F(GraphModelsTest, MeetTheirReferences) {
  ASSERT_NO_FATAL_FAILURE(StartServer());
  const auto data = client::ReadGraphBatch(std::string(VICINAL_TEST_DATA) + "/graphs/proteins.npz");
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_FALSE(data->features.sparse);
  for (const ModelCase& model : ModelsOf("proteins")) {
    v1::UploadModelSpec spec;
    spec.set_name(model.name);
    spec.set_architecture_json(model.architecture);
    const OwnedTensor weights = Bytes("weights", model.weights);
    ASSERT_TRUE(client_->UploadModel(spec, {weights.view()}).ok());
    std::vector<int64_t> everything(data->ptr.size() - 1);
    for (size_t i = 0; i < everything.size(); ++i) everything[i] = static_cast<int64_t>(i);
    v1::ClassifyGraphsRequest request;
    request.set_model(model.name);
    request.set_return_logits(true);
    // Kernels in turn on the first graphs: the plain reference would take long over all.
    const std::vector<int64_t> first(everything.begin(), everything.begin() + 100);
    Matrix expected = model.reference.at("graph_logits");
    const Matrix expected_all = expected;
    expected.rows = 100;
    expected.values.resize(expected.rows * expected.cols);
    *request.mutable_graphs() = BatchOf(*data, first);
    const auto capabilities = client_->GetCapabilities();
    ASSERT_TRUE(capabilities.ok());
    for (const v1::KernelInfo& kernel : capabilities->kernels()) {
      request.mutable_execution()->clear_kernels();
      (*request.mutable_execution()->mutable_kernels())[kernel.operation()] = kernel.name();
      const auto reply = client_->ClassifyGraphs(request);
      if (absl::IsInvalidArgument(reply.status())) {
        ExpectError(reply.status(), absl::StatusCode::kInvalidArgument, "KERNEL_REFUSED");
        continue;
      }
      ASSERT_TRUE(reply.ok()) << kernel.operation() << "=" << kernel.name() << ": " << reply.status();
      ExpectClose(ToMatrix(reply->logits()), expected, model.tolerance, kernel.operation() + "=" + kernel.name());
    }
    request.clear_execution();
    *request.mutable_graphs() = BatchOf(*data, everything);
    const auto all = client_->ClassifyGraphs(request);
    ASSERT_TRUE(all.ok()) << all.status();
    ExpectClose(ToMatrix(all->logits()), expected_all, model.tolerance, model.name);
    EXPECT_EQ(client_->ClassifyGraphs(request)->logits().data(), all->logits().data());
    // A graph's answer does not depend on the others of its batch.
    const std::vector<int64_t> some = {7, 1000, 0, 512};
    *request.mutable_graphs() = BatchOf(*data, some);
    const auto part = client_->ClassifyGraphs(request);
    ASSERT_TRUE(part.ok()) << part.status();
    const Matrix whole = ToMatrix(all->logits()), rows = ToMatrix(part->logits());
    for (int i = 0; i < 4; ++i) EXPECT_EQ(rows.RowBits(i), whole.RowBits(some[i])) << some[i];
  }
}

}  // namespace
}  // namespace vicinal::testing
