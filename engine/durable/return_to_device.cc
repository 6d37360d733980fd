// SPDX-License-Identifier: Apache-2.0
// Graphs that have left the device come back to it, from their copies on the host.
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/out_of_memory.h"
#include "engine/durable/graph_loader.h"
#include "engine/durable/load_level.h"

namespace vicinal::durable {

Status GraphLoader::Return(const std::string& name, int64_t version, HostCopy& copy, bool evict) {
  const auto begin = std::chrono::steady_clock::now();
  StatusOr<std::vector<FeatureSet>> sets = OrOutOfMemory([&] { return ReturnNow(copy, evict); });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  parts_.stats->GraphReturned(sets.ok() ? "loaded" : "failed", seconds.count());
  if (!sets.ok()) {
    copy.graph()->LeaveDevice();  // nobody uses it: it does not serve
    return Annotate(sets.status(), absl::StrCat("graph '", name, "' could not be copied to the device"));
  }
  if (!parts_.graphs->FinishLoad(name, version, copy.graph(), *std::move(sets))) {
    copy.graph()->LeaveDevice();
    return OkStatus();
  }
  parts_.logger->Log(LoadLevel(evict), "graph returned to the device",
                     {{"graph", name}, {"version", absl::StrCat(version)}, {"seconds", absl::StrCat(seconds.count())}});
  parts_.on_load();
  return OkStatus();
}

// With what plans will need of it, so that no request waits for that on the thread that serves all.
StatusOr<std::vector<FeatureSet>> GraphLoader::ReturnNow(HostCopy& copy, bool evict) {
  VICINAL_ASSIGN_OR_RETURN(std::vector<FeatureSet> sets, copy.ReturnTo(*parts_.device));
  const PreparedGraph& graph = *copy.graph();
  ReserveOptions options;
  options.evict = evict;
  StatusOr<Reservation> memory = parts_.budget->Reserve(Account::kPreparing, graph.returning_bytes(),
                                                        absl::StrCat("graph '", graph.parts().name, "'"), options);
  if (!memory.ok()) return sets;  // plans derive what they need, and tell what is missing
  const Status returned = graph.ReturnToDevice();
  graph.SettleReservation(&*memory);
  VICINAL_RETURN_IF_ERROR(returned);
  std::jthread layouts = RestoreLayouts(graph, evict);
  if (layouts.joinable()) layouts.join();
  return sets;
}

}  // namespace vicinal::durable
