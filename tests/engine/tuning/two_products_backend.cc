// SPDX-License-Identifier: Apache-2.0
// A backend with a second kernel of products, which adds in another order than the first, without a GPU: for tests of
// the choice between them.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "engine/kernels/backend.h"
#include "engine/kernels/cpu/reference.h"
#include "tests/engine/plan/own_memory_backend.h"

namespace vicinal::testing {
namespace {

// Adds the products of even inputs, those of odd inputs, and then both sums. A row's bits depend on the row alone.
class PairedProducts final : public DenseUpdateKernel {
 public:
  std::string_view name() const override { return "paired"; }
  DeviceKind device() const override { return DeviceKind::kCuda; }
  DeclaredOrder declared_order() const override { return {"paired_inputs", 1}; }
  Refusal WhyUnsupported(const DenseUpdateProblem& problem) const override {
    return problem.precision == ProductPrecision::kFloat32 ? Refusal() : "only float32 products";
  }
  Refusal WhyNotTried(const DenseUpdateProblem& problem) const override {
    constexpr int64_t kRowsToTry = 1000;
    return problem.rows >= kRowsToTry ? Refusal() : absl::StrCat("not tried below ", kRowsToTry, " rows");
  }
  size_t PackedBytes(int64_t out_width, int64_t in_width) const override {
    return static_cast<size_t>(out_width * in_width) * sizeof(float);
  }
  void Pack(ConstMatrixView weight, void* packed) const override {
    for (int64_t h = 0; h < weight.rows; ++h)
      std::copy_n(weight.row(h), weight.cols, static_cast<float*>(packed) + h * weight.cols);
  }
  Status Run(DeviceContext& context, const DenseUpdateArgs& args, void*) const override {
    auto& there = static_cast<OwnMemoryContext&>(context);
    VICINAL_CHECK(IsThere(there.memory(), args) && there.memory().Holds(args.weight));
    const GuardedMemory::Opened opened(there.memory());
    const int64_t inputs = args.problem.in_width;
    for (int64_t i = 0; i < args.dst.rows; ++i) {
      for (int64_t h = 0; h < args.dst.cols; ++h) {
        const float* const weight = static_cast<const float*>(args.weight) + h * inputs;
        float sums[2] = {0.0f, 0.0f};
        for (int64_t f = 0; f < inputs; ++f) sums[f % 2] += args.src.row(i)[f] * weight[f];
        args.dst.row(i)[h] = internal::ReferenceEpilogue(args.epilogue, sums[0] + sums[1], i, h);
      }
    }
    return OkStatus();
  }
};

const BackendTable kTable = BackendWithProduct<PairedProducts>("two products");

}  // namespace
}  // namespace vicinal::testing

extern "C" const vicinal::BackendTable* vicinal_backend() { return &vicinal::testing::kTable; }
