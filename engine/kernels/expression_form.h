// SPDX-License-Identifier: Apache-2.0
// Programs in the form of one kernel. A kernel of the operation expression that reads more on its device than the
// parameters of an EdgeCode implements ExpressionFormMaker; whoever makes its arguments then passes FormedParameters.
// Such a kernel may interpret a program until code for it was compiled; who measures it waits for that first.
#ifndef VICINAL_ENGINE_KERNELS_EXPRESSION_FORM_H_
#define VICINAL_ENGINE_KERNELS_EXPRESSION_FORM_H_

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/kernels/expression.h"

namespace vicinal {

// What launches need of a program on the host, and bytes that the device reads. Immutable.
class ExpressionForm {
 public:
  virtual ~ExpressionForm() = default;
  // A copy of them in the device's memory, 8-byte aligned, belongs to every run. A whole number of floats.
  const std::vector<float>& bytes() const { return bytes_; }
  // What runs it, in words: "compiled in 2.1 s", or why it is interpreted. May change while a kernel is compiled.
  // Empty: there is nothing to tell.
  virtual std::string Describe() const { return {}; }
  // Whether its runs launch code that was compiled for this program alone.
  virtual bool compiled() const { return false; }

 protected:
  std::vector<float> bytes_;
};

// ExpressionArgs::parameters of a kernel that makes forms.
struct FormedParameters final : std::vector<const void*> {
  FormedParameters(std::vector<const void*> parameters, std::shared_ptr<const ExpressionForm> made)
      : std::vector<const void*>(std::move(parameters)), form(std::move(made)) {}

  std::shared_ptr<const ExpressionForm> form;
  const void* bytes = nullptr;  // form->bytes(), in the device's memory
};

// Code that is compiled for a program in the background. While this lives, runs launch it as soon as it is there.
class ExpressionCompilation {
 public:
  virtual ~ExpressionCompilation() = default;
  // Waits at most that long for the end: the code is there, or it never will be. Whether it has ended.
  virtual bool Await(std::chrono::milliseconds at_most) const = 0;
  // After the end: why runs interpret the program. Empty: they launch the code.
  virtual std::string WhyInterpreted() const = 0;
};

// The second base of a kernel.
class ExpressionFormMaker {
 public:
  virtual ~ExpressionFormMaker() = default;
  // For runs with the problem and configuration of `args`. `parameters`: as in ExpressionArgs. Where only bytes are
  // counted, they are null pointers.
  virtual std::shared_ptr<const ExpressionForm> MakeForm(const ExpressionArgs& args,
                                                         const std::vector<const void*>& parameters) const = 0;
  // Begins to compile what runs in that configuration would launch, for a program whose parameters are not there yet.
  // Does not wait. Null: their code is never compiled.
  virtual std::unique_ptr<ExpressionCompilation> Compile(const ExpressionProblem& problem,
                                                         const KernelConfig& config) const {
    (void)problem, (void)config;
    return nullptr;
  }
  // Why runs of the program in that configuration will not have the speed of compiled code: nothing compiles here, or
  // the values of an edge leave no room for a tile of usual size. Empty: they will, as soon as the code is there. Plans
  // decide by it what they leave to this operation, so it depends on neither rows nor edges, and is the same until the
  // process ends. The first call may wait for the compiler to start.
  virtual std::string WhyNotFast(const ExpressionProblem& problem, const KernelConfig& config) const {
    (void)problem, (void)config;
    return "it interprets programs";
  }
};

// Whether `kernel` may compile programs.
template <class KernelT>
bool MakesForms(const KernelT& kernel) {
  return dynamic_cast<const ExpressionFormMaker*>(&kernel) != nullptr;
}

// As ExpressionFormMaker::WhyNotFast; not empty if `kernel` makes no forms.
template <class KernelT>
std::string WhyNotFast(const KernelT& kernel, const ExpressionProblem& problem, const KernelConfig& config) {
  const auto* const maker = dynamic_cast<const ExpressionFormMaker*>(&kernel);
  return maker != nullptr ? maker->WhyNotFast(problem, config) : "it interprets programs";
}

// As ExpressionFormMaker::Compile; null also if `kernel` makes no forms.
template <class KernelT>
std::unique_ptr<ExpressionCompilation> CompileExpression(const KernelT& kernel, const ExpressionProblem& problem,
                                                         const KernelConfig& config) {
  const auto* const maker = dynamic_cast<const ExpressionFormMaker*>(&kernel);
  return maker != nullptr ? maker->Compile(problem, config) : nullptr;
}

// Sets args->parameters for `kernel`, with a form if it makes one. `copy(form.bytes())` returns where they are on the
// device, or an error.
template <class KernelT, class Copy>
Status SetExpressionParameters(const KernelT& kernel, std::vector<const void*> parameters, const Copy& copy,
                               ExpressionArgs* args) {
  const auto* const maker = dynamic_cast<const ExpressionFormMaker*>(&kernel);
  if (maker == nullptr) {
    args->parameters = std::make_shared<const std::vector<const void*>>(std::move(parameters));
    return OkStatus();
  }
  std::shared_ptr<const ExpressionForm> form = maker->MakeForm(*args, parameters);
  auto formed = std::make_shared<FormedParameters>(std::move(parameters), form);
  VICINAL_ASSIGN_OR_RETURN(formed->bytes, copy(form->bytes()));
  args->parameters = std::move(formed);
  return OkStatus();
}

// What `kernel` made of the program of `args`; null: it makes no forms.
template <class KernelT>
const ExpressionForm* FormOf(const KernelT& kernel, const ExpressionArgs& args) {
  return MakesForms(kernel) ? static_cast<const FormedParameters&>(*args.parameters).form.get() : nullptr;
}

}  // namespace vicinal

#endif  // VICINAL_ENGINE_KERNELS_EXPRESSION_FORM_H_
