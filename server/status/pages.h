// SPDX-License-Identifier: Apache-2.0
// The pages as HTML, made of what the engine and the metrics say at that moment. They load no graph and change nothing.
#ifndef VICINAL_SERVER_STATUS_PAGES_H_
#define VICINAL_SERVER_STATUS_PAGES_H_

#include <functional>
#include <string>
#include <vector>

#include "engine/api/engine.h"
#include "engine/base/status.h"
#include "server/metrics/metrics.h"

namespace vicinal::server {

// Where the pages get their facts. All must outlive whoever uses them.
struct StatusSource {
  Engine* engine = nullptr;
  std::function<StateSnapshot()> snapshot;
  std::function<std::vector<MethodLatency>()> latencies;
  std::function<CompiledKernelCounts()> compiled_kernels;
  std::string version;
};

// `sign_out`: with a button that ends the session.
std::string OverviewPage(const StatusSource& source, bool sign_out);
// NOT_FOUND: no such graph.
StatusOr<std::string> GraphPage(const StatusSource& source, const std::string& name, bool sign_out);
// `message` (escaped here) is shown above the form; may be empty.
std::string LoginPage(const std::string& message);
std::string MessagePage(const std::string& title, const std::string& message);
const char* StyleSheet();

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_STATUS_PAGES_H_
