// SPDX-License-Identifier: Apache-2.0
// The cases of each operation: every kernel of the backend that is registered for it.
#ifndef VICINAL_TESTS_CONFORMANCE_CASES_H_
#define VICINAL_TESTS_CONFORMANCE_CASES_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/conformance/graphs.h"
#include "tests/conformance/machine.h"
#include "tests/conformance/oracle.h"
#include "tests/conformance/report.h"

namespace vicinal::conformance {

void RunDeviceCases(Machine& machine, Report& report);
void RunClassRowCases(Machine& machine, Report& report);
void RunOverlapCases(Machine& machine, Report& report);
void RunAggregateCases(Machine& machine, Report& report);
void RunAggregateProductCases(Machine& machine, Report& report);
void RunAttentionCases(Machine& machine, Report& report);
void RunMessageCases(Machine& machine, Report& report);
void RunEdgeScoreCases(Machine& machine, Report& report);
void RunEdgeFeatureCases(Machine& machine, Report& report);
void RunEdgeMessageCases(Machine& machine, Report& report);
void RunExpressionCases(Machine& machine, Report& report);
void RunUpdateCases(Machine& machine, Report& report);
void RunProductPrecisionCases(Machine& machine, Report& report);
void RunRowwiseCases(Machine& machine, Report& report);
void RunReceptiveFieldCases(Machine& machine, Report& report);

// The product that plans take unless a request says otherwise.
inline const RegisteredKernel<DenseUpdateKernel>& ExactProduct(const Machine& machine) {
  const auto& kernels = machine.registry.dense_update.kernels();
  return **std::find_if(kernels.begin(), kernels.end(), [](const auto& kernel) {
    return kernel->kernel().WhyUnsupported({1, 1, 1}).empty();
  });
}

// The CPU's plain kernels, whose sums round in their own way, and which compute some things anew for every column.
template <class K>
bool IsReference(const RegisteredKernel<K>& kernel) {
  return kernel.kernel().name() == "reference";
}

// The graphs of most cases. The largest have fewer edges where time is short, and on the CPU, whose plain kernels are
// slow.
inline std::vector<HostGraph> ZooFor(const Machine& machine, const Report& report) {
  return GraphZoo(report.brief() || machine.is_cpu());
}

// W as `kernel` packs it, on the device.
template <class K>
DeviceArray<char> Packed(Machine& machine, const K& kernel, const HostMatrix& weight) {
  std::vector<char> packed(kernel.PackedBytes(weight.rows, weight.cols));
  std::vector<float> copy = weight.values;
  kernel.Pack({copy.data(), weight.rows, weight.cols, weight.cols}, packed.data());
  return DeviceArray<char>(*machine.device, packed);
}

// Of float32 rows of `width` columns. source_scaled: by factors of the sources, in place of the graph's weights.
inline AggregateProblem AggregationOf(const HostGraph& graph, Reduce reduce, bool weighted, bool source_scaled,
                                      int64_t width) {
  AggregateProblem problem;
  problem.reduce = reduce;
  problem.weighted = weighted || source_scaled;
  problem.source_scaled = source_scaled;
  problem.rows = graph.rows;
  problem.cols = graph.cols;
  problem.edges = graph.edges();
  problem.width = width;
  return problem;
}

// Bias, residual and activation on the device. The residual lies as dst does; `in_place`: it is dst.
struct DeviceEpilogue {
  DeviceArray<float> bias;
  DeviceArray<float> row_scale;
  Epilogue epilogue;

  DeviceEpilogue(Machine& machine, const HostEpilogue& host, const MatrixView& residual)
      : bias(*machine.device, host.bias.empty() ? std::vector<float>(1, 0.0f) : host.bias),
        row_scale(*machine.device, host.row_scale.empty() ? std::vector<float>(1, 0.0f) : host.row_scale) {
    epilogue.scale = host.scale;
    if (!host.row_scale.empty()) epilogue.row_scale = row_scale.data();
    if (!host.bias.empty()) epilogue.bias = bias.data();
    if (!host.residual.values.empty()) epilogue.residual = residual;
    epilogue.residual_scale = host.residual_scale;
    epilogue.activation = host.activation;
  }
};

// Runs a kernel once, with scratch of its own, and waits for it.
template <class K>
void LaunchAndWait(Machine& machine, Report& report, const RegisteredKernel<K>& kernel, const typename K::Args& args) {
  const std::string name(kernel.kernel().name());
  const Machine::Turn turn = machine.NextTurn();
  const Scratch scratch(*machine.device, kernel.kernel().ScratchBytes(args.problem, args.config, turn.threads));
  MustBeOk(kernel.Launch(turn.context, args, scratch.data()), name);
  MustBeOk(turn.context.Synchronize(), name);
  // On a GPU compute-sanitizer sees more, and a copy for each run would take longer than the runs.
  if (machine.is_cpu() && !scratch.EndUntouched(*machine.device)) {
    report.CheckTrue(name, "writes behind its scratch", false);
  }
}

// Runs a kernel once into a poisoned dst (or one that holds the residual, and is it) and returns what it holds.
// `problem` is already in `args`.
template <class K>
HostMatrix RunOnce(Machine& machine, Report& report, const RegisteredKernel<K>& kernel, typename K::Args args,
                   const HostEpilogue& host_epilogue, const MatrixLayout& layout, int64_t rows, int64_t cols) {
  const bool in_place = !host_epilogue.residual.values.empty();
  const HostMatrix before =
      in_place ? host_epilogue.residual : FilledMatrix(rows, cols, std::numeric_limits<float>::quiet_NaN());
  const DeviceMatrix dst(*machine.device, before, layout, 12345.0f);
  args.dst = dst.view();
  const DeviceEpilogue epilogue(machine, host_epilogue, dst.view());
  args.epilogue = epilogue.epilogue;
  LaunchAndWait(machine, report, kernel, args);
  const std::string name(kernel.kernel().name());
  if (layout.padding > 0)
    report.CheckTrue(name, "floats around dst are untouched", dst.OutsideUntouched(*machine.device));
  return dst.Download(*machine.device);
}

}  // namespace vicinal::conformance

#endif  // VICINAL_TESTS_CONFORMANCE_CASES_H_
