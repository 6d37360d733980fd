// SPDX-License-Identifier: Apache-2.0
#include "engine/tuning/expression_work.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/tune/program_work.h"

namespace vicinal {

Status NoSuchProgram() {
  return FailedPrecondition("PROGRAM_UNKNOWN",
                            "not measured: no model has run this program on the graph since the server started; run "
                            "one that has it, then tune again");
}

double PredictProgramSeconds(const TrialInput& input) {
  const int num_threads = input.device->kind() == DeviceKind::kCpu ? input.shape.num_threads : 0;
  return RoughProgramSeconds(*input.program, input.shape.edges, num_threads);
}

Status ProgramCode::Await(const ExpressionCompilation& compilation, const LeasedRuns& runs) {
  VICINAL_RETURN_IF_ERROR(runs.AwaitCode(compilation));
  std::string why = compilation.WhyInterpreted();
  if (why.empty()) return OkStatus();
  ++interpreted_;
  why_ = std::move(why);
  return OkStatus();
}

std::string ProgramCode::NoteOnInterpreted(int candidates) const {
  if (interpreted_ == 0) return {};
  return absl::StrCat("measured interpreted (", interpreted_, " of ", candidates, " candidates): ", why_);
}

}  // namespace vicinal
