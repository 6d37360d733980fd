// SPDX-License-Identifier: Apache-2.0
// Dense products whose factors may be rounded. The oracle rounds them as it is promised (to nearest; ties to even, in
// TF32 away from zero) and multiplies in double precision, so that what is left are float32 sums.
#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "tests/conformance/cases.h"
#include "tests/conformance/graphs.h"

namespace vicinal::conformance {
namespace {

// The tensor cores cut what they add to a sum, so a long one is a little less exact than float32's.
constexpr double kRelativeL2 = 1e-5;

// Of numbers that are normal in float16.
float Rounded(float x, ProductPrecision precision) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  switch (precision) {
    case ProductPrecision::kFloat32:
      return x;
    case ProductPrecision::kTf32:
      return std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu);
    case ProductPrecision::kBfloat16:
      return std::bit_cast<float>((bits + 0x7fffu + (bits >> 16 & 1u)) & ~0xffffu);
    case ProductPrecision::kFloat16:
      return std::bit_cast<float>((bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu);
  }
  return x;
}

HostMatrix RoundedAll(HostMatrix matrix, ProductPrecision precision) {
  for (float& x : matrix.values) x = Rounded(x, precision);
  return matrix;
}

class Products {
 public:
  Products(Machine& machine, Report& report, const RegisteredKernel<DenseUpdateKernel>& kernel,
           ProductPrecision precision)
      : machine_(machine),
        report_(report),
        kernel_(kernel),
        precision_(precision),
        name_(std::string(kernel.kernel().name()) + " " + std::string(ToString(precision))) {}

  void Check(int64_t rows, int64_t inputs, int64_t outputs) {
    if (!report_.IsMine()) return;
    const HostMatrix src = RandomMatrix(rows, inputs, 51), weight = RandomMatrix(outputs, inputs, 52);
    const std::vector<double> want = Product(RoundedAll(src, precision_), RoundedAll(weight, precision_));
    const std::string what =
        name_ + " " + std::to_string(rows) + " x " + std::to_string(inputs) + " x " + std::to_string(outputs);
    const MatrixLayout in_fours = {0, (4 - inputs % 4) % 4};
    for (const HostEpilogue& epilogue : {HostEpilogue(), Epilogue(rows, outputs)}) {
      const HostMatrix as_packs = Run(src, weight, in_fours, epilogue);
      for (const MatrixLayout& layout : {in_fours, MatrixLayout{1, 3}}) {
        const HostMatrix got = Run(src, weight, layout, epilogue);
        // However they lie.
        report_.CheckSame("dense_update layouts", what, got, as_packs);
        report_.Check("dense_update " + name_, what, got, Run(src, weight, layout, epilogue),
                      WithEpilogue(want, outputs, epilogue), kRelativeL2);
        if (!epilogue.residual.values.empty()) continue;
        // However many rows there are, a row's bits are the same.
        const int64_t few = std::min<int64_t>(3, rows);
        report_.CheckSame("dense_update few rows", what, Run(Last(src, few), weight, layout, epilogue), Last(got, few));
      }
    }
  }

 private:
  static HostEpilogue Epilogue(int64_t rows, int64_t cols) {
    HostEpilogue epilogue;
    epilogue.scale = 0.5f;
    epilogue.row_scale = RandomVector(rows, 53);
    epilogue.bias = RandomVector(cols, 54);
    epilogue.residual = RandomMatrix(rows, cols, 55);
    epilogue.residual_scale = -0.75f;
    epilogue.activation = {ActivationKind::kLeakyRelu, 0.3f};
    return epilogue;
  }
  static HostMatrix Last(const HostMatrix& m, int64_t rows) {
    return {rows, m.cols, std::vector<float>(m.values.end() - rows * m.cols, m.values.end())};
  }

  HostMatrix Run(const HostMatrix& src, const HostMatrix& weight, const MatrixLayout& layout,
                 const HostEpilogue& epilogue) {
    const DeviceMatrix device_src(*machine_.device, src, layout, 1e30f);
    std::vector<char> packed(kernel_.kernel().PackedBytes(weight.rows, weight.cols));
    std::vector<float> copy = weight.values;
    kernel_.kernel().Pack({copy.data(), weight.rows, weight.cols, weight.cols}, packed.data());
    const DeviceArray<char> on_device(*machine_.device, packed);
    DenseUpdateArgs args;
    args.problem = {src.rows, src.cols, weight.rows, precision_};
    args.src = device_src.view();
    args.weight = on_device.data();
    return RunOnce(machine_, report_, kernel_, args, epilogue, layout, src.rows, weight.rows);
  }

  Machine& machine_;
  Report& report_;
  const RegisteredKernel<DenseUpdateKernel>& kernel_;
  const ProductPrecision precision_;
  const std::string name_;
};

}  // namespace

void RunProductPrecisionCases(Machine& machine, Report& report) {
  const int64_t shapes[][3] = {{1, 1, 1},     {5, 3, 2},        {127, 16, 16},  {300, 602, 41},  {77, 500, 65},
                               {10, 4000, 7}, {2708, 1433, 16}, {5001, 65, 29}, {9001, 100, 64}, {40000, 33, 130}};
  for (const ProductPrecision precision :
       {ProductPrecision::kTf32, ProductPrecision::kBfloat16, ProductPrecision::kFloat16}) {
    for (const auto& kernel : machine.registry.dense_update.kernels()) {
      // Those that do not round are tested elsewhere; some machines have none that do.
      const DenseUpdateKernel& k = kernel->kernel();
      if (k.WhyUnsupported({1, 1, 1}).empty() || !k.WhyUnsupported({1, 1, 1, precision}).empty()) continue;
      Products products(machine, report, *kernel, precision);
      for (const auto& [rows, inputs, outputs] : shapes) products.Check(rows, inputs, outputs);
    }
  }
}

}  // namespace vicinal::conformance
