// SPDX-License-Identifier: Apache-2.0
// What a server knows of tuning, as text for people.
#ifndef VICINAL_CLIENT_CPP_CLI_DESCRIBE_TUNING_H_
#define VICINAL_CLIENT_CPP_CLI_DESCRIBE_TUNING_H_

#include <ostream>
#include <vector>

#include "vicinal/v1/tuning.pb.h"

namespace vicinal::client::cli {

// A table with a row for each record; then, with `candidates`, what was tried and what refused for each.
void PrintTuning(const std::vector<v1::TuningRecord>& records, bool candidates, std::ostream& out);

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_DESCRIBE_TUNING_H_
