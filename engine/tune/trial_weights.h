// SPDX-License-Identifier: Apache-2.0
// The weights of a trial's runs, of the pattern's values: those of a product, and the parameters of a program, packed
// as a kernel wants them. On the trial's device.
#ifndef VICINAL_ENGINE_TUNE_TRIAL_WEIGHTS_H_
#define VICINAL_ENGINE_TUNE_TRIAL_WEIGHTS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/kernels/expression_form.h"
#include "engine/kernels/kernel.h"
#include "engine/tune/program_work.h"
#include "engine/tune/trial.h"
#include "engine/tune/trial_arguments.h"

namespace vicinal::internal {

// Owns what it packed.
class TrialWeights {
 public:
  using ProgramParameters = std::shared_ptr<const std::vector<const void*>>;  // ExpressionArgs::parameters

  explicit TrialWeights(const Pattern& pattern) : pattern_(pattern) {}

  template <class K>
  StatusOr<const void*> Pack(Device* device, const K& kernel, int64_t out_width, int64_t in_width) {
    const std::vector<float> values = Values(out_width * in_width);
    const ConstMatrixView weight = {values.data(), out_width, in_width, in_width};
    const size_t bytes = kernel.PackedBytes(out_width, in_width);
    constexpr size_t kAlignment = 64;  // that Pack requires
    size_t room = bytes + kAlignment;
    std::vector<char> host(room);
    void* packed = host.data();
    VICINAL_CHECK(std::align(kAlignment, bytes, packed, room) != nullptr);
    kernel.Pack(weight, packed);
    return Keep(device, packed, bytes);
  }

  StatusOr<ProgramParameters> Parameters(const TrialInput& input, const ExpressionKernel& kernel,
                                         const ExpressionProblem& problem, const KernelConfig& config) {
    std::vector<const void*> made;
    for (const ProgramSizes::Parameter& parameter : SizesOf(*input.program).parameters) {
      StatusOr<const void*> kept = parameter.is_matrix ? Pack(input.device, kernel, parameter.rows, parameter.cols)
                                                       : Keep(input.device, Values(parameter.cols));
      VICINAL_RETURN_IF_ERROR(kept.status());
      made.push_back(*kept);
    }
    ExpressionArgs args;
    args.problem = problem;
    args.config = config;
    const auto copy = [&](const std::vector<float>& bytes) { return Keep(input.device, bytes); };
    VICINAL_RETURN_IF_ERROR(SetExpressionParameters(kernel, std::move(made), copy, &args));
    return std::move(args.parameters);
  }

  // Of Parameters.
  static int64_t ParameterBytes(const EdgeProgram& program, const ExpressionKernel& kernel,
                                const ExpressionProblem& problem, const KernelConfig& config) {
    size_t bytes = 0;
    const ProgramSizes sizes = SizesOf(program);
    for (const ProgramSizes::Parameter& parameter : sizes.parameters) {
      bytes += parameter.is_matrix ? kernel.PackedBytes(parameter.rows, parameter.cols)
                                   : static_cast<size_t>(parameter.cols) * sizeof(float);
    }
    if (const auto* const maker = dynamic_cast<const ExpressionFormMaker*>(&kernel); maker != nullptr) {
      ExpressionArgs args;
      args.problem = problem;
      args.config = config;
      const std::vector<const void*> none(sizes.parameters.size(), nullptr);
      bytes += maker->MakeForm(args, none)->bytes().size() * sizeof(float);
    }
    return static_cast<int64_t>(bytes);
  }

 private:
  std::vector<float> Values(int64_t count) const {
    std::vector<float> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) values[i] = pattern_.data()[i % Pattern::kCount];
    return values;
  }

  StatusOr<const void*> Keep(Device* device, const std::vector<float>& values) {
    return Keep(device, values.data(), values.size() * sizeof(float));
  }
  StatusOr<const void*> Keep(Device* device, const void* data, size_t bytes) {
    VICINAL_ASSIGN_OR_RETURN(Buffer buffer, device->Allocate(bytes));
    VICINAL_RETURN_IF_ERROR(device->CopyFromHost(buffer.data(), data, bytes));
    buffers_.push_back(std::move(buffer));
    return static_cast<const void*>(buffers_.back().as<char>());
  }

  const Pattern& pattern_;
  std::vector<Buffer> buffers_;
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_TUNE_TRIAL_WEIGHTS_H_
