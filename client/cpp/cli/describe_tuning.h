// SPDX-License-Identifier: Apache-2.0
// Prints tuning records as text.
#ifndef VICINAL_CLIENT_CPP_CLI_DESCRIBE_TUNING_H_
#define VICINAL_CLIENT_CPP_CLI_DESCRIBE_TUNING_H_

#include <ostream>
#include <string>
#include <vector>

#include "vicinal/v1/tuning.pb.h"

namespace vicinal::client::cli {

using KernelParameters = google::protobuf::RepeatedPtrField<v1::KernelParameter>;

// "simd_rows tile_columns=64"; parameters that are left to the kernel are not shown.
std::string SettingText(const std::string& kernel, const KernelParameters& parameters);

// A table with a row per record; with `candidates` followed by the candidates and the unsupported kernels of each.
void PrintTuning(const std::vector<v1::TuningRecord>& records, bool candidates, std::ostream& out);

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_DESCRIBE_TUNING_H_
