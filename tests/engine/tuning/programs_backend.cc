// SPDX-License-Identifier: Apache-2.0
// A backend whose kernel of message functions interprets until it was compiled, without a GPU or a compiler: for tests
// of tuning it. All settings compute the same.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/kernels/backend.h"
#include "engine/kernels/expression_form.h"
#include "tests/engine/plan/own_memory_backend.h"

namespace vicinal::testing {
namespace {

// Compiled when it was awaited twice, and from then on.
class Code {
 public:
  bool Await() { return ++awaited_ > 1; }
  bool compiled() const { return awaited_ > 1; }

 private:
  std::atomic<int> awaited_{0};
};

class Programs final : public KernelThere<ExpressionKernel>, public ExpressionFormMaker {
 public:
  using KernelThere<ExpressionKernel>::KernelThere;

  std::string_view name() const override { return "programs"; }
  DeclaredOrder declared_order() const override { return {"expression_rows", 1, true}; }
  std::vector<std::string_view> ParameterNames() const override { return {"edge_tile", "compile"}; }
  std::vector<KernelConfig> Candidates(const ExpressionProblem&) const override { return {{}, {{16}}, {{32}}}; }
  size_t ScratchBytes(const ExpressionProblem& problem, const KernelConfig&, int num_threads) const override {
    return KernelThere<ExpressionKernel>::ScratchBytes(problem, {}, num_threads);
  }
  size_t PackedBytes(int64_t out_width, int64_t in_width) const override {
    return kernel_.PackedBytes(out_width, in_width);
  }
  void Pack(ConstMatrixView weight, void* packed) const override { kernel_.Pack(weight, packed); }
  Status Run(DeviceContext& context, const ExpressionArgs& args, void* scratch) const override {
    const auto& formed = static_cast<const FormedParameters&>(*args.parameters);
    VICINAL_CHECK(static_cast<OwnMemoryContext&>(context).memory().Holds(formed.bytes));
    ExpressionArgs plain = args;
    plain.config = {};
    return KernelThere<ExpressionKernel>::Run(context, plain, scratch);
  }
  std::shared_ptr<const ExpressionForm> MakeForm(const ExpressionArgs& args,
                                                 const std::vector<const void*>&) const override {
    return std::make_shared<Form>(CodeOf(args.config));
  }
  std::unique_ptr<ExpressionCompilation> Compile(const ExpressionProblem&, const KernelConfig& config) const override {
    return std::make_unique<Compilation>(CodeOf(config));
  }

 private:
  class Form final : public ExpressionForm {
   public:
    explicit Form(Code& code) : code_(code) { bytes_ = {1.0f, 2.0f}; }
    std::string Describe() const override { return compiled() ? "compiled" : "interpreted"; }
    bool compiled() const override { return code_.compiled(); }

   private:
    Code& code_;
  };
  class Compilation final : public ExpressionCompilation {
   public:
    explicit Compilation(Code& code) : code_(code) {}
    bool Await(std::chrono::milliseconds) const override { return code_.Await(); }
    std::string WhyInterpreted() const override { return {}; }

   private:
    Code& code_;
  };

  // Of the size of tile alone, whatever the program.
  Code& CodeOf(const KernelConfig& config) const { return codes_[config.values[0] / 16]; }

  mutable Code codes_[3];
};

void RegisterKernels(KernelRegistry& there, Device* device) {
  RegisterKernelsThere(there, device);
  static const KernelRegistry* const cpu = [] {
    auto* const registry = new KernelRegistry;  // as RegisterKernelsThere
    RegisterCpuKernels(*registry);
    return registry;
  }();
  there.expression.Add(std::make_unique<Programs>(cpu->expression.kernels().front()->kernel()));
}

const BackendTable kTable = {kBackendInterfaceVersion, BackendBuildId(),     "programs",
                             &OneOwnMemoryDevice,      &OpenOwnMemoryDevice, &RegisterKernels};

}  // namespace
}  // namespace vicinal::testing

extern "C" const vicinal::BackendTable* vicinal_backend() { return &vicinal::testing::kTable; }
