// SPDX-License-Identifier: Apache-2.0
// Prints tuning records as text.
#ifndef VICINAL_CLIENT_CPP_CLI_DESCRIBE_TUNING_H_
#define VICINAL_CLIENT_CPP_CLI_DESCRIBE_TUNING_H_

#include <ostream>
#include <vector>

#include "vicinal/v1/tuning.pb.h"

namespace vicinal::client::cli {

// A table with a row per record; with `candidates` followed by the candidates and the unsupported kernels of each.
void PrintTuning(const std::vector<v1::TuningRecord>& records, bool candidates, std::ostream& out);

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_DESCRIBE_TUNING_H_
