// SPDX-License-Identifier: Apache-2.0
// What waits for the executor, as data that a scheduler can read: requests, and background work.
#ifndef VICINAL_ENGINE_EXECUTE_QUEUED_REQUEST_H_
#define VICINAL_ENGINE_EXECUTE_QUEUED_REQUEST_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/api/requests.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/base/work_limits.h"
#include "engine/device/device.h"
#include "engine/model/model.h"
#include "engine/plan/receptive_field/replaced_rows.h"
#include "engine/prepared/edge_matrix.h"
#include "engine/prepared/prepared_graph.h"

namespace vicinal {

// A stored graph at one version. No name and version 0: the graph came with the request.
struct GraphVersion {
  std::string name;
  int64_t version = 0;

  friend auto operator<=>(const GraphVersion&, const GraphVersion&) = default;
  template <class H>
  friend H AbslHashValue(H hash, const GraphVersion& graph) {
    return H::combine(std::move(hash), graph.name, graph.version);
  }
};

// A stored model at one version. Version 0: the model is being uploaded, and its reference is checked.
struct ModelVersion {
  std::string name;
  int64_t version = 0;

  friend auto operator<=>(const ModelVersion&, const ModelVersion&) = default;
  template <class H>
  friend H AbslHashValue(H hash, const ModelVersion& model) {
    return H::combine(std::move(hash), model.name, model.version);
  }
};

struct KeptAnswers;  // answer_cache.h
struct LinkQuery;    // links/link_query.h

// Requests with equal keys run the same model on the same graph in the same way, so they may share a run. Keys are
// values: they stay comparable after the versions they name are gone.
struct RequestKey {
  GraphVersion graph;
  ModelVersion model;
  ExecutionOptions options = {};
  // Not 0: the graph or the model belongs to this request alone. No other request has the same number, and the plan is
  // not kept.
  uint64_t private_id = 0;

  friend bool operator==(const RequestKey&, const RequestKey&) = default;
  template <class H>
  friend H AbslHashValue(H hash, const RequestKey& key) {
    return H::combine(std::move(hash), key.graph, key.model, key.options, key.private_id);
  }
};

// A number for RequestKey::private_id that this process has not given out before. Thread-safe.
uint64_t NewPrivateId();

// A request with every name resolved and everything checked that can be checked without a plan. The handles keep the
// versions alive until the request is destroyed.
struct QueuedRequest {
  RequestKey key;
  std::shared_ptr<const PreparedGraph> graph;
  std::shared_ptr<const Model> model;
  std::shared_ptr<const FeatureMatrix> features;  // stored, or sent with the request
  std::string feature_set;                        // empty: all features were sent with the request
  int64_t feature_set_version = 0;
  // An edge feature set, with its name and version; null: the graph's own features of edges, or the model reads none.
  std::shared_ptr<const EdgeMatrix> edges;
  std::string edge_feature_set;
  int64_t edge_feature_set_version = 0;
  // Rows that stand for some of `features`; null: none, or `features` has them already. Only on a CPU, where a run over
  // a receptive field reads them in place. Never in a request that shares a run.
  std::shared_ptr<const ReplacedRows> replaced;
  bool brings_features = false;             // all of them, or rows that replace stored ones
  std::string_view incarnation;             // of the engine; it outlives the request
  ValueId output = 0;                       // key.options.output in `model`
  NodeSelection nodes;                      // checked; of a model of graphs: all
  AnswerShape answer;                       // what `done` will get
  std::optional<WantedClasses> classes;     // with top_k within the answer's width
  std::shared_ptr<const LinkQuery> links;   // scores of these are wanted, made of the rows of `nodes`; null: the rows
  std::shared_ptr<const KeptAnswers> kept;  // with `links`: the rows of all nodes; null: they are computed
  Requester requester;
  WorkLimits limits;
  InferenceCallback done;   // called exactly once, if the queue took the request
  MonotonicTime arrival{};  // when the queue took it
};

// Whether the requests may share a run: they want rows of the same output of the same model, computed in the same way,
// on the same graph and stored features of nodes and edges, or on batches of graphs of their own whose features have
// the same form.
bool MayShareRun(const QueuedRequest& a, const QueuedRequest& b);

// What serves `request`. The numerics revision is the graph's: a plan may refine it (Plan::reduction_order). 0 where
// kernels are forced.
ServedBy ServedByOf(const QueuedRequest& request);

// What background work asks while it has the executor. Thread-safe.
class Lease {
 public:
  virtual ~Lease() = default;
  // A request waits, or the executor is draining or stopping: return soon. If this becomes true during a measured run,
  // the request has disturbed the measurement.
  virtual bool ShouldStop() const = 0;
  // The executor is draining or stopping: even work that need not give way to requests returns soon.
  virtual bool Ending() const = 0;
};

// Work that no request waits for, such as tuning. It runs while no request waits, or once it is due, and holds the
// executor through a lease.
struct BackgroundWork {
  std::string_view purpose;  // a literal, such as "tuning"
  // Called exactly once, on the executor's thread: with OK, or with UNAVAILABLE (DRAINING) once the executor drains or
  // stops. Requests that arrive meanwhile wait until it returns. It must therefore be short (one measured run) and ask
  // `lease` between its parts.
  std::function<void(const Status& admitted, DeviceContext& context, const Lease& lease)> run;
  // Work that idle time would never come for under load: from this moment on it is next, before all requests.
  std::optional<MonotonicTime> due = std::nullopt;
  std::optional<RequestKey> of = std::nullopt;  // whose plan it runs; nullopt: it runs no plan of requests
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_QUEUED_REQUEST_H_
