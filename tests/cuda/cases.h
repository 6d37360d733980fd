// SPDX-License-Identifier: Apache-2.0
// The cases of each operation: every kernel of the backend that is registered for it.
#ifndef VICINAL_TESTS_CUDA_CASES_H_
#define VICINAL_TESTS_CUDA_CASES_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/cuda/device_run.h"
#include "tests/cuda/oracle.h"
#include "tests/cuda/report.h"

namespace vicinal::cuda_test {

void RunDeviceCases(Gpu& gpu, Report& report);
void RunOverlapCases(Gpu& gpu, Report& report);
void RunAggregateCases(Gpu& gpu, Report& report);
void RunAggregateProductCases(Gpu& gpu, Report& report);
void RunAttentionCases(Gpu& gpu, Report& report);
void RunMessageCases(Gpu& gpu, Report& report);
void RunEdgeScoreCases(Gpu& gpu, Report& report);
void RunUpdateCases(Gpu& gpu, Report& report);
void RunProductPrecisionCases(Gpu& gpu, Report& report);
void RunRowwiseCases(Gpu& gpu, Report& report);
void RunFieldCases(Gpu& gpu, Report& report);

// The product that plans take unless a request says otherwise.
inline const RegisteredKernel<DenseUpdateKernel>& ExactProduct(const Gpu& gpu) {
  const auto& kernels = gpu.registry.dense_update.kernels();
  return **std::find_if(kernels.begin(), kernels.end(), [](const auto& kernel) {
    return kernel->kernel().WhyUnsupported({1, 1, 1}).empty();
  });
}

// W as `kernel` packs it, on the device.
template <class K>
DeviceArray<char> Packed(Gpu& gpu, const K& kernel, const HostMatrix& weight) {
  std::vector<char> packed(kernel.PackedBytes(weight.rows, weight.cols));
  std::vector<float> copy = weight.values;
  kernel.Pack({copy.data(), weight.rows, weight.cols, weight.cols}, packed.data());
  return DeviceArray<char>(*gpu.device, packed);
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

  DeviceEpilogue(Gpu& gpu, const HostEpilogue& host, const MatrixView& residual)
      : bias(*gpu.device, host.bias.empty() ? std::vector<float>(1, 0.0f) : host.bias),
        row_scale(*gpu.device, host.row_scale.empty() ? std::vector<float>(1, 0.0f) : host.row_scale) {
    epilogue.scale = host.scale;
    if (!host.row_scale.empty()) epilogue.row_scale = row_scale.data();
    if (!host.bias.empty()) epilogue.bias = bias.data();
    if (!host.residual.values.empty()) epilogue.residual = residual;
    epilogue.residual_scale = host.residual_scale;
    epilogue.activation = host.activation;
  }
};

// Runs a kernel once into a poisoned dst (or one that holds the residual, and is it) and returns what it holds.
// `problem` is already in `args`.
template <class K>
HostMatrix RunOnce(Gpu& gpu, Report& report, const RegisteredKernel<K>& kernel, typename K::Args args,
                   const HostEpilogue& host_epilogue, const MatrixLayout& layout, int64_t rows, int64_t cols) {
  const bool in_place = !host_epilogue.residual.values.empty();
  const HostMatrix before =
      in_place ? host_epilogue.residual : FilledMatrix(rows, cols, std::numeric_limits<float>::quiet_NaN());
  const DeviceMatrix dst(*gpu.device, before, layout, 12345.0f);
  args.dst = dst.view();
  const DeviceEpilogue epilogue(gpu, host_epilogue, dst.view());
  args.epilogue = epilogue.epilogue;
  const DeviceArray<float> scratch = Scratch(*gpu.device, kernel.kernel().ScratchBytes(args.problem, args.config, 1));
  const std::string name(kernel.kernel().name());
  MustBeOk(kernel.Launch(*gpu.context, args, scratch.data()), name);
  MustBeOk(gpu.context->Synchronize(), name);
  if (layout.padding > 0) report.CheckTrue(name, "floats around dst are untouched", dst.OutsideUntouched(*gpu.device));
  return dst.Download(*gpu.device);
}

}  // namespace vicinal::cuda_test

#endif  // VICINAL_TESTS_CUDA_CASES_H_
