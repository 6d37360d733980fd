// SPDX-License-Identifier: Apache-2.0
// Kernels of a recording overlap. A chain of small ones over two matrices, in which each reads what the one before it
// wrote and writes what the one before that read, gives the bits of the same chain launched one by one, whatever runs
// ahead; also where rows are cut, and where the chain is replayed before the last replay has ended.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "engine/kernels/adjacency_layout.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/graphs.h"

namespace vicinal::conformance {
namespace {

constexpr int kSteps = 8;

// What a chain has besides: a sparse product that begins it; in its means the row's own source, and an residual; in
// place of its means attention, or messages with features of edges; factors of sources.
enum class Messages { kNone, kFeatured, kOuter };
struct Extras {
  bool sparse_start = false;
  bool own_rows = false;
  bool attention = false;
  bool scaled = false;
  Messages messages = Messages::kNone;
};
constexpr int64_t kFeatures = 5;  // of an edge

// What makes its means.
struct Means {
  const RegisteredKernel<AggregateKernel>& kernel;
  KernelConfig config = {};
};

AggregateProblem MeansOf(const HostGraph& graph, int64_t width, bool scaled) {
  return AggregationOf(graph, Reduce::kMean, /*weighted=*/false, scaled, width);
}

// Means of `graph`, and products between them: from `a` to `b` and back, kSteps times.
class Chain {
 public:
  Chain(Machine& machine, const HostGraph& graph, int64_t width, const Extras& extras, const Means& means)
      : machine_(machine),
        width_(width),
        extras_(extras),
        means_(means),
        graph_(*machine.device, graph),
        a_(*machine.device, RandomMatrix(graph.rows, width, 91), {}, 0.0f),
        b_(*machine.device, RandomMatrix(graph.rows, width, 92), {}, 0.0f),
        begin_(a_.Download(*machine.device)),
        bias_(*machine.device, RandomVector(width, 93)),
        src_scale_(*machine.device, RandomVector(graph.cols, 96)),
        attention_(*machine.registry.attention.kernels().front()),
        message_(*machine.registry.message_reduce.kernels().front()),
        product_(ExactProduct(machine)),
        sparse_(*machine.registry.sparse_update.kernels().front()) {
    MeanArgs(graph);
    if (extras.attention) AttentionArgsOf(graph);
    if (extras.messages != Messages::kNone) MessageArgsOf(graph);
    if (!takes_graph()) return;
    std::vector<float> weight = RandomVector(width * width, 94);
    std::vector<char> packed(product_.kernel().PackedBytes(width, width));
    product_.kernel().Pack({weight.data(), width, width, width}, packed.data());
    packed_ = DeviceArray<char>(*machine.device, packed);
    multiply_.problem = {graph.rows, width, width};
    multiply_.src = b_.view();
    multiply_.dst = a_.view();
    multiply_.weight = packed_.data();
    if (extras.sparse_start) SparseArgs(graph);
  }

  // Whether the kernel of the means finds what it is for in the graph.
  bool takes_graph() const { return takes_graph_; }
  Status Launch() const {
    if (extras_.sparse_start) VICINAL_RETURN_IF_ERROR(sparse_.Launch(*machine_.context, start_, nullptr));
    for (int step = 0; step < kSteps; ++step) {
      VICINAL_RETURN_IF_ERROR(Gather());
      VICINAL_RETURN_IF_ERROR(product_.Launch(*machine_.context, multiply_, nullptr));
    }
    return OkStatus();
  }
  void Restart() const {
    MustBeOk(machine_.device->CopyFromHost(a_.view().data, begin_.values.data(), begin_.values.size() * sizeof(float)),
             "begin again");
  }
  HostMatrix Result() const { return a_.Download(*machine_.device); }

 private:
  Status Gather() const {
    if (extras_.attention) return attention_.Launch(*machine_.context, attend_, scratch_->data());
    if (extras_.messages != Messages::kNone) return message_.Launch(*machine_.context, send_, scratch_->data());
    return means_.kernel.Launch(*machine_.context, aggregate_, scratch_->data());
  }

  void MeanArgs(const HostGraph& graph) {
    const AggregateKernel& kernel = means_.kernel.kernel();
    aggregate_.problem = MeansOf(graph, width_, extras_.scaled);
    aggregate_.config = means_.config;
    aggregate_.adjacency = graph_.view(false);
    if (extras_.scaled) aggregate_.src_scale = src_scale_.data();
    if (!kernel.LayoutName(aggregate_.problem, means_.config).empty()) {
      LayoutSource source(aggregate_.adjacency, graph.blocks, *machine_.device);
      auto layout = kernel.MakeLayout(aggregate_.problem, means_.config, source);
      takes_graph_ = layout.status().code() != absl::StatusCode::kFailedPrecondition;
      if (!takes_graph_) return;
      MustBeOk(layout.status(), "making a layout");
      layout_ = *std::move(layout);
      aggregate_.layout = layout_.get();
    }
    aggregate_.src = a_.view();
    aggregate_.dst = b_.view();
    aggregate_.epilogue.bias = bias_.data();
    aggregate_.epilogue.activation.kind = ActivationKind::kRelu;
    if (extras_.own_rows) {
      aggregate_.self_scale = 0.5f;
      aggregate_.epilogue.residual = a_.view();
      aggregate_.epilogue.residual_scale = -0.25f;
    }
    scratch_.emplace(*machine_.device, kernel.ScratchBytes(aggregate_.problem, means_.config, 1));
  }

  // One head, whose scores are a column of what it reads; in the form that overlaps.
  void AttentionArgsOf(const HostGraph& graph) {
    attend_.problem = {AttentionKind::kGat, graph.rows, graph.rows, graph.edges(), 1, width_, true};
    attend_.config = {{0, 128}};
    attend_.adjacency = graph_.view(false);
    attend_.value = a_.view();
    attend_.score_src = attend_.score_dst = {a_.view().data, graph.rows, 1, a_.view().stride};
    attend_.dst = b_.view();
    attend_.epilogue.bias = bias_.data();
    scratch_.emplace(*machine_.device, attention_.kernel().ScratchBytes(attend_.problem, attend_.config, 1));
  }

  // Means of relu(x_j + W e), or of x_j times one Gaussian of e.
  void MessageArgsOf(const HostGraph& graph) {
    features_ = DeviceArray<float>(*machine_.device, RandomVector(std::max<int64_t>(graph.edges(), 1) * kFeatures, 97));
    feature_weight_ = DeviceArray<float>(*machine_.device, RandomVector(kFeatures * width_, 98));
    MessageReduceProblem& problem = send_.problem;
    problem.reduce = Reduce::kMean;
    problem.rows = problem.cols = graph.rows;
    problem.edges = graph.edges();
    problem.width = width_;
    problem.edge_width = kFeatures;
    send_.adjacency = graph_.view(false);
    send_.edge.width = kFeatures;
    send_.edge.values = features_.data();
    send_.edge.sent = send_.adjacency;
    if (extras_.messages == Messages::kOuter) {
      problem.form = MessageForm::kOuter;
      problem.gaussians = 1;
      scales_ = DeviceArray<float>(*machine_.device, std::vector<float>(kFeatures, -0.25f));
      send_.gaussian_mean = feature_weight_.data();
      send_.gaussian_scale = scales_.data();
    } else {
      send_.edge_weight = feature_weight_.data();
      send_.activation.kind = ActivationKind::kRelu;
    }
    send_.src = a_.view();
    send_.dst = b_.view();
    send_.epilogue.bias = bias_.data();
    scratch_.emplace(*machine_.device, message_.kernel().ScratchBytes(problem, {}, 1));
  }

  // The graph's edges as features, as many as it has sources.
  void SparseArgs(const HostGraph& graph) {
    std::vector<float> weight = RandomVector(width_ * graph.cols, 95);
    std::vector<char> packed(sparse_.kernel().PackedBytes(width_, graph.cols));
    sparse_.kernel().Pack({weight.data(), width_, graph.cols, graph.cols}, packed.data());
    start_packed_ = DeviceArray<char>(*machine_.device, packed);
    start_.problem = {graph.rows, graph.cols, width_, graph.edges()};
    start_.src = graph_.view(true);
    start_.weight = start_packed_.data();
    start_.dst = a_.view();
  }

  Machine& machine_;
  const int64_t width_;
  const Extras extras_;
  const Means means_;
  const DeviceGraph graph_;
  const DeviceMatrix a_, b_;
  const HostMatrix begin_;
  const DeviceArray<float> bias_;
  const DeviceArray<float> src_scale_;
  const RegisteredKernel<AttentionKernel>& attention_;
  const RegisteredKernel<MessageReduceKernel>& message_;
  const RegisteredKernel<DenseUpdateKernel>& product_;
  const RegisteredKernel<SparseUpdateKernel>& sparse_;
  bool takes_graph_ = true;
  AdjacencyLayoutRef layout_;
  std::optional<Scratch> scratch_;
  DeviceArray<char> packed_, start_packed_;
  DeviceArray<float> features_, feature_weight_, scales_;
  AggregateArgs aggregate_;
  AttentionArgs attend_;
  MessageReduceArgs send_;
  DenseUpdateArgs multiply_;
  SparseUpdateArgs start_;
};

void CheckChain(Machine& machine, Report& report, const HostGraph& graph, int64_t width, const Extras& extras,
                const Means& means) {
  if (!report.IsMine()) return;
  const Chain chain(machine, graph, width, extras, means);
  if (!chain.takes_graph()) return;
  const std::string what = std::string(means.kernel.kernel().name()) + ", " + graph.name + ", width " +
                           std::to_string(width) + (extras.scaled ? ", scaled" : "") +
                           (extras.sparse_start ? ", sparse features" : "") + (extras.own_rows ? ", own rows" : "") +
                           (extras.attention ? ", attention" : "") +
                           (extras.messages == Messages::kFeatured ? ", messages with features" : "") +
                           (extras.messages == Messages::kOuter ? ", messages times Gaussians" : "");
  MustBeOk(chain.Launch(), "a chain");
  MustBeOk(machine.context->Synchronize(), "a chain");
  const HostMatrix want = chain.Result();
  auto recording = machine.context->Record([&] { return chain.Launch(); });
  MustBeOk(recording.status(), "record a chain");
  const int replays = report.brief() ? 2 : 10, in_a_row = report.brief() ? 4 : 50;
  for (int i = 0; i < replays; ++i) {
    chain.Restart();
    MustBeOk(machine.context->Replay(**recording), "replay a chain");
    MustBeOk(machine.context->Synchronize(), "replay a chain");
    report.CheckSame("overlap", what, chain.Result(), want);
  }
  if (!extras.sparse_start) return;
  for (int i = 0; i < in_a_row; ++i) MustBeOk(machine.context->Replay(**recording), "replay a chain");
  report.CheckSame("overlap", what + ", one replay behind the other", chain.Result(), want);
}

// Chains whose means each kernel makes that may, with factors of sources that it takes beforehand where it can.
void CheckKernels(Machine& machine, Report& report, const HostGraph& graph, int64_t width) {
  for (const auto& kernel : machine.registry.aggregate.kernels()) {
    if (!kernel->kernel().deterministic({})) continue;
    for (const bool scaled : {false, true}) {
      if (!kernel->kernel().WhyUnsupported(MeansOf(graph, width, scaled)).empty()) continue;
      Means means = {*kernel};
      const auto names = kernel->kernel().ParameterNames();
      const auto scale_first = std::find(names.begin(), names.end(), "scale_first");
      if (scaled && scale_first != names.end()) means.config.values[scale_first - names.begin()] = 1;
      CheckChain(machine, report, graph, width, {false, false, false, scaled}, means);
    }
  }
}

}  // namespace

void RunOverlapCases(Machine& machine, Report& report) {
  const Means front = {*machine.registry.aggregate.kernels().front()};
  for (const HostGraph& graph : ZooFor(machine, report)) {
    if (graph.rows != graph.cols) continue;
    for (const int64_t width : {1, 7, 16, 64, 100}) {
      for (const Extras& extras : {Extras{}, Extras{true, false}, Extras{false, true}, Extras{true, false, true}}) {
        CheckChain(machine, report, graph, width, extras, front);
      }
      for (const Messages messages : {Messages::kFeatured, Messages::kOuter})
        CheckChain(machine, report, graph, width, {true, false, false, false, messages}, front);
    }
    for (const int64_t width : {33, 64}) {
      if (!report.brief() || width == 64) CheckKernels(machine, report, graph, width);
    }
  }
  // More rows than the device holds blocks for at once.
  std::vector<int64_t> degrees(60'000);
  for (size_t i = 0; i < degrees.size(); ++i) degrees[i] = static_cast<int64_t>(i % 40 == 0 ? 300 : i % 7);
  const HostGraph large = RandomGraph("60,000 rows", 60'000, degrees, 17);
  for (const int64_t width : {16, 64}) {
    for (const bool own_rows : {false, true}) CheckChain(machine, report, large, width, {true, own_rows}, front);
    CheckChain(machine, report, large, width, {true, false, true}, front);
    for (const Messages messages : {Messages::kFeatured, Messages::kOuter})
      CheckChain(machine, report, large, width, {true, false, false, false, messages}, front);
    if (!report.brief()) CheckKernels(machine, report, large, width);
  }
}

}  // namespace vicinal::conformance
