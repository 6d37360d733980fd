// SPDX-License-Identifier: Apache-2.0
#include "bench/worker_tasks.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/binary_graph.h"
#include "bench/pattern.h"
#include "bench/tune_here.h"
#include "engine/base/clock.h"
#include "engine/base/error.h"
#include "engine/base/stats.h"
#include "engine/model/model.h"
#include "engine/model/safetensors.h"
#include "engine/plan/plan.h"
#include "engine/prepare/measure_orders.h"

namespace vicinal::bench {
namespace {

constexpr double kTuningSeconds = 0.7;  // of one aggregation

StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return InvalidArgument("FILE_MISSING", "file", absl::StrCat("cannot read '", path, "'"));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::optional<HostTensor> TensorOf(const Safetensors& file, std::string_view name) {
  const SafetensorsEntry* entry = file.Find(name);
  if (entry == nullptr) return std::nullopt;
  const DataType dtype = entry->dtype == "F32"   ? DataType::kFloat32
                         : entry->dtype == "I32" ? DataType::kInt32
                                                 : DataType::kInt64;
  return HostTensor{dtype, entry->shape, std::string(entry->bytes)};
}

// The row of `permutation`'s execution order that holds the client's row.
int64_t RowOf(const Permutation& permutation, int64_t client_row) {
  return permutation.is_identity() ? client_row : permutation.ToNew(static_cast<NodeId>(client_row));
}

void CopyInClientOrder(ConstMatrixView from, const Permutation& permutation, float* to) {
  for (int64_t i = 0; i < from.rows; ++i) {
    const float* row = from.row(RowOf(permutation, i));
    std::copy(row, row + from.cols, to + i * from.cols);
  }
}

StatusOr<PreparedUpload> Prepare(Bench& bench, GraphSource source) {
  ThreadPool pool(bench.threads);
  PrepareContext context;
  context.device = bench.device;
  context.clock = &Clock::Real();
  context.stats = &StatsSink::Null();
  // As the server does; on the CPU the order is to be the same on every machine, so it is not measured.
  if (!bench.on_cpu()) {
    context.choose = ChooseOptionsFor(bench.registry, *bench.context, Clock::Real(), &pool);
  }
  return PrepareGraph(std::move(source), 1, context);
}

// Sources, then targets.
HostTensor EdgesOf(const BinaryGraph& graph) {
  HostTensor ends{DataType::kInt32, {2, graph.edges()}, std::string(static_cast<size_t>(8 * graph.edges()), '\0')};
  auto* const source = reinterpret_cast<int32_t*>(ends.bytes.data());
  int32_t* const target = source + graph.edges();
  std::copy(graph.col.begin(), graph.col.end(), source);
  for (int64_t row = 0; row < graph.nodes; ++row) {
    std::fill(target + graph.row_ptr[row], target + graph.row_ptr[row + 1], static_cast<int32_t>(row));
  }
  return ends;
}

HostTensor PatternTensor(int64_t rows, int64_t cols) {
  HostTensor tensor{DataType::kFloat32, {rows, cols}, std::string(static_cast<size_t>(4 * rows * cols), '\0')};
  auto* const values = reinterpret_cast<float*>(tensor.bytes.data());
  for (int64_t i = 0; i < rows * cols; ++i) values[i] = Pattern(static_cast<uint64_t>(i));
  return tensor;
}

class AggregateTask final : public Task {
 public:
  AggregateTask(Bench& bench, std::shared_ptr<const PreparedGraph> graph) : bench_(bench), graph_(std::move(graph)) {}

  Status Prepare(const AggregateCell& cell) {
    AdjacencySpec spec;
    spec.weighting = cell.weighted ? EdgeWeighting::kSent : EdgeWeighting::kNone;
    VICINAL_ASSIGN_OR_RETURN(adjacency_, graph_->Adjacency(spec));
    const CsrView adjacency = adjacency_->view();
    args_.problem.reduce = cell.reduce;
    args_.problem.weighted = cell.weighted;
    args_.problem.rows = adjacency.rows;
    args_.problem.cols = adjacency.cols;
    args_.problem.edges = adjacency.nnz;
    args_.problem.width = cell.width;
    args_.adjacency = adjacency;
    VICINAL_ASSIGN_OR_RETURN(args_.src, Matrix(&src_, adjacency.cols, cell.width));
    VICINAL_ASSIGN_OR_RETURN(args_.dst, Matrix(&dst_, adjacency.rows, cell.width));
    FillSource(cell.width);
    VICINAL_RETURN_IF_ERROR(MakeCandidates(cell.kernel, cell.config));
    return ChooseFastest();
  }

  Status Run() override { return Run(candidates_[chosen_]); }

  StatusOr<std::vector<float>> Result() const override {
    std::vector<float> result(static_cast<size_t>(args_.dst.rows * args_.dst.cols));
    CopyInClientOrder(args_.dst, graph_->parts().permutation, result.data());
    return result;
  }

  std::vector<std::string> Kernels() const override { return {NameOf(candidates_[chosen_])}; }

 private:
  // A kernel in one of its configurations.
  struct Candidate {
    const RegisteredKernel<AggregateKernel>* kernel;
    KernelConfig config;
    Buffer scratch;
  };

  Status Run(const Candidate& candidate) {
    args_.config = candidate.config;
    return candidate.kernel->Launch(*bench_.context, args_, candidate.scratch.data());
  }

  // All kernels that take the problem in all their configurations, but the reference; or those of the kernel `forced`,
  // or `config` alone.
  Status MakeCandidates(const std::string& forced, const std::optional<KernelConfig>& config_of_forced) {
    for (const auto& entry : bench_.registry.aggregate.kernels()) {
      const AggregateKernel& kernel = entry->kernel();
      if (kernel.device() != DeviceKind::kCpu || !kernel.WhyUnsupported(args_.problem).empty()) continue;
      if (forced.empty() ? kernel.name() == "reference" : kernel.name() != forced) continue;
      for (const KernelConfig& config :
           config_of_forced ? std::vector<KernelConfig>{*config_of_forced} : kernel.Candidates(args_.problem)) {
        VICINAL_ASSIGN_OR_RETURN(Buffer scratch,
                                 bench_.device->Allocate(kernel.ScratchBytes(args_.problem, config, bench_.threads)));
        candidates_.push_back({entry.get(), config, std::move(scratch)});
      }
    }
    if (candidates_.empty()) return InvalidArgument("KERNEL_UNKNOWN", "kernel", "no kernel takes this problem");
    return OkStatus();
  }

  // What a tuned graph would serve with.
  Status ChooseFastest() {
    const auto time = [&](int candidate, int) -> StatusOr<double> {
      const MonotonicTime begin = Clock::Real().Now();
      VICINAL_RETURN_IF_ERROR(Run(candidates_[candidate]));
      return SecondsBetween(begin, Clock::Real().Now());
    };
    VICINAL_ASSIGN_OR_RETURN(chosen_, FindFastest(static_cast<int>(candidates_.size()), kTuningSeconds, time));
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (static_cast<int>(i) != chosen_) candidates_[i].scratch = Buffer();
    }
    return OkStatus();
  }

  // "simd_rows prefetch_edges=16 feature_tile=0"
  static std::string NameOf(const Candidate& candidate) {
    std::string name(candidate.kernel->kernel().name());
    const std::vector<std::string_view> parameters = candidate.kernel->kernel().ParameterNames();
    for (size_t i = 0; i < parameters.size(); ++i) {
      absl::StrAppend(&name, " ", std::string(parameters[i]), "=", candidate.config.values[i]);
    }
    return name;
  }

  StatusOr<MatrixView> Matrix(Buffer* buffer, int64_t rows, int64_t cols) {
    VICINAL_ASSIGN_OR_RETURN(*buffer, bench_.device->Allocate(static_cast<size_t>(rows * cols) * sizeof(float)));
    return MatrixView{buffer->as<float>(), rows, cols, cols};
  }

  void FillSource(int64_t width) {
    float* const src = src_.as<float>();
    for (int64_t i = 0; i < graph_->num_nodes(); ++i) {
      float* const row = src + RowOf(graph_->parts().permutation, i) * width;
      for (int64_t c = 0; c < width; ++c) row[c] = Pattern(static_cast<uint64_t>(i * width + c));
    }
  }

  Bench& bench_;
  const std::shared_ptr<const PreparedGraph> graph_;
  std::shared_ptr<const DeviceCsr> adjacency_;
  Buffer src_, dst_;
  AggregateArgs args_;
  std::vector<Candidate> candidates_;
  int chosen_ = 0;
};

class ScoresTask final : public Task {
 public:
  ScoresTask(Bench& bench, std::shared_ptr<const PreparedGraph> graph) : bench_(bench), graph_(std::move(graph)) {}

  Status Prepare(const ScoresCell& cell) {
    VICINAL_ASSIGN_OR_RETURN(adjacency_, graph_->Adjacency(AdjacencySpec()));
    const CsrView adjacency = adjacency_->view();
    args_.problem = {.rows = adjacency.rows, .cols = adjacency.cols, .edges = adjacency.nnz, .width = cell.width};
    args_.config = cell.config;
    args_.adjacency = adjacency;
    for (const auto& entry : bench_.registry.edge_scores.kernels()) {
      if (entry->kernel().name() == "template_sddmm") kernel_ = entry.get();
    }
    if (kernel_ == nullptr) return InvalidArgument("KERNEL_UNKNOWN", "kernel", "there is no template_sddmm");
    const int64_t numbers = adjacency.rows * cell.width;
    source_ = Rows(cell.width, 0);
    target_ = Rows(cell.width, numbers);
    scores_.resize(static_cast<size_t>(adjacency.nnz));
    args_.src = {source_.data(), adjacency.cols, cell.width, cell.width};
    args_.target = {target_.data(), adjacency.rows, cell.width, cell.width};
    args_.dst = {scores_.data(), adjacency.nnz, 1, 1};
    return OkStatus();
  }

  Status Run() override { return kernel_->Launch(*bench_.context, args_, nullptr); }
  StatusOr<std::vector<float>> Result() const override { return scores_; }
  std::vector<std::string> Kernels() const override {
    return {absl::StrCat("template_sddmm hilbert_order=", args_.config.values[0])};
  }

 private:
  // The pattern from number `first` on, in execution order.
  std::vector<float> Rows(int64_t width, int64_t first) const {
    std::vector<float> rows(static_cast<size_t>(graph_->num_nodes() * width));
    for (int64_t i = 0; i < graph_->num_nodes(); ++i) {
      float* const row = rows.data() + RowOf(graph_->parts().permutation, i) * width;
      for (int64_t c = 0; c < width; ++c) row[c] = Pattern(static_cast<uint64_t>(first + i * width + c));
    }
    return rows;
  }

  Bench& bench_;
  const std::shared_ptr<const PreparedGraph> graph_;
  std::shared_ptr<const DeviceCsr> adjacency_;
  const RegisteredKernel<EdgeScoresKernel>* kernel_ = nullptr;
  std::vector<float> source_, target_, scores_;
  EdgeScoresArgs args_;
};

class ForwardTask final : public Task {
 public:
  ForwardTask(Bench& bench, const PreparedUpload& graph) : bench_(bench), graph_(graph) {}

  Status Prepare(const ForwardCell& cell) {
    VICINAL_ASSIGN_OR_RETURN(const std::string architecture, ReadFile(cell.architecture_file));
    VICINAL_ASSIGN_OR_RETURN(const std::string weights, ReadFile(cell.weights_file));
    PlanRequest request;
    VICINAL_ASSIGN_OR_RETURN(request.model, LoadModel(architecture, weights));
    request.graph = graph_.graph;
    request.features = FeatureShape::Of(*graph_.features);
    request.output = request.model->FindOutput("logits")->value;
    request.num_threads = bench_.threads;
    request.forced = cell.forced;
    VICINAL_ASSIGN_OR_RETURN(plan_, Plan::Build(request, bench_.registry, *bench_.device));
    if (!cell.tune) return OkStatus();
    plan_ = nullptr;  // it has told the graph which work it needs
    VICINAL_RETURN_IF_ERROR(TuneHere(bench_, *graph_.graph));
    request.tuning_revision = graph_.graph->tuning().revision();
    VICINAL_ASSIGN_OR_RETURN(plan_, Plan::Build(request, bench_.registry, *bench_.device));
    return OkStatus();
  }

  Status Run() override {
    VICINAL_ASSIGN_OR_RETURN(logits_,
                             plan_->Run(*bench_.context, *graph_.features, no_stop_, StatsSink::Null(), Clock::Real()));
    if (!bench_.on_cpu()) return OkStatus();
    result_.resize(static_cast<size_t>(logits_.rows * logits_.cols));
    CopyInClientOrder(logits_, graph_.graph->parts().permutation, result_.data());
    return OkStatus();
  }

  Status RunQueued(int count) override {
    return bench_.on_cpu() ? Task::RunQueued(count) : plan_->RunQueued(*bench_.context, *graph_.features, count);
  }

  StatusOr<std::vector<float>> Result() const override {
    if (bench_.on_cpu()) return result_;
    const auto all = static_cast<size_t>((logits_.rows - 1) * logits_.stride + logits_.cols);
    std::vector<float> host(all), result(static_cast<size_t>(logits_.rows * logits_.cols));
    VICINAL_RETURN_IF_ERROR(bench_.device->CopyToHost(host.data(), logits_.data, all * sizeof(float)));
    CopyInClientOrder({host.data(), logits_.rows, logits_.cols, logits_.stride}, graph_.graph->parts().permutation,
                      result.data());
    return result;
  }

  int64_t scratch_bytes() const override { return plan_->scratch_bytes(); }

  // With the mean time of each step, so that a slow cell can be looked into at once.
  std::vector<std::string> Kernels() const override {
    std::vector<std::string> kernels;
    for (const PlanStepInfo& step : plan_->Steps()) {
      const double us = step.run_count > 0 ? 1e6 * step.total_seconds / static_cast<double>(step.run_count) : 0.0;
      kernels.push_back(absl::StrCat(step.operation, " ", step.description, ": ", step.kernel, ", ", us, " us"));
    }
    return kernels;
  }

 private:
  Bench& bench_;
  const PreparedUpload graph_;
  const StopCheck no_stop_ = [] { return OkStatus(); };
  std::shared_ptr<Plan> plan_;
  ConstMatrixView logits_;
  std::vector<float> result_;
};

}  // namespace

StatusOr<std::unique_ptr<Bench>> Bench::Open(int threads, const std::string& device) {
  auto bench = std::make_unique<Bench>();
  bench->threads = threads;
  VICINAL_ASSIGN_OR_RETURN(bench->opened, OpenDevice(device, "", threads, bench->registry, Logger::Null()));
  bench->device = bench->opened.device.get();
  bench->context = bench->device->CreateContext();
  return bench;
}

StatusOr<PreparedUpload> LoadGraph(Bench& bench, const std::string& file, int64_t nodes, int64_t feature_count,
                                   const std::string& order) {
  VICINAL_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(file));
  VICINAL_ASSIGN_OR_RETURN(const Safetensors tensors, Safetensors::Parse(bytes));
  std::optional<HostTensor> edge_index = TensorOf(tensors, "edge_index");
  if (!edge_index) return InvalidArgument("TENSOR_MISSING", "edge_index", absl::StrCat(file, " has no edge_index"));
  GraphSource source;
  source.name = "graph";
  source.node_count = nodes;
  source.feature_count = feature_count;
  source.edge_index = *std::move(edge_index);
  source.edge_weight = TensorOf(tensors, "edge_weight");
  source.edge_attr = TensorOf(tensors, "edge_attr");
  source.x = TensorOf(tensors, "x");
  source.x_indptr = TensorOf(tensors, "x_indptr");
  source.x_indices = TensorOf(tensors, "x_indices");
  source.x_values = TensorOf(tensors, "x_values");
  VICINAL_ASSIGN_OR_RETURN(source.order, ParseOrderKind(order));
  return Prepare(bench, std::move(source));
}

StatusOr<PreparedUpload> LoadBinaryGraph(Bench& bench, const std::string& file, int64_t feature_count,
                                         const std::string& order) {
  VICINAL_ASSIGN_OR_RETURN(const BinaryGraph graph, ReadBinaryGraph(file));
  GraphSource source;
  source.name = "graph";
  source.node_count = graph.nodes;
  source.feature_count = feature_count;
  source.edge_index = EdgesOf(graph);
  source.x = PatternTensor(graph.nodes, feature_count);
  VICINAL_ASSIGN_OR_RETURN(source.order, ParseOrderKind(order));
  return Prepare(bench, std::move(source));
}

StatusOr<std::unique_ptr<Task>> MakeAggregateTask(Bench& bench, std::shared_ptr<const PreparedGraph> graph,
                                                  const AggregateCell& cell) {
  auto task = std::make_unique<AggregateTask>(bench, std::move(graph));
  VICINAL_RETURN_IF_ERROR(task->Prepare(cell));
  return task;
}

StatusOr<std::unique_ptr<Task>> MakeScoresTask(Bench& bench, std::shared_ptr<const PreparedGraph> graph,
                                               const ScoresCell& cell) {
  auto task = std::make_unique<ScoresTask>(bench, std::move(graph));
  VICINAL_RETURN_IF_ERROR(task->Prepare(cell));
  return task;
}

StatusOr<std::unique_ptr<Task>> MakeForwardTask(Bench& bench, const PreparedUpload& graph, const ForwardCell& cell) {
  auto task = std::make_unique<ForwardTask>(bench, graph);
  VICINAL_RETURN_IF_ERROR(task->Prepare(cell));
  return task;
}

}  // namespace vicinal::bench
