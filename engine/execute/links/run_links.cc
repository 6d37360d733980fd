// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/links/run_links.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "engine/device/host_threads.h"
#include "engine/execute/links/attention_weights.h"
#include "engine/execute/links/link_query.h"
#include "engine/execute/links/link_scorer.h"
#include "engine/execute/links/top_links.h"
#include "engine/prepare/counted_features.h"

namespace vicinal {
namespace {

constexpr auto kFloatBytes = static_cast<int64_t>(sizeof(float));
constexpr auto kIdBytes = static_cast<int64_t>(sizeof(int64_t));

LinkScorer ScorerFor(const QueuedRequest& request, const LinkRun& run) {
  return LinkScorer(*request.links->decoder, {run.context, run.registry, run.budget, &request.key.options, run.stop});
}

Status ScorePairs(const QueuedRequest& request, const LinkRows& rows, const LinkRun& run, InferenceResult* result) {
  const LinkQuery& query = *request.links;
  LinkScorer scorer = ScorerFor(request, run);
  // Pairs of one relation share the decoder's weights.
  std::vector<int64_t> order(static_cast<size_t>(query.rows));
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto relation_of = [&query](int64_t pair) {
    return query.relations.empty() ? query.relation : query.relations[static_cast<size_t>(pair)];
  };
  if (!query.relations.empty()) {
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return relation_of(a) < relation_of(b); });
  }
  std::vector<int64_t> sources, targets;
  std::vector<float> scores;
  for (size_t first = 0; first < order.size();) {
    VICINAL_RETURN_IF_ERROR((*run.stop)());
    const int32_t relation = relation_of(order[first]);
    sources.clear(), targets.clear();
    size_t end = first;
    for (; end < order.size() && end - first < static_cast<size_t>(LinkScorer::kBlockPairs) &&
           relation_of(order[end]) == relation;
         ++end) {
      const auto pair = static_cast<size_t>(order[end]);
      sources.push_back(rows.places[static_cast<size_t>(query.sources[pair])]);
      targets.push_back(rows.places[static_cast<size_t>(query.targets[pair])]);
    }
    const auto count = static_cast<int64_t>(end - first);
    scores.resize(static_cast<size_t>(count));
    VICINAL_RETURN_IF_ERROR(
        scorer.ScorePairs(rows.rows, relation, sources.data(), targets.data(), count, scores.data()));
    for (; first < end; ++first) {
      result->values[static_cast<size_t>(order[first])] = scores[first + static_cast<size_t>(count) - end];
    }
  }
  return OkStatus();
}

// Writes the edges by target, then source, of the client's ids, where `scores` has them in the order of the graph.
Status WriteEdges(const PreparedGraph& graph, const std::vector<float>& scores, const StopCheck& stop,
                  InferenceResult* result) {
  const Permutation& permutation = graph.parts().permutation;
  const Csr& csr = graph.parts().csr;
  std::vector<std::pair<int32_t, int64_t>> row;  // source by the client's id, edge
  int64_t next = 0;
  for (int64_t target = 0; target < csr.num_rows; ++target) {
    if (target % 65536 == 0) VICINAL_RETURN_IF_ERROR(stop());
    const int64_t at = permutation.is_identity() ? target : permutation.ToNew(static_cast<NodeId>(target));
    row.clear();
    for (int64_t e = csr.row_ptr[static_cast<size_t>(at)]; e < csr.row_ptr[static_cast<size_t>(at) + 1]; ++e) {
      const NodeId source = csr.col[static_cast<size_t>(e)];
      row.emplace_back(permutation.is_identity() ? source : permutation.ToOld(source), e);
    }
    if (!permutation.is_identity()) std::sort(row.begin(), row.end());
    for (const auto& [source, edge] : row) {
      result->links[static_cast<size_t>(2 * next)] = source;
      result->links[static_cast<size_t>(2 * next + 1)] = target;
      result->values[static_cast<size_t>(next++)] = scores[static_cast<size_t>(edge)];
    }
  }
  return OkStatus();
}

Status ScoreEdges(const QueuedRequest& request, const LinkRows& rows, const LinkRun& run, InferenceResult* result) {
  const PreparedGraph& graph = *request.graph;
  const Permutation& permutation = graph.parts().permutation;
  VICINAL_ASSIGN_OR_RETURN(const std::shared_ptr<const DeviceCsr> adjacency, graph.Adjacency(AdjacencySpec()));
  LinkScorer scorer = ScorerFor(request, run);
  ConstMatrixView in_order = rows.rows;
  if (rows.in_client_order && !permutation.is_identity()) {
    const std::vector<int64_t> index(permutation.old_of_new().begin(), permutation.old_of_new().end());
    VICINAL_ASSIGN_OR_RETURN(in_order, scorer.Gather(rows.rows, index));
  }
  VICINAL_ASSIGN_OR_RETURN(const Reservation memory,
                           ReserveLarge(graph.num_edges() * kFloatBytes, "scoring links", run.budget));
  std::vector<float> scores(static_cast<size_t>(graph.num_edges()));
  Status wanted;
  {
    const std::function<bool()> unwanted = [&] { return !(wanted = (*run.stop)()).ok(); };
    const ThreadPool::StopScope loops(run.context->thread_pool(), unwanted);
    VICINAL_RETURN_IF_ERROR(scorer.ScoreEdges(in_order, request.links->relation, adjacency->view(),
                                              graph.parts().csr.row_ptr.data(), scores.data()));
    if (loops.stopped()) return wanted;
  }
  return WriteEdges(graph, scores, *run.stop, result);
}

// The first `count` rows of `rows.places` in host memory.
StatusOr<std::vector<float>> ToHost(const LinkRows& rows, int64_t count, const LinkRun& run) {
  const int64_t width = rows.rows.cols;
  std::vector<float> host(static_cast<size_t>(count * width));
  constexpr int64_t kPiece = 65536;
  for (int64_t done = 0; done < count; done += kPiece) {
    VICINAL_RETURN_IF_ERROR((*run.stop)());
    const int64_t piece = std::min(kPiece, count - done);
    VICINAL_RETURN_IF_ERROR(
        run.context->CopyRowsToHost(host.data() + done * width, rows.rows, rows.places.data() + done, piece));
  }
  return host;
}

// Client's ids of the partners, in the order of their rows in the job.
std::vector<int32_t> IdsOfPartners(const QueuedRequest& request) {
  const auto count = static_cast<size_t>(request.links->num_partners);
  return {request.nodes.ids.begin(), request.nodes.ids.begin() + static_cast<std::ptrdiff_t>(count)};
}

// The row of each node that is asked for, where that of node id i (of all, or of those named) is places[i].
std::vector<int64_t> RowsOfNodes(const LinkQuery& query, const std::vector<int64_t>& places) {
  std::vector<int64_t> rows(query.nodes.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = places[static_cast<size_t>(query.all_partners ? query.nodes[i] : query.places[i])];
  }
  return rows;
}

Status RankByPairs(const QueuedRequest& request, const LinkRows& rows, const LinkRun& run, TopLinksJob job) {
  const std::vector<int64_t> node_rows = RowsOfNodes(*request.links, rows.places);
  job.rows = rows.rows;
  job.node_rows = node_rows.data();
  std::vector<int32_t> ids;
  if (!request.links->all_partners) {
    ids = IdsOfPartners(request);
    job.ids = ids.data();
  }
  LinkScorer scorer = ScorerFor(request, run);
  return TopByPairs(job, &scorer, rows.places, run.budget, *run.stop);
}

Status RankByProducts(const QueuedRequest& request, const LinkRows& rows, const LinkRun& run, TopLinksJob job) {
  const LinkQuery& query = *request.links;
  const Permutation& permutation = request.graph->parts().permutation;
  const HostThreads threads(*run.context);
  if (query.all_partners && run.context->device().kind() == DeviceKind::kCpu) {
    // In the order of execution: the results are the same in any.
    const std::vector<int64_t> node_rows = RowsOfNodes(query, rows.places);
    job.rows = job.partners = rows.rows;
    job.node_rows = node_rows.data();
    if (!rows.in_client_order && !permutation.is_identity()) job.ids = permutation.old_of_new().data();
    return TopByProducts(job, threads.pool(), run.budget, *run.stop);
  }
  const auto count = static_cast<int64_t>(rows.places.size());
  const int64_t width = rows.rows.cols;
  VICINAL_ASSIGN_OR_RETURN(const Reservation memory,
                           ReserveLarge(count * width * kFloatBytes, "ranking links", run.budget));
  VICINAL_ASSIGN_OR_RETURN(const std::vector<float> host, ToHost(rows, count, run));
  std::vector<int64_t> in_order(static_cast<size_t>(count));
  std::iota(in_order.begin(), in_order.end(), int64_t{0});
  const std::vector<int64_t> node_rows = RowsOfNodes(query, in_order);
  job.rows = {host.data(), count, width, width};
  job.node_rows = node_rows.data();
  job.partners = {host.data(), query.num_partners, width, width};
  std::vector<int32_t> ids;
  if (!query.all_partners) {
    ids = IdsOfPartners(request);
    job.ids = ids.data();
  }
  return TopByProducts(job, threads.pool(), run.budget, *run.stop);
}

Status RankPartners(const QueuedRequest& request, const LinkRows& rows, const LinkRun& run, InferenceResult* result) {
  TopLinksJob job;
  job.query = request.links.get();
  job.graph = request.graph.get();
  job.scores = result->values.data();
  job.links = result->links.data();
  return request.links->decoder->kind == DecoderKind::kMlp ? RankByPairs(request, rows, run, job)
                                                           : RankByProducts(request, rows, run, job);
}

Status WeighAttention(const QueuedRequest& request, const LinkRows& rows, const LinkRun& run, InferenceResult* result) {
  const auto count = static_cast<int64_t>(rows.places.size());
  const HostThreads threads(*run.context);
  const int64_t scratch = AttentionScratchBytes(request, threads.pool()->num_threads());
  VICINAL_ASSIGN_OR_RETURN(const Reservation memory, ReserveLarge(count * rows.rows.cols * kFloatBytes + scratch,
                                                                  "attention weights", run.budget));
  VICINAL_ASSIGN_OR_RETURN(const std::vector<float> host, ToHost(rows, count, run));
  AttentionJob job;
  job.query = request.links.get();
  job.graph = request.graph.get();
  job.edges = request.edges.get();
  job.terms = {host.data(), count, rows.rows.cols, rows.rows.cols};
  job.ids = request.nodes.all ? nullptr : &request.nodes.ids;
  job.links = result->links.data();
  job.weights = result->values.data();
  return WeighEdges(job, threads.pool(), *run.stop);
}

// Ids in the result.
int64_t IdsOf(const LinkQuery& query) {
  switch (query.kind) {
    case LinkQuery::Kind::kPairs:
      return 0;
    case LinkQuery::Kind::kEdges:
    case LinkQuery::Kind::kAttention:
      return 2 * query.rows;
    case LinkQuery::Kind::kPartners:
      break;
  }
  return query.rows * query.width();
}

// As resize, a piece at a time: filling an answer of gigabytes takes seconds, in which its call may end.
template <class T>
Status Grow(int64_t size, const StopCheck& stop, std::vector<T>* values) {
  constexpr int64_t kPiece = int64_t{1} << 18;
  values->reserve(static_cast<size_t>(size));
  for (int64_t filled = 0; filled < size;) {
    VICINAL_RETURN_IF_ERROR(stop());
    filled = std::min(filled + kPiece, size);
    values->resize(static_cast<size_t>(filled));
  }
  return OkStatus();
}

}  // namespace

Status ScoreLinks(const QueuedRequest& request, const LinkRows& rows, const LinkRun& run, InferenceResult* result) {
  const LinkQuery& query = *request.links;
  result->rows = query.rows;
  result->width = query.width();
  const int64_t scores = query.rows * query.width();
  const int64_t ids = IdsOf(query);
  VICINAL_ASSIGN_OR_RETURN(Reservation memory,
                           ReserveLarge(scores * kFloatBytes + ids * kIdBytes, "the answer", run.budget));
  if (memory) result->held = std::make_shared<const Reservation>(std::move(memory));
  VICINAL_RETURN_IF_ERROR(Grow(scores, *run.stop, &result->values));
  VICINAL_RETURN_IF_ERROR(Grow(ids, *run.stop, &result->links));
  if (scores == 0) return OkStatus();
  switch (query.kind) {
    case LinkQuery::Kind::kPairs:
      return ScorePairs(request, rows, run, result);
    case LinkQuery::Kind::kEdges:
      return ScoreEdges(request, rows, run, result);
    case LinkQuery::Kind::kPartners:
      return RankPartners(request, rows, run, result);
    case LinkQuery::Kind::kAttention:
      return WeighAttention(request, rows, run, result);
  }
  return OkStatus();
}

}  // namespace vicinal
