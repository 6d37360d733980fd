// SPDX-License-Identifier: Apache-2.0
#include "tests/instructions/paths.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/clock.h"
#include "engine/base/stats.h"
#include "engine/device/device.h"
#include "engine/execute/run_for_nodes.h"
#include "engine/graph/csr.h"
#include "engine/kernels/registry.h"
#include "engine/memory/memory_budget.h"
#include "engine/plan/plan.h"
#include "engine/plan/receptive_field/receptive_field.h"
#include "engine/prepare/prepare.h"
#include "tests/engine/plan/model_maker.h"
#include "tests/split_mix.h"
#include "tests/support/generators.h"

namespace vicinal::instructions {
namespace {

void MustBeOk(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

template <class T>
T Must(StatusOr<T> value) {
  MustBeOk(value.status());
  return *std::move(value);
}

// Uniform in [-1, 1).
std::vector<float> RandomFloats(int64_t count, uint64_t seed) {
  testing::SplitMix64 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(2.0 * random.Unit() - 1.0);
  return values;
}

// 4,096 nodes, 40,000 edges, skewed degrees.
EdgeList SkewedEdges(bool weighted) {
  EdgeList edges = RmatGraph(12, 40'000, 1);
  if (weighted) edges.weight = RandomFloats(edges.num_edges(), 2);
  return edges;
}

// Device, kernels, and all memory of a path's inputs.
class World {
 public:
  World() { RegisterCpuKernels(registry_); }

  Device& device() { return *device_; }
  DeviceContext& context() { return *context_; }
  const KernelRegistry& registry() const { return registry_; }

  void* Memory(size_t bytes) {
    buffers_.push_back(Must(device_->Allocate(bytes)));
    std::memset(buffers_.back().data(), 0, bytes);
    return buffers_.back().data();
  }
  MatrixView Result(int64_t rows, int64_t cols) {
    return {static_cast<float*>(Memory(static_cast<size_t>(rows * cols) * sizeof(float))), rows, cols, cols};
  }
  MatrixView Random(int64_t rows, int64_t cols, uint64_t seed) {
    const MatrixView matrix = Result(rows, cols);
    const std::vector<float> values = RandomFloats(rows * cols, seed);
    std::memcpy(matrix.data, values.data(), values.size() * sizeof(float));
    return matrix;
  }
  const Csr& Graph(bool weighted) { return graph_ = BuildCsrByTarget(SkewedEdges(weighted)); }
  // Bag-of-words rows of Cora's density: 18 of 1,433 columns.
  const Csr& SparseFeatures(int64_t rows) {
    constexpr int64_t kCols = 1433, kPerRow = 18;
    features_ = {rows, kCols, {0}, {}, RandomFloats(rows * kPerRow, 3)};
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < kPerRow; ++i) features_.col.push_back(static_cast<NodeId>(79 * i + row % 79));
      features_.row_ptr.push_back(features_.nnz());
    }
    return features_;
  }

 private:
  std::unique_ptr<Device> device_ = MakeCpuDevice(1);
  std::unique_ptr<DeviceContext> context_ = device_->CreateContext();
  KernelRegistry registry_;
  std::vector<Buffer> buffers_;
  Csr graph_, features_;
};

// The kernel that an untuned server takes, with its own parameters.
template <class K>
const RegisteredKernel<K>* Choose(const OperationKernels<K>& kernels, const typename K::Problem& problem) {
  const auto* kernel = Must(kernels.Choose(problem, DeviceKind::kCpu, "")).kernel;
  VICINAL_CHECK(kernel->kernel().name() != "reference");  // which nobody serves with
  VICINAL_CHECK(kernel->kernel().LayoutName(problem, KernelConfig()).empty());
  return kernel;
}

template <class K>
Run Launching(std::shared_ptr<World> world, const RegisteredKernel<K>* kernel, const typename K::Args& args) {
  void* const scratch = world->Memory(kernel->kernel().ScratchBytes(args.problem, args.config, 1));
  return [=] { MustBeOk(kernel->Launch(world->context(), args, scratch)); };
}

// Random weights [out, in], packed for the kernel.
template <class K>
const void* Packed(World& world, const RegisteredKernel<K>& kernel, int64_t out, int64_t in) {
  void* const packed = world.Memory(kernel.kernel().PackedBytes(out, in));
  kernel.kernel().Pack(world.Random(out, in, 4), packed);
  return packed;
}

// GCNConv's step: weighted sum, bias, ReLU.
Run Sum(int64_t width, Storage storage) {
  auto world = std::make_shared<World>();
  const Csr& graph = world->Graph(true);
  AggregateArgs args;
  args.problem = {Reduce::kSum, true, graph.num_rows, graph.num_cols, graph.nnz(), width, storage};
  args.adjacency = graph.view();
  const MatrixView src = world->Random(graph.num_cols, width, 5);
  if (storage == Storage::kFloat32) {
    args.src = src;
  } else {
    auto* const halves = static_cast<uint16_t*>(world->Memory(static_cast<size_t>(src.rows * width) * 2));
    for (int64_t i = 0; i < src.rows * width; ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, src.data + i, sizeof(bits));
      halves[i] = static_cast<uint16_t>(bits >> 16);  // bfloat16, rounded towards zero
    }
    args.src16 = {halves, src.rows, width, width};
  }
  args.dst = world->Result(graph.num_rows, width);
  args.epilogue.bias = world->Random(1, width, 6).data;
  args.epilogue.activation.kind = ActivationKind::kRelu;
  return Launching(world, Choose(world->registry().aggregate, args.problem), args);
}

Run SumNarrow() { return Sum(16, Storage::kFloat32); }
Run SumWide() { return Sum(64, Storage::kFloat32); }
Run SumBfloat16() { return Sum(64, Storage::kBfloat16); }

Run MaxWide() {
  auto world = std::make_shared<World>();
  const Csr& graph = world->Graph(false);
  AggregateArgs args;
  args.problem = {Reduce::kMax, false, graph.num_rows, graph.num_cols, graph.nnz(), 64};
  args.adjacency = graph.view();
  args.src = world->Random(graph.num_cols, 64, 5);
  args.dst = world->Result(graph.num_rows, 64);
  return Launching(world, Choose(world->registry().aggregate, args.problem), args);
}

// GATConv with 8 heads of 8.
Run Gat() {
  constexpr int64_t kHeads = 8, kHeadWidth = 8;
  auto world = std::make_shared<World>();
  const Csr& graph = world->Graph(false);
  AttentionArgs args;
  args.problem = {AttentionKind::kGat, graph.num_rows, graph.num_cols, graph.nnz(), kHeads, kHeadWidth, true};
  args.adjacency = graph.view();
  args.value = world->Random(graph.num_cols, kHeads * kHeadWidth, 5);
  args.score_src = world->Random(graph.num_cols, kHeads, 6);
  args.score_dst = world->Random(graph.num_rows, kHeads, 7);
  args.dst = world->Result(graph.num_rows, kHeads * kHeadWidth);
  return Launching(world, Choose(world->registry().attention, args.problem), args);
}

Run DenseProduct() {
  auto world = std::make_shared<World>();
  DenseUpdateArgs args;
  args.problem = {1024, 256, 64};
  args.src = world->Random(1024, 256, 5);
  args.dst = world->Result(1024, 64);
  const auto* kernel = Choose(world->registry().dense_update, args.problem);
  args.weight = Packed(*world, *kernel, 64, 256);
  return Launching(world, kernel, args);
}

Run SparseProduct() {
  auto world = std::make_shared<World>();
  const Csr& features = world->SparseFeatures(2708);
  SparseUpdateArgs args;
  args.problem = {features.num_rows, features.num_cols, 16, features.nnz()};
  args.src = features.view();
  args.dst = world->Result(features.num_rows, 16);
  const auto* kernel = Choose(world->registry().sparse_update, args.problem);
  args.weight = Packed(*world, *kernel, 16, features.num_cols);
  return Launching(world, kernel, args);
}

template <class T>
HostTensor TensorOf(DataType dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  return {dtype, std::move(shape),
          std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T))};
}

// A graph with 64 features, as uploaded, its nodes in no useful order.
GraphSource Upload() {
  const EdgeList edges = ShuffleIds(SkewedEdges(false), 8);
  std::vector<NodeId> ends = edges.source;
  ends.insert(ends.end(), edges.target.begin(), edges.target.end());
  GraphSource source;
  source.name = "graph";
  source.node_count = edges.num_nodes;
  source.feature_count = 64;
  source.edge_index = TensorOf(DataType::kInt32, {2, edges.num_edges()}, ends);
  source.x = TensorOf(DataType::kFloat32, {edges.num_nodes, 64}, RandomFloats(edges.num_nodes * 64, 9));
  return source;
}

PreparedUpload Prepared(World& world, GraphSource source) {
  PrepareContext context;
  context.device = &world.device();
  context.clock = &Clock::Real();
  context.stats = &StatsSink::Null();
  return Must(PrepareGraph(std::move(source), 1, context));
}

Run PrepareUpload() {
  auto world = std::make_shared<World>();
  auto source = std::make_shared<const GraphSource>(Upload());
  return [=] { Prepared(*world, *source); };
}

// What requests run with: a plan of two layers on 64 features.
struct Query {
  World world;
  PreparedUpload graph = Prepared(world, Upload());
  std::shared_ptr<Plan> plan;
  std::vector<int64_t> ids = {7, 77, 777, 1777, 2777, 3777};
  MemoryBudget budget{int64_t{1} << 30};
  ReceptiveFieldWorkspace workspace{&world.device(), {&budget, Account::kReceptiveFields, "a query"}};
  StopCheck stop = [] { return OkStatus(); };

  Query() {
    testing::ModelMaker maker(64);
    const ValueId hidden =
        maker.Activate(maker.Propagate(maker.Linear(0, 32, true), Reduce::kMean), ActivationKind::kRelu);
    PlanRequest request;
    request.model = maker.Done(maker.Propagate(maker.Linear(hidden, 7, true), Reduce::kMean));
    request.graph = graph.graph;
    request.features = FeatureShape::Of(*graph.features);
    request.output = request.model->FindOutput("logits")->value;
    plan = Must(Plan::Build(request, world.registry(), world.device()));
  }

  void Answer(ReceptiveField field) {
    const WantedRows wanted{&ids, &graph.graph->parts().permutation, field};
    const RunParts parts{&world.context(), graph.features.get(), &workspace, &stop, &StatsSink::Null(), &Clock::Real()};
    Must(GatherWanted(Must(RunForNodes(*plan, wanted, parts)), wanted, parts));
  }
};

Run ReceptiveFieldQuery() {
  auto query = std::make_shared<Query>();
  return [=] { query->Answer(ReceptiveField::kAlways); };
}

Run FullGraphPass() {
  auto query = std::make_shared<Query>();
  return [=] { query->Answer(ReceptiveField::kNever); };
}

constexpr Path kPaths[] = {
    {"aggregate_sum_narrow", SumNarrow},
    {"aggregate_sum_wide", SumWide},
    {"aggregate_sum_bfloat16", SumBfloat16},
    {"aggregate_max_wide", MaxWide},
    {"attention_gat", Gat},
    {"dense_product", DenseProduct},
    {"sparse_product", SparseProduct},
    {"full_graph_pass", FullGraphPass},
    {"receptive_field_query", ReceptiveFieldQuery},
    {"prepare_upload", PrepareUpload},
};

}  // namespace

std::span<const Path> Paths() { return kPaths; }

}  // namespace vicinal::instructions
