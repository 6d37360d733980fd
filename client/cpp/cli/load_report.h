// SPDX-License-Identifier: Apache-2.0
// The result of `vicinal load` as text (a table of steps, one of methods, a histogram, errors) and as JSON.
#ifndef VICINAL_CLIENT_CPP_CLI_LOAD_REPORT_H_
#define VICINAL_CLIENT_CPP_CLI_LOAD_REPORT_H_

#include <ostream>

#include "client/cpp/cli/proto_json.h"
#include "client/cpp/load/run.h"

namespace vicinal::client::cli {

void PrintLoad(const load::LoadOptions& options, const load::LoadResult& result, std::ostream& out);

// Times in seconds. {"loop", "seed", ..., "steps": [{"from", "to", "seconds", ..., "latency", "methods"}], "total",
// "errors": [{"error", "count", "message"}]}
Json LoadToJson(const load::LoadOptions& options, const load::LoadResult& result);

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_LOAD_REPORT_H_
