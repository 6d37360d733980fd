// SPDX-License-Identifier: Apache-2.0
// The requests of clients about tuning: measure a graph's kernels, force one, reset the results, or report them.
#ifndef VICINAL_ENGINE_TUNING_GRAPH_TUNER_H_
#define VICINAL_ENGINE_TUNING_GRAPH_TUNER_H_

#include <string>
#include <vector>

#include "engine/api/requests.h"
#include "engine/api/resources.h"
#include "engine/base/status.h"
#include "engine/store/graph_store.h"
#include "engine/tuning/tuning_service.h"

namespace vicinal {

// Thread-safe.
class GraphTuner {
 public:
  // Works with the parts of `service`. Both must outlive the object.
  GraphTuner(const GraphStore* graphs, TuningService* service) : graphs_(*graphs), service_(*service) {}

  // As Engine::TuneGraph and Engine::GetTuning.
  StatusOr<TuningReport> Tune(const TuneGraphRequest& request) const;
  StatusOr<TuningReport> Report(const std::string& graph) const;
  StatusOr<std::string> Export(const std::string& graph) const;

 private:
  // What does not depend on the graph.
  static Status CheckTogether(const TuneGraphRequest& request);
  // Applies the decisions in `text`; returns their works.
  StatusOr<std::vector<TuningWork>> Import(const PreparedGraph& graph, const std::string& text) const;
  // Records `forced` for `works` of `graph`.
  Status Force(const PreparedGraph& graph, const std::vector<TuningWork>& works,
               const ForcedConfiguration& forced) const;

  const GraphStore& graphs_;
  TuningService& service_;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_TUNING_GRAPH_TUNER_H_
