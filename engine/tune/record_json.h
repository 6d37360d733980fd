// SPDX-License-Identifier: Apache-2.0
// Tuning records as JSON, for the state directory and for export. Parsing looks no kernel up: that a record means the
// same in this build is another question (kept_record.h, Usable).
#ifndef VICINAL_ENGINE_TUNE_RECORD_JSON_H_
#define VICINAL_ENGINE_TUNE_RECORD_JSON_H_

#include <nlohmann/json.hpp>
#include <string>

#include "engine/base/status.h"
#include "engine/graph/adjacency.h"
#include "engine/tune/kept_record.h"

namespace vicinal {

// An adjacency, as records name it. ParseAdjacency: errors as ParseKeptRecord's.
nlohmann::json ToJson(const AdjacencySpec& adjacency);
StatusOr<AdjacencySpec> ParseAdjacency(const nlohmann::json& json, const std::string& where);

nlohmann::json ToJson(const KeptRecord& kept);
// INVALID_ARGUMENT (BAD_TUNING_RECORD) naming the member below `where`: missing, of another type, out of its range, or
// in contradiction to others. Unknown members are ignored. Kernels are not looked up: candidates have parameters, but
// no configuration yet.
StatusOr<KeptRecord> ParseKeptRecord(const nlohmann::json& json, const std::string& where);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNE_RECORD_JSON_H_
