// SPDX-License-Identifier: Apache-2.0
// A device with the CPU's kernels and one more of products, whose preparation takes more memory than any server has.
// Whoever asks that kernel nevertheless what it supports would prepare it there and then, without a reservation: that
// ends the process.
#include <cstdint>
#include <memory>
#include <string_view>

#include "engine/base/check.h"
#include "engine/kernels/backend.h"
#include "tests/engine/plan/own_memory_backend.h"

namespace vicinal::testing {
namespace {

class TooLarge final : public KernelPreparation {
 public:
  int64_t bytes() const override { return int64_t{1} << 50; }
  Part next() const override { return Part::kLoad; }
  Status Load() override { return NotReserved(); }
  Status Run() override { return NotReserved(); }

 private:
  static Status NotReserved() {
    VICINAL_CHECK(false);
    return OkStatus();
  }
};

class UnaffordableProducts final : public DenseUpdateKernel {
 public:
  std::string_view name() const override { return "unaffordable"; }
  DeviceKind device() const override { return DeviceKind::kCuda; }
  DeclaredOrder declared_order() const override { return {"unaffordable", 1}; }
  Refusal WhyNotTried(const DenseUpdateProblem&) const override { return {}; }
  Refusal WhyUnsupported(const DenseUpdateProblem&) const override {
    VICINAL_CHECK(false);
    return {};
  }
  std::unique_ptr<KernelPreparation> Prepare(const DenseUpdateProblem&) const override {
    return std::make_unique<TooLarge>();
  }
  size_t PackedBytes(int64_t, int64_t) const override { return 0; }
  void Pack(ConstMatrixView, void*) const override { VICINAL_CHECK(false); }
  Status Run(DeviceContext&, const DenseUpdateArgs&, void*) const override {
    VICINAL_CHECK(false);
    return OkStatus();
  }
};

const BackendTable kTable = BackendWithProduct<UnaffordableProducts>("unaffordable product");

}  // namespace
}  // namespace vicinal::testing

extern "C" const vicinal::BackendTable* vicinal_backend() { return &vicinal::testing::kTable; }
