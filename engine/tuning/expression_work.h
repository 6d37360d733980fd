// SPDX-License-Identifier: Apache-2.0
// What tuning a message function takes beside what all work takes: its program, which a model must have brought, and on
// a GPU the code that it is compiled to. Requests never wait for that: it is awaited on the tuning thread, without a
// lease, before a trial takes memory.
#ifndef VICINAL_ENGINE_TUNING_EXPRESSION_WORK_H_
#define VICINAL_ENGINE_TUNING_EXPRESSION_WORK_H_

#include <string>

#include "engine/base/status.h"
#include "engine/kernels/expression_form.h"
#include "engine/tune/trial.h"
#include "engine/tuning/leased_runs.h"

namespace vicinal {

// FAILED_PRECONDITION (PROGRAM_UNKNOWN): nothing can be measured, so the former choice stays.
Status NoSuchProgram();

// About the seconds of a run (RoughProgramSeconds). REQUIRES: input.program.
double PredictProgramSeconds(const TrialInput& input);

// The code of a trial's candidates.
class ProgramCode {
 public:
  // TrialInput::await_code. A program that cannot be compiled is no error: the interpreter serves, and is measured.
  Status Await(const ExpressionCompilation& compilation, const LeasedRuns& runs);
  // For the note of a record: how many of so many candidates were interpreted, and why. Empty: none was.
  std::string NoteOnInterpreted(int candidates) const;

 private:
  int interpreted_ = 0;
  std::string why_;  // of the last one
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNING_EXPRESSION_WORK_H_
