// SPDX-License-Identifier: Apache-2.0
// Shared state of all passes while a plan is built.
#ifndef VICINAL_ENGINE_PLAN_BUILD_BUILD_CONTEXT_H_
#define VICINAL_ENGINE_PLAN_BUILD_BUILD_CONTEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/plan/plan.h"
#include "engine/plan/rewrite/program.h"

namespace vicinal::internal {

// PreparedGraph::ShapeOf, cached per adjacency.
class AdjacencyShapes {
 public:
  // `graph` must outlive it.
  explicit AdjacencyShapes(const PreparedGraph& graph) : graph_(graph) {}
  AdjacencyShape Of(const AdjacencySpec& spec);

 private:
  const PreparedGraph& graph_;
  std::vector<std::pair<AdjacencySpec, AdjacencyShape>> known_;
};

// Settings of the tuning table whose kernel does not support the adjacency after all: they were measured on some of the
// rows, or forced for an adjacency with other self-loops. The default serves instead.
class UnfitSettings {
 public:
  // Why the setting of `key` cannot be used; null: no reason known.
  const std::string* Find(const TuningKey& key) const;
  // Returns the sentence that Explain shows. `refusal` is the kernel's.
  std::string Add(const TuningKey& key, std::string_view kernel, const Status& refusal);
  size_t size() const { return unfit_.size(); }

 private:
  struct Unfit {
    TuningKey key;
    std::string reason;
  };
  std::vector<Unfit> unfit_;
};

// REQUIRES: the references outlive it.
struct BuildContext {
  BuildContext(const PlanRequest& request, const KernelRegistry& registry, Device& device, const StopCheck& stop);

  int64_t RowsOf(ValueId value) const {
    return program.values[value].per_graph ? num_graphs : request.graph->num_nodes();
  }
  Status CheckStop() const { return stop ? stop() : OkStatus(); }

  const PlanRequest& request;
  const KernelRegistry& registry;
  Device& device;
  const StopCheck& stop;  // may be empty
  const int64_t num_graphs;
  Program program;
  AdjacencyShapes shapes;
  UnfitSettings unfit;
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_PLAN_BUILD_BUILD_CONTEXT_H_
