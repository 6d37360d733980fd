// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/base/tensor.h"
#include "engine/device/row_stride.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/graphs.h"

namespace vicinal::conformance {
namespace {

struct Case {
  const HostGraph& graph;
  Reduce reduce;
  bool weighted;
  HostMatrix src;
  MatrixLayout src_layout;
  MatrixLayout dst_layout;
  float self_scale = 0.0f;
  HostEpilogue epilogue;
  std::vector<float> src_scale;  // in place of the graph's weights
  Storage storage = Storage::kFloat32;

  std::string Name(std::string_view kernel) const {
    return std::string(kernel) + ", " + graph.name + ", width " + std::to_string(src.cols) + ", " +
           std::string(ToString(reduce)) +
           (weighted            ? ", weighted"
            : src_scale.empty() ? ""
                                : ", rank-1") +
           (storage == Storage::kFloat32 ? "" : ", " + std::string(ToString(storage))) + ", src +" +
           std::to_string(src_layout.offset) + "/" + std::to_string(src_layout.padding);
  }
};

AggregateProblem ProblemOf(const Case& c) {
  AggregateProblem problem = AggregationOf(c.graph, c.reduce, c.weighted, !c.src_scale.empty(), c.src.cols);
  problem.storage = c.storage;
  return problem;
}

// A bfloat16 is cut off rather than rounded: the cases want representable values, no matter which.
uint16_t NarrowBits(float x, Storage storage) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if (storage == Storage::kBfloat16) return static_cast<uint16_t>(bits >> 16);
  // Normal float16 numbers only, which random elements are, but for those that are nearly 0.
  const int32_t exponent = static_cast<int32_t>(bits >> 23 & 0xff) - 127 + 15;
  if (exponent <= 0) return 0;
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | static_cast<uint32_t>(exponent) << 10 | (bits >> 13 & 0x3ff));
}

std::vector<uint16_t> Narrowed(const HostMatrix& src, Storage storage) {
  std::vector<uint16_t> narrow(1, 0);
  if (storage == Storage::kFloat32) return narrow;
  narrow.clear();
  for (const float x : src.values) narrow.push_back(NarrowBits(x, storage));
  return narrow;
}

void Widen(const std::vector<uint16_t>& narrow, Storage storage, HostMatrix* out) {
  for (size_t i = 0; i < narrow.size(); ++i) {
    out->values[i] = storage == Storage::kBfloat16 ? BFloat16ToFloat(narrow[i]) : HalfToFloat(narrow[i]);
  }
}

// What a case runs on, on the device, for all kernels and configurations; and their layouts, made as they are asked
// for.
class OnDevice {
 public:
  OnDevice(Machine& machine, const Case& c)
      : machine_(machine),
        case_(c),
        graph_(*machine.device, c.graph),
        src_(*machine.device, c.src, c.src_layout, 1e30f),
        src_scale_(*machine.device, c.src_scale.empty() ? std::vector<float>(1, 0.0f) : c.src_scale),
        narrow_(*machine.device, Narrowed(c.src, c.storage)),
        source_(graph_.view(c.weighted), c.graph.blocks, *machine.device) {}

  const Case& the_case() const { return case_; }
  bool Takes(Report& report, const RegisteredKernel<AggregateKernel>& kernel, const KernelConfig& config) {
    const AggregateProblem problem = ProblemOf(case_);
    return kernel.kernel().LayoutName(problem, config).empty() || LayoutOf(report, kernel, config, problem) != nullptr;
  }
  // Once; nothing where the kernel finds that the adjacency is not for it. Without `prepared`, as in a receptive field:
  // no layout. `made_for`: the problem that the layout is made for, if not the case's.
  std::optional<HostMatrix> Run(Report& report, const RegisteredKernel<AggregateKernel>& kernel,
                                const KernelConfig& config = {}, bool prepared = true,
                                const AggregateProblem* made_for = nullptr) {
    AggregateArgs args;
    args.problem = ProblemOf(case_);
    args.config = config;
    if (!case_.src_scale.empty()) args.src_scale = src_scale_.data();
    args.adjacency = graph_.view(case_.weighted);
    if (case_.storage == Storage::kFloat32) {
      args.src = src_.view();
    } else {
      args.src16 = {narrow_.data(), case_.src.rows, case_.src.cols, case_.src.cols};
    }
    args.self_scale = case_.self_scale;
    if (prepared && !kernel.kernel().LayoutName(args.problem, config).empty()) {
      args.layout = LayoutOf(report, kernel, config, made_for != nullptr ? *made_for : args.problem);
      if (args.layout == nullptr) return std::nullopt;
    }
    return RunOnce(machine_, report, kernel, args, case_.epilogue, case_.dst_layout, case_.graph.rows, case_.src.cols);
  }

 private:
  // Null where the kernel does not want the adjacency.
  const AdjacencyLayout* LayoutOf(Report& report, const RegisteredKernel<AggregateKernel>& kernel,
                                  const KernelConfig& config, const AggregateProblem& problem) {
    const std::string name(kernel.kernel().name());
    // Problems of equal names share a layout; those made for another width are looked at one by one.
    const auto key = std::tuple(name, kernel.kernel().LayoutName(problem, config), problem.width);
    const auto known = layouts_.find(key);
    if (known != layouts_.end()) return known->second.get();
    auto made = kernel.kernel().MakeLayout(problem, config, source_);
    if (made.status().code() == absl::StatusCode::kFailedPrecondition) return (layouts_[key] = nullptr).get();
    MustBeOk(made.status(), "making a layout");
    report.CheckTrue("aggregate layouts", case_.Name(name) + ": larger than its bound",
                     (*made)->size_bytes() <= kernel.kernel().LayoutBytesBound(case_.graph.rows, case_.graph.edges()));
    return (layouts_[key] = *std::move(made)).get();
  }

  Machine& machine_;
  const Case& case_;
  const DeviceGraph graph_;
  const DeviceMatrix src_;
  const DeviceArray<float> src_scale_;
  const DeviceArray<uint16_t> narrow_;
  LayoutSource source_;
  std::map<std::tuple<std::string, std::string, int64_t>, AdjacencyLayoutRef> layouts_;
};

std::vector<double> Bounds(const Case& c);

// Twice in one configuration, against the oracle; returns what it gave, if anything.
std::optional<HostMatrix> CheckConfig(OnDevice& on, Report& report, const RegisteredKernel<AggregateKernel>& kernel,
                                      const KernelConfig& config, const std::vector<double>& want) {
  const std::string name(kernel.kernel().name());
  std::string what = on.the_case().Name(name);
  for (const int32_t value : config.values) what += value != 0 ? ", " + std::to_string(value) : "";
  if (!on.Takes(report, kernel, config)) return std::nullopt;
  const auto run = [&] { return *on.Run(report, kernel, config); };
  if (kernel.kernel().deterministic(config))
    return report.CheckTwice("aggregate " + name, what, run, want, [&] { return Bounds(on.the_case()); });
  // The order of atomic additions is nobody's, and a library's is its own: long rows are a little less exact.
  const HostMatrix got = run();
  report.Check("aggregate " + name, what, got, got, want, 1e-5);
  return got;
}

// Row j times scale[j]; the factors are powers of two here, so that nothing is rounded.
HostMatrix ScaledRows(HostMatrix src, const std::vector<float>& scale) {
  for (size_t i = 0; i < src.values.size() && !scale.empty(); ++i) src.values[i] *= scale[i / src.cols];
  return src;
}

// Own rows are added as they are.
std::vector<double> Wanted(const Case& c) {
  std::vector<double> sums = Aggregate(c.graph, c.weighted, c.reduce, ScaledRows(c.src, c.src_scale), 0.0f);
  if (c.self_scale != 0) AddOwnRows(c.src, c.self_scale, &sums);
  return WithEpilogue(std::move(sums), c.src.cols, c.epilogue);
}

// What float32 may miss by: its epsilon times the sum of the terms' sizes, times what the number of roundings grows to
// by chance. No activation is steeper than 1, and each adds an epsilon or two of its own result.
std::vector<double> Bounds(const Case& c) {
  constexpr double kEpsilon = 0x1p-24;
  const auto absolute = [](std::vector<float> values) {
    for (float& x : values) x = std::abs(x);
    return values;
  };
  HostGraph graph = c.graph;
  graph.value = absolute(graph.value);
  Case sizes{graph, c.reduce, c.weighted, c.src, {}, {}, std::abs(c.self_scale), c.epilogue, absolute(c.src_scale)};
  sizes.src.values = absolute(c.src.values);
  sizes.epilogue.scale = std::abs(c.epilogue.scale);
  sizes.epilogue.row_scale = absolute(c.epilogue.row_scale);
  sizes.epilogue.bias = absolute(c.epilogue.bias);
  sizes.epilogue.residual.values = absolute(c.epilogue.residual.values);
  sizes.epilogue.residual_scale = std::abs(c.epilogue.residual_scale);
  sizes.epilogue.activation = {};
  const double of_activation = c.epilogue.activation.kind == ActivationKind::kNone ? 0.0 : 1.0;
  std::vector<double> bounds = Wanted(sizes);
  for (double& x : bounds) x = (6 + std::sqrt(static_cast<double>(c.graph.edges()))) * kEpsilon * (x + of_activation);
  return bounds;
}

// All kernels on one case, as they are by default; those that promise equal bits among themselves are held to it.
// `finite`: what the case reads is. cuSPARSE promises nothing where it is not: on a star of 3,000 edges its NaNs are
// not where they should be.
void RunAll(Machine& machine, Report& report, const Case& c, bool finite = true) {
  if (!report.IsMine()) return;
  const std::vector<double> want = Wanted(c);
  OnDevice on(machine, c);
  HostMatrix common;
  for (const auto& kernel : machine.registry.aggregate.kernels()) {
    if (!kernel->kernel().WhyUnsupported(ProblemOf(c)).empty()) continue;
    const std::string name(kernel->kernel().name());
    if (!finite && name == "cusparse") continue;
    const std::optional<HostMatrix> got = CheckConfig(on, report, *kernel, {}, want);
    if (!got.has_value() || kernel->kernel().ReductionOrder(ProblemOf(c), {}) != 0 || IsReference(*kernel) ||
        !kernel->kernel().deterministic({}))
      continue;
    if (common.values.empty()) common = *got;
    report.CheckSame("aggregate equal bits", c.Name(name), *got, common);
  }
}

// Every configuration that tuning may try, and some that only a person would; those of one evaluation give equal bits.
void RunConfigs(Machine& machine, Report& report, const Case& c) {
  if (!report.IsMine()) return;
  const std::vector<double> want = Wanted(c);
  OnDevice on(machine, c);
  for (const auto& kernel : machine.registry.aggregate.kernels()) {
    const AggregateProblem problem = ProblemOf(c);
    if (!kernel->kernel().WhyUnsupported(problem).empty() || kernel->kernel().ParameterNames().empty()) continue;
    std::vector<KernelConfig> configs = kernel->kernel().Candidates(problem);
    for (const KernelConfig& odd :
         {KernelConfig{{1, 1, 1}}, KernelConfig{{1000, 32, 1024}}, KernelConfig{{7, 3, 96}}}) {
      if (kernel->kernel().deterministic(odd)) configs.push_back(odd);
    }
    // What only measures what a published technique is worth.
    if (kernel->kernel().name() == "row_cache") {
      for (const KernelConfig& config : {KernelConfig{{0, 1}}, KernelConfig{{8, 0}}}) configs.push_back(config);
    }
    // Selective as published, some tiles, whole blocks of a partition, all and nothing dense.
    if (kernel->kernel().name() == "partition_dual") {
      for (const KernelConfig& config : {KernelConfig{{20, 0, 1}}, KernelConfig{{20, 3, 0}}, KernelConfig{{5, 2, 0}},
                                         KernelConfig{{1001, 0, 0}}, KernelConfig{{1001, 0, 1}}}) {
        configs.push_back(config);
      }
    }
    if (kernel->kernel().name() == "neighbor_group_atomics") {
      for (const KernelConfig& config : {KernelConfig{{0, 0, 0, 1}}, KernelConfig{{16, 4, 1024}},
                                         KernelConfig{{32, 32, 1024, 1}}, KernelConfig{{7, 3, 96}}}) {
        configs.push_back(config);
      }
    }
    std::map<int64_t, HostMatrix> by_order;
    for (const KernelConfig& config : configs) {
      const std::optional<HostMatrix> got = CheckConfig(on, report, *kernel, config, want);
      if (!got.has_value() || !kernel->kernel().deterministic(config)) continue;
      const auto same = by_order.emplace(kernel->kernel().ReductionOrder(problem, config), *got).first;
      report.CheckSame("aggregate equal bits", c.Name(kernel->kernel().name()), *got, same->second);
    }
  }
}

constexpr Reduce kReduces[] = {Reduce::kSum, Reduce::kMean, Reduce::kMax, Reduce::kMin};

// Rows as a plan lays them: padded, so that odd widths are read in packs, too.
MatrixLayout AsInPlans(int64_t width) { return {0, RowStrideFor(width) - width}; }

void PlainCases(Machine& machine, Report& report, const std::vector<HostGraph>& zoo) {
  for (const HostGraph& graph : zoo) {
    for (int64_t width : {1, 3, 16, 32, 33, 64, 200, 513}) {
      const HostMatrix src = RandomMatrix(graph.cols, width, 11 + width);
      for (Reduce reduce : kReduces) {
        RunAll(machine, report, {graph, reduce, false, src, {}, {}, 0.0f, {}, {}});
        RunAll(machine, report, {graph, reduce, true, src, AsInPlans(width), AsInPlans(width), 0.0f, {}, {}});
      }
    }
  }
}

// Slices of columns, paddings, self terms, biases, residuals in place and all activations.
void FusedCases(Machine& machine, Report& report, const std::vector<HostGraph>& zoo) {
  const MatrixLayout layouts[] = {{0, 0}, {1, 3}, {2, 2}, {4, 4}, {4, 1}};
  const Activation activations[] = {{ActivationKind::kNone, 0.0f},    {ActivationKind::kRelu, 0.0f},
                                    {ActivationKind::kElu, 0.7f},     {ActivationKind::kLeakyRelu, 0.1f},
                                    {ActivationKind::kSigmoid, 0.0f}, {ActivationKind::kTanh, 0.0f}};
  int turn = 0;
  for (const HostGraph& graph : zoo) {
    for (int64_t width : {7, 12, 36, 64, 130}) {
      const Reduce reduce = kReduces[turn % 4];
      Case c{graph,
             reduce,
             turn % 2 == 0,
             RandomMatrix(graph.cols, width, 5 + width),
             layouts[turn % 5],
             layouts[turn / 5 % 5],
             graph.rows == graph.cols ? 1.25f : 0.0f,
             {},
             {}};
      c.epilogue.bias = RandomVector(width, 91);
      if (turn % 3 != 0) c.epilogue.residual = RandomMatrix(graph.rows, width, 92);
      c.epilogue.residual_scale = 0.5f;
      c.epilogue.activation = activations[turn % 6];
      RunAll(machine, report, c);
      ++turn;
    }
  }
}

// GCN's normalisation as two factors per node: one read with the source, the other at the store. Every reduce, and own
// rows, in turn.
void RankOneCases(Machine& machine, Report& report, const std::vector<HostGraph>& zoo) {
  int turn = 0;
  for (const HostGraph& graph : zoo) {
    for (int64_t width : {1, 16, 33, 64, 130}) {
      const Reduce reduce = turn % 3 == 0 ? kReduces[turn / 3 % 4] : Reduce::kSum;
      const float self_scale = turn++ % 4 == 3 && graph.rows == graph.cols ? 0.75f : 0.0f;
      const HostMatrix src = RandomMatrix(graph.cols, width, 6 + width);
      Case c{graph, reduce, false, src, AsInPlans(width), {}, self_scale, {}, {}};
      for (int64_t j = 0; j < graph.cols; ++j) c.src_scale.push_back(j % 3 == 0 ? 0.25f : 2.0f);
      c.epilogue.scale = 0.75f;
      c.epilogue.row_scale = RandomVector(graph.rows, 7);
      c.epilogue.bias = RandomVector(width, 91);
      RunAll(machine, report, c);
      if (width == 33 || width == 64) RunConfigs(machine, report, c);
    }
  }
}

void ConfigCases(Machine& machine, Report& report, const std::vector<HostGraph>& zoo) {
  int turn = 0;
  for (const HostGraph& graph : zoo) {
    for (int64_t width : {5, 64, 129}) {
      const Reduce reduce = kReduces[turn % 4];
      const HostMatrix src = RandomMatrix(graph.cols, width, 8 + width);
      Case c{graph, reduce, turn % 3 == 0, src, AsInPlans(width), AsInPlans(width), 0.0f, {}, {}};
      c.epilogue.bias = RandomVector(width, 91);
      RunConfigs(machine, report, c);
      ++turn;
    }
  }
}

// Weights of very different sizes, some of them too small for exact bfloat16 terms.
HostGraph WideWeights(HostGraph graph) {
  for (size_t e = 0; e < graph.value.size(); ++e) {
    graph.value[e] = std::ldexp(graph.value[e], e % 31 == 7 ? -140 : static_cast<int>(e * 5 % 41) - 20);
  }
  return graph;
}

// What is not finite stays with its neighbours, does not vanish there, and numbers of very different sizes are added as
// float32 adds them.
void RangeCases(Machine& machine, Report& report, const std::vector<HostGraph>& zoo) {
  for (const HostGraph& graph : zoo) {
    std::vector<bool> read(graph.cols, false);
    for (const int32_t source : graph.col) read[source] = true;
    const HostGraph wide = WideWeights(graph);
    for (int64_t width : {16, 40, 64}) {
      HostMatrix src = RandomMatrix(graph.cols, width, 10 + width);
      for (int64_t i = 0; i < graph.cols * width; ++i)
        src.values[i] = std::ldexp(src.values[i], static_cast<int>(i * 7 % 61) - 30);
      RunAll(machine, report, {graph, Reduce::kSum, false, src, {}, {}, 0.0f, {}, {}});
      if (width == 40) RunConfigs(machine, report, {wide, Reduce::kSum, true, src, {}, {}, 0.0f, {}, {}});
      for (int64_t j = 0; j < graph.cols; ++j) {
        for (int64_t d = 0; d < width && !read[j]; ++d) {
          src.values[j * width + d] = d % 2 == 0 ? std::numeric_limits<float>::infinity() : std::nanf("");
        }
      }
      RunAll(machine, report, {graph, Reduce::kMean, false, src, {}, {}, 0.0f, {}, {}});
      for (int64_t j = 3; j < graph.cols; j += 13) {
        for (int64_t d = 0; d < width; d += 3) src.values[j * width + d] = std::nanf("");
      }
      for (const Reduce reduce : kReduces) {
        for (const bool weighted : {false, true}) {
          RunAll(machine, report, {graph, reduce, weighted, src, {}, {}, 0.0f, {}, {}}, /*finite=*/false);
        }
      }
    }
  }
}

// Rows stored in 16 bits, with sums in float32: the oracle reads what was rounded.
void NarrowCases(Machine& machine, Report& report, const std::vector<HostGraph>& zoo) {
  int turn = 0;
  for (const HostGraph& graph : zoo) {
    for (const Storage storage : {Storage::kBfloat16, Storage::kFloat16}) {
      for (int64_t width : {7, 16, 64, 136}) {
        HostMatrix src = RandomMatrix(graph.cols, width, 12 + width);
        Widen(Narrowed(src, storage), storage, &src);
        Case c{graph, kReduces[turn % 4], turn % 3 == 0, src, {}, {}, 0.0f, {}, {}};
        c.storage = storage;
        if (turn % 5 > 2) c.epilogue.residual = RandomMatrix(graph.rows, width, 93);
        if (turn % 5 > 3 && graph.rows == graph.cols) c.self_scale = 0.75f;
        RunAll(machine, report, c);
        ++turn;
      }
    }
  }
}

// A row gives the same bits in another graph: what a receptive field relies on.
void SubsetCases(Machine& machine, Report& report, const std::vector<HostGraph>& zoo) {
  for (const HostGraph& graph : zoo) {
    std::vector<int64_t> rows;
    for (int64_t row = graph.rows - 1; row >= 0; row -= 2) rows.push_back(row);
    const HostGraph part = RowsOf(graph, rows);
    for (int64_t width : {16, 33, 128}) {
      if (!report.IsMine()) continue;
      const HostMatrix src = RandomMatrix(graph.cols, width, 4);
      HostMatrix with_nans = src;
      PutNans(&with_nans);
      const std::vector<float> src_scale = RandomVector(graph.cols, 5);
      for (const auto& kernel : machine.registry.aggregate.kernels()) {
        if (kernel->kernel().whole_graph_only()) continue;
        const auto check = [&](bool weighted, const std::vector<float>& scale, const KernelConfig& config,
                               Reduce reduce = Reduce::kMean) {
          const HostMatrix& read = reduce == Reduce::kMean ? src : with_nans;
          const Case of_all{graph, reduce, weighted, read, {}, {}, 0.0f, {}, scale};
          const Case of_some{part, reduce, weighted, read, {}, {}, 0.0f, {}, scale};
          if (!kernel->kernel().WhyUnsupported(ProblemOf(of_all)).empty()) return;
          const auto whole = OnDevice(machine, of_all).Run(report, *kernel, config);
          const auto some = OnDevice(machine, of_some).Run(report, *kernel, config, /*prepared=*/false);
          HostMatrix want = FilledMatrix(part.rows, width, 0.0f);
          for (int64_t i = 0; i < part.rows; ++i) {
            for (int64_t c = 0; c < width; ++c) want.values[i * width + c] = whole->at(rows[i], c);
          }
          report.CheckSame("aggregate in a subset of rows", std::string(kernel->kernel().name()) + ", " + graph.name,
                           *some, want);
        };
        check(true, {}, {});
        for (const Reduce reduce : {Reduce::kMax, Reduce::kMin}) check(true, {}, {}, reduce);
        if (kernel->kernel().name() == "binned_rows") check(false, src_scale, {{0, 1}});  // scaled first
        if (kernel->kernel().name() == "length_sorted_rows") {
          check(true, {}, {{64, 64}});
          check(false, src_scale, {{0, 128, 0, 1}});
        }
      }
    }
  }
}

// So many rows of so few edges that binned_rows has wide bundles of them; longer ones and a hub among them. Without
// the work list, which has neither bundles nor parts of rows, bits are the same.
void WideBundleCases(Machine& machine, Report& report) {
  std::vector<int64_t> degrees(131'100);
  for (size_t row = 0; row < degrees.size(); ++row) {
    degrees[row] = static_cast<int64_t>(row % 997 == 5 ? row % 300 : row % 41 == 0 ? row % 33 : row % 6);
  }
  degrees[70'000] = 2'000;
  const HostGraph graph = RandomGraph("many short rows", 500, degrees, 17);
  int turn = 0;
  for (const Storage storage : {Storage::kFloat32, Storage::kBfloat16, Storage::kFloat16}) {
    for (const int64_t width : {16, 32, 64, 136}) {
      for (const bool weighted : {false, true}) {
        ++turn;
        if (!report.IsMine()) continue;
        HostMatrix src = RandomMatrix(graph.cols, width, 14 + width);
        if (storage != Storage::kFloat32) Widen(Narrowed(src, storage), storage, &src);
        Case c{graph, kReduces[turn / 2 % 4], weighted, src, {}, {}, 0.0f, {}, {}};
        c.storage = storage;
        if (turn % 3 == 0) c.epilogue.residual = RandomMatrix(graph.rows, width, 94);
        const std::vector<double> want = Wanted(c);
        OnDevice on(machine, c);
        for (const auto& kernel : machine.registry.aggregate.kernels()) {
          if (kernel->kernel().name() != "binned_rows") continue;
          const std::optional<HostMatrix> got = CheckConfig(on, report, *kernel, {}, want);
          const std::optional<HostMatrix> plain = on.Run(report, *kernel, {}, /*prepared=*/false);
          report.CheckSame("aggregate in wide bundles", c.Name("binned_rows"), *got, *plain);
        }
      }
    }
  }
}

// Problems whose layouts have the same name share one: what is made for one width serves the other.
void SharedLayoutCases(Machine& machine, Report& report, const std::vector<HostGraph>& zoo) {
  constexpr int64_t kWidths[] = {8, 16, 24, 32, 48, 64, 96, 200};
  for (const HostGraph& graph : zoo) {
    for (const int64_t width : kWidths) {
      if (!report.IsMine()) continue;
      const Case c{graph, Reduce::kSum, true, RandomMatrix(graph.cols, width, 13 + width), {}, {}, 0.0f, {}, {}};
      const std::vector<double> want = Wanted(c);
      OnDevice on(machine, c);
      for (const auto& kernel : machine.registry.aggregate.kernels()) {
        const AggregateProblem problem = ProblemOf(c);
        if (!kernel->kernel().WhyUnsupported(problem).empty() || kernel->kernel().LayoutName(problem, {}).empty())
          continue;
        for (const int64_t other : kWidths) {
          AggregateProblem made_for = problem;
          made_for.width = other;
          if (other == width || kernel->kernel().LayoutName(made_for, {}) != kernel->kernel().LayoutName(problem, {})) {
            continue;
          }
          const std::optional<HostMatrix> got = on.Run(report, *kernel, {}, true, &made_for);
          if (!got.has_value()) continue;
          const std::string name(kernel->kernel().name());
          report.Check("aggregate shared layouts", c.Name(name) + ", made for " + std::to_string(other), *got, *got,
                       want, kernel->kernel().deterministic({}) ? Report::kRelativeL2 : 1e-5);
        }
      }
    }
  }
}

}  // namespace

void RunAggregateCases(Machine& machine, Report& report) {
  const std::vector<HostGraph> zoo = ZooFor(machine, report);
  PlainCases(machine, report, zoo);
  FusedCases(machine, report, zoo);
  RankOneCases(machine, report, zoo);
  ConfigCases(machine, report, zoo);
  RangeCases(machine, report, zoo);
  NarrowCases(machine, report, zoo);
  SubsetCases(machine, report, zoo);
  SharedLayoutCases(machine, report, zoo);
  WideBundleCases(machine, report);
}

}  // namespace vicinal::conformance
