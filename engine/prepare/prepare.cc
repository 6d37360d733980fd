// SPDX-License-Identifier: Apache-2.0
// Preparation, stage by stage. Invariant: each stage frees what it no longer needs before the next one allocates, so
// that the peak stays below PreparationBytesBound. Cost: O(N + E) and the order's own.
#include "engine/prepare/prepare.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/api/edge_order.h"
#include "engine/graph/edge_features.h"
#include "engine/graph/parallel_csr.h"
#include "engine/graph/validate.h"
#include "engine/prepare/choose_order.h"
#include "engine/prepare/stages.h"

namespace vicinal {
namespace {

std::optional<TensorView> ViewOf(const std::optional<HostTensor>& tensor) {
  return tensor ? std::optional<TensorView>(tensor->view()) : std::nullopt;
}

// Edges out of their tensors, each id and weight checked; their features stay in their tensor, checked.
StatusOr<EdgeList> Assemble(GraphSource* source, ThreadPool* pool) {
  auto edges = AssembleEdges(source->node_count, source->edge_index.view(), ViewOf(source->edge_weight), pool);
  std::string().swap(source->edge_index.bytes);  // assigning an empty string would keep the memory
  source->edge_weight.reset();
  if (edges.ok() && source->edge_attr) {
    VICINAL_RETURN_IF_ERROR(CheckEdgeFeatures(source->edge_attr->view(), edges->num_edges(), pool).status());
  }
  return edges;
}

FeatureTensors FeaturesOf(const GraphSource& source) {
  return {ViewOf(source.x),        ViewOf(source.x_indptr), ViewOf(source.x_indices),
          ViewOf(source.x_values), source.feature_count,    source.source_digest};
}

// Features on their way to the device: dense ones checked, but still in their tensor; sparse ones assembled.
struct Features {
  std::optional<HostTensor> owned;  // the tensor's bytes, of an upload that gave them away
  bool given = false;               // so are the bytes that `dense` views
  std::optional<TensorView> dense;  // [N, F], a view of `owned` or of the caller's
  std::optional<HostFeatures> sparse;
};

StatusOr<Features> Check(const FeatureTensors& tensors, int64_t nodes) {
  Features features;
  if (tensors.dense) {
    VICINAL_RETURN_IF_ERROR(CheckDenseFeatures(tensors, nodes, "").status());
    features.dense = tensors.dense;
  } else {
    VICINAL_ASSIGN_OR_RETURN(features.sparse, AssembleFeatures(tensors, nodes, ""));
  }
  return features;
}

// The features that came along, checked against the graph; none is fine.
StatusOr<std::optional<Features>> Validate(GraphSource* source) {
  if (!source->x && !source->x_indptr && !source->x_indices && !source->x_values) return std::optional<Features>();
  VICINAL_ASSIGN_OR_RETURN(Features features, Check(FeaturesOf(*source), source->node_count));
  if (features.dense) {
    features.owned = std::move(source->x);
    features.dense = features.owned->view();
  }
  source->x.reset();
  source->x_indptr.reset();
  source->x_indices.reset();
  source->x_values.reset();
  return std::optional<Features>(std::move(features));
}

// By value: the edges are freed as soon as the CSR is built. `sent`: as BuildCsrByTarget's.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
StatusOr<Csr> MakeCsr(EdgeList edges, ThreadPool* pool, std::vector<EdgeId>* sent) {
  return BuildCsrByTarget(edges, pool, sent);
}

// Chooses the order and applies it; `csr` and `sent` are then in execution order.
StatusOr<ChosenOrder> Renumber(OrderKind requested, const ChooseOptions& options, Csr* csr, std::vector<EdgeId>* sent) {
  VICINAL_ASSIGN_OR_RETURN(ChosenOrder order, ChooseOrder(requested, *csr, options));
  if (order.permutation.is_identity()) return order;
  *csr = RenumberCsr(*csr, order.permutation.new_of_old(), options.pool, sent);
  return order;
}

double SecondsOf(std::string_view stage, const std::vector<StageTime>& times) {
  const auto time = std::find_if(times.begin(), times.end(), [&](const StageTime& t) { return t.stage == stage; });
  return time != times.end() ? time->seconds : 0.0;
}

// After how many requests renumbering has saved the time that it took; empty where it was not measured.
std::string PaysOff(const ChosenOrder& order, double seconds) {
  if (order.saved_seconds <= 0.0) return "";
  const double sums = std::max(1.0, std::ceil(seconds / order.saved_seconds));
  return absl::StrFormat(
      "; renumbering took %.3f s and pays off after %.0f such sums over all nodes, %.0f requests of a model with two",
      seconds, sums, std::ceil(sums / 2.0));
}

// The features of edges in execution order, out of their tensor, and that order. By value: the tensor is freed as soon
// as that is done.
void OrderFeaturesOfEdges(std::optional<HostTensor> edge_attr, std::vector<EdgeId> sent, ThreadPool* pool,
                          PreparedGraph::Parts* parts) {
  if (edge_attr) {
    parts->edge_feature_width = edge_attr->shape[1];
    parts->edge_attr = OrderEdgeFeatures(edge_attr->view(), sent, pool);
  }
  parts->edge_order = std::move(sent);
}

// Communities with their nodes in execution order.
Communities Renumbered(Communities communities, const Permutation& permutation) {
  std::vector<NodeId> of_node(communities.of_node.size());
  for (size_t v = 0; v < of_node.size(); ++v)
    of_node[v] = communities.of_node[permutation.ToOld(static_cast<NodeId>(v))];
  communities.of_node = std::move(of_node);
  return communities;
}

// The borders between communities in execution order; empty if the order does not keep them together.
std::vector<int64_t> BlocksOf(const Communities& communities) {
  std::vector<int64_t> blocks = {0};
  const int64_t nodes = static_cast<int64_t>(communities.of_node.size());
  for (int64_t v = 1; v <= nodes; ++v) {
    if (v < nodes && communities.of_node[v] == communities.of_node[v - 1]) continue;
    if (static_cast<int64_t>(blocks.size()) > communities.count) return {};
    blocks.push_back(v);
  }
  return blocks;
}

struct Profiled {
  GraphProfile profile;
  std::vector<int64_t> blocks;  // as PreparedGraph::Parts has them
};

// Degrees and the like are the same in every numbering; only locality is not, and that of the client's ids was taken
// before.
StatusOr<Profiled> Profile(const Csr& csr, const ChooseOptions& choose, ChosenOrder* order) {
  ProfileOptions options;
  options.caches = choose.caches;
  options.pool = choose.pool;
  Profiled profiled = {ProfileStructure(csr, options), {}};
  GraphProfile& profile = profiled.profile;
  profile.before = profile.after = order->before;
  if (order->kind == OrderKind::kMetis) profiled.blocks = std::move(order->metis_borders);
  std::optional<Communities> communities = std::exchange(order->communities, std::nullopt);
  if (communities) {
    communities = Renumbered(*std::move(communities), order->permutation);
    profile.communities = ProfileCommunities(csr, *communities, choose.pool);
    if (order->kind == OrderKind::kCommunity) profiled.blocks = BlocksOf(*communities);
    options.community_of = communities->of_node;
  }
  if (!order->permutation.is_identity()) profile.after = ProfileLocality(csr, options);
  return profiled;
}

// Rows in execution order onto the device.
StatusOr<std::shared_ptr<const FeatureMatrix>> UploadFeatures(Features features, const Permutation& permutation,
                                                              Device& device) {
  const std::vector<NodeId> as_sent;
  const std::vector<NodeId>& new_of_old = permutation.is_identity() ? as_sent : permutation.new_of_old();
  if (features.dense) {
    // Where they lie now: a short text moves with its owner.
    const TensorView x = features.owned ? features.owned->view() : *features.dense;
    const bool take = (features.owned || features.given) && device.kind() == DeviceKind::kCpu;
    return FeatureMatrix::FillDense(x.shape[0], x.shape[1], device, [&](float* rows) {
      (take ? TakeRows : WriteRows)(x, new_of_old, rows);
      return OkStatus();
    });
  }
  if (!new_of_old.empty()) features.sparse = PermuteRows(*features.sparse, new_of_old);
  return FeatureMatrix::Upload(*features.sparse, device);
}

StatusOr<std::shared_ptr<const FeatureMatrix>> Publish(std::optional<Features> features, const Permutation& permutation,
                                                       Device& device) {
  if (!features) return std::shared_ptr<const FeatureMatrix>();
  return UploadFeatures(*std::move(features), permutation, device);
}

}  // namespace

StatusOr<PreparedUpload> PrepareGraph(GraphSource source, int64_t version, const PrepareContext& context) {
  internal::Stages stages(context);
  VICINAL_ASSIGN_OR_RETURN(EdgeList edges,
                           stages.Run("assemble", [&] { return Assemble(&source, context.choose.pool); }));
  VICINAL_ASSIGN_OR_RETURN(auto features, stages.Run("validate", [&] { return Validate(&source); }));
  std::vector<EdgeId> edges_sent;  // the edge of each entry of `csr`
  std::vector<EdgeId>* const sent = source.edge_attr || source.keep_edge_order ? &edges_sent : nullptr;
  VICINAL_ASSIGN_OR_RETURN(Csr csr,
                           stages.Run("csr", [&] { return MakeCsr(std::move(edges), context.choose.pool, sent); }));
  VICINAL_ASSIGN_OR_RETURN(ChosenOrder order,
                           stages.Run("renumber", [&] { return Renumber(source.order, context.choose, &csr, sent); }));
  VICINAL_ASSIGN_OR_RETURN(Profiled profiled,
                           stages.Run("profile", [&] { return Profile(csr, context.choose, &order); }));
  PreparedGraph::Parts parts;
  VICINAL_ASSIGN_OR_RETURN(auto matrix, stages.Run("publish", [&] {
    OrderFeaturesOfEdges(std::exchange(source.edge_attr, std::nullopt), std::exchange(edges_sent, {}),
                         context.choose.pool, &parts);
    return Publish(std::move(features), order.permutation, *context.device);
  }));

  parts.name = std::move(source.name);
  parts.version = version;
  parts.ids_digest = std::move(source.ids_digest);
  parts.source_digest = std::move(source.source_digest);
  parts.pinned = source.pinned;
  parts.requested_order = source.order;
  parts.order = order.kind;
  parts.numerics_revision = NumericsRevision(order.kind);
  parts.stages = stages.TakeTimes();
  parts.order_reason = absl::StrCat(order.reason, PaysOff(order, SecondsOf("renumber", parts.stages)));
  parts.csr = std::move(csr);
  parts.permutation = std::move(order.permutation);
  parts.profile = profiled.profile;
  parts.blocks = std::move(profiled.blocks);
  parts.create_time = context.clock->WallNow();
  return PreparedUpload{std::make_shared<PreparedGraph>(std::move(parts), context.device), std::move(matrix)};
}

StatusOr<std::shared_ptr<const FeatureMatrix>> PrepareFeatures(const FeatureTensors& tensors,
                                                               const PreparedGraph& graph, Device& device) {
  VICINAL_ASSIGN_OR_RETURN(Features features, Check(tensors, graph.num_nodes()));
  return UploadFeatures(std::move(features), graph.parts().permutation, device);
}

StatusOr<std::shared_ptr<const EdgeMatrix>> PrepareEdgeFeatures(const EdgeFeatureTensors& tensors,
                                                                const PreparedGraph& graph, Device& device,
                                                                ThreadPool* pool) {
  if (!graph.has_edge_order()) return EdgeOrderMissing(graph.parts().name);
  VICINAL_ASSIGN_OR_RETURN(const int64_t cols, CheckEdgeFeatures(tensors.edge_attr, graph.num_edges(), pool));
  auto ordered =
      std::make_shared<const std::vector<float>>(OrderEdgeFeatures(tensors.edge_attr, graph.parts().edge_order, pool));
  return EdgeMatrix::Make(graph.parts().csr, std::move(ordered), cols, device);
}

StatusOr<std::shared_ptr<const FeatureMatrix>> TakeFeatures(const FeatureTensors& tensors, const PreparedGraph& graph,
                                                            Device& device) {
  VICINAL_ASSIGN_OR_RETURN(Features features, Check(tensors, graph.num_nodes()));
  features.given = true;
  return UploadFeatures(std::move(features), graph.parts().permutation, device);
}

}  // namespace vicinal
