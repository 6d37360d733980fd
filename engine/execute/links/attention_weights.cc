// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/links/attention_weights.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "engine/graph/adjacency.h"

namespace vicinal {
namespace {

constexpr EdgeId kAddedLoop = -1;

// An in-edge: its source by the client's id, its place in the graph's CSR or kAddedLoop.
using InEdge = std::pair<int64_t, EdgeId>;

// Edges between two looks at whether the answer is still wanted: a node may have millions.
constexpr int64_t kEdgesUnasked = 1024;

// What a thread needs for one target.
struct Scratch {
  std::vector<InEdge> edges;
  std::vector<double> scores;  // [edges, K]
  std::vector<float> loop;     // features of the added loop [A]
  std::vector<double> term;    // f_ij [K * C]
};

class EdgeWeigher {
 public:
  explicit EdgeWeigher(const AttentionJob& job)
      : job_(job),
        score_(job.query->attention->score),
        step_(job.query->attention->step),
        parts_(job.graph->parts()),
        heads_(step_.heads),
        width_(step_.head_width),
        edge_attr_(job.edges != nullptr ? *job.edges->host() : parts_.edge_attr),
        // A graph without edges may have no features.
        has_features_((job.edges != nullptr ? job.edges->cols() : job.graph->edge_feature_width()) ==
                      step_.edge_width) {
    if (score_ == AttentionScore::kOfStep && step_.kind == AttentionKind::kGat && step_.edge_width > 0)
      FoldEdgeWeight();
  }

  int64_t target(int64_t i) const { return job_.ids == nullptr ? i : job_.query->nodes[static_cast<size_t>(i)]; }
  int64_t num_targets() const {
    return job_.ids == nullptr ? job_.graph->num_nodes() : static_cast<int64_t>(job_.query->nodes.size());
  }
  int64_t EdgesOf(int64_t target) const {
    return EdgesOfRow(parts_.csr, RowOfNode(parts_.permutation, target), step_.adjacency.loops);
  }

  // The edges of `target`, to rows `first` and following of the job's results. Ends early if `threads` is to stop.
  void Weigh(int64_t target, int64_t first, const ThreadPool& threads, Scratch* scratch) const {
    ListEdges(target, scratch);
    const auto count = static_cast<int64_t>(scratch->edges.size());
    scratch->scores.resize(static_cast<size_t>(count * heads_));
    for (int64_t e = 0; e < count; ++e) {
      if (e % kEdgesUnasked == kEdgesUnasked - 1 && threads.ShouldStop()) return;
      const InEdge& edge = scratch->edges[static_cast<size_t>(e)];
      job_.links[2 * (first + e)] = edge.first;
      job_.links[2 * (first + e) + 1] = target;
      Score(target, edge, scratch, scratch->scores.data() + e * heads_);
    }
    if (score_ == AttentionScore::kTanh) {
      std::copy(scratch->scores.begin(), scratch->scores.end(), job_.weights + first * heads_);
    } else {
      Softmax(scratch->scores, count, job_.weights + first * heads_);
    }
  }

 private:
  // att_edge . (W e) = (att_edge W) e, per head.
  void FoldEdgeWeight() {
    const int64_t features = step_.edge_width;
    folded_.assign(static_cast<size_t>(heads_ * features), 0.0);
    for (int64_t column = 0; column < heads_ * width_; ++column) {
      const double att = step_.att_edge->values[static_cast<size_t>(column)];
      for (int64_t a = 0; a < features; ++a) {
        folded_[static_cast<size_t>(column / width_ * features + a)] +=
            att * static_cast<double>(step_.edge_weight->values[static_cast<size_t>(column * features + a)]);
      }
    }
  }

  void ListEdges(int64_t target, Scratch* scratch) const {
    const bool replace = step_.adjacency.loops != SelfLoops::kAsSent;
    const auto row = static_cast<size_t>(RowOfNode(parts_.permutation, target));
    scratch->edges.clear();
    for (EdgeId e = parts_.csr.row_ptr[row]; e < parts_.csr.row_ptr[row + 1]; ++e) {
      const NodeId col = parts_.csr.col[static_cast<size_t>(e)];
      const int64_t source = parts_.permutation.is_identity() ? col : parts_.permutation.ToOld(col);
      if (!replace || source != target) scratch->edges.emplace_back(source, e);
    }
    if (replace) {
      FillLoop(scratch);
      scratch->edges.emplace_back(target, kAddedLoop);
    }
    std::sort(scratch->edges.begin(), scratch->edges.end());
  }

  // The features of the added loop: the mean of the listed edges', summed in the graph's order and rounded once, or a
  // constant.
  void FillLoop(Scratch* scratch) const {
    const int64_t features = step_.edge_width;
    scratch->loop.assign(static_cast<size_t>(features), step_.loop_features.mean ? 0.0f : step_.loop_features.value);
    if (!step_.loop_features.mean || !has_features_ || scratch->edges.empty()) return;
    for (int64_t a = 0; a < features; ++a) {
      double sum = 0.0;
      for (const auto& [source, edge] : scratch->edges) sum += edge_attr_[static_cast<size_t>(edge * features + a)];
      scratch->loop[static_cast<size_t>(a)] = static_cast<float>(sum / static_cast<double>(scratch->edges.size()));
    }
  }

  const float* Terms(int64_t node) const {
    if (job_.ids == nullptr) return job_.terms.data + node * job_.terms.stride;
    const auto place = std::lower_bound(job_.ids->begin(), job_.ids->end(), node) - job_.ids->begin();
    return job_.terms.data + place * job_.terms.stride;
  }
  const float* Features(EdgeId edge, const Scratch& scratch) const {
    if (step_.edge_width == 0) return nullptr;
    return edge == kAddedLoop ? scratch.loop.data() : edge_attr_.data() + edge * step_.edge_width;
  }

  // Scores of all heads.
  void Score(int64_t target, const InEdge& edge, Scratch* scratch, double* scores) const {
    const float* const source_terms = Terms(edge.first);
    const float* const target_terms = Terms(target);
    if (score_ == AttentionScore::kTanh) {
      scores[0] = std::tanh(static_cast<double>(source_terms[0]) + target_terms[1]);
      return;
    }
    if (score_ != AttentionScore::kOfStep) return ScoreSuperGat(source_terms, target_terms, scores);
    const float* const features = Features(edge.second, *scratch);
    if (step_.kind == AttentionKind::kGat) return ScoreGat(source_terms, target_terms, features, scores);
    const int64_t columns = heads_ * width_;
    const float* const other = job_.terms.cols > columns ? target_terms + columns : target_terms;
    scratch->term.assign(static_cast<size_t>(columns), 0.0);
    for (int64_t c = 0; features != nullptr && c < columns; ++c) {
      const float* const weight = step_.edge_weight->values.data() + c * step_.edge_width;
      for (int64_t a = 0; a < step_.edge_width; ++a) {
        scratch->term[static_cast<size_t>(c)] += static_cast<double>(weight[a]) * features[a];
      }
    }
    for (int64_t k = 0; k < heads_; ++k) {
      double score = 0.0;
      for (int64_t c = k * width_; c < (k + 1) * width_; ++c) {
        const double source = source_terms[c] + scratch->term[static_cast<size_t>(c)];
        score += step_.kind == AttentionKind::kDot
                     ? source * other[c]
                     : Leaky(source + other[c]) * step_.att_src->values[static_cast<size_t>(c)];
      }
      scores[k] = step_.kind == AttentionKind::kDot ? score / std::sqrt(static_cast<double>(width_)) : score;
    }
  }

  void ScoreSuperGat(const float* source, const float* target, double* scores) const {
    for (int64_t k = 0; k < heads_; ++k) {
      double product = 0.0, sum = 0.0;
      for (int64_t c = k * width_; c < (k + 1) * width_; ++c) {
        product += static_cast<double>(source[c]) * target[c];
        if (score_ == AttentionScore::kSuperGatDot) continue;
        const auto column = static_cast<size_t>(c);
        sum += static_cast<double>(step_.att_src->values[column]) * source[c] +
               static_cast<double>(step_.att_dst->values[column]) * target[c];
      }
      scores[k] = Leaky(score_ == AttentionScore::kSuperGatDot ? product / std::sqrt(static_cast<double>(width_))
                                                               : sum / (1.0 + std::exp(-product)));
    }
  }

  void ScoreGat(const float* source, const float* target, const float* features, double* scores) const {
    for (int64_t k = 0; k < heads_; ++k) {
      double score = 0.0;
      for (int64_t c = k * width_; c < (k + 1) * width_; ++c) {
        const auto column = static_cast<size_t>(c);
        score += static_cast<double>(step_.att_src->values[column]) * source[c] +
                 static_cast<double>(step_.att_dst->values[column]) * target[c];
      }
      for (int64_t a = 0; features != nullptr && a < step_.edge_width; ++a) {
        score += folded_[static_cast<size_t>(k * step_.edge_width + a)] * features[a];
      }
      scores[k] = Leaky(score);
    }
  }

  double Leaky(double value) const { return value > 0.0 ? value : value * step_.negative_slope; }

  void Softmax(const std::vector<double>& scores, int64_t count, float* weights) const {
    for (int64_t k = 0; k < heads_; ++k) {
      const auto score = [&](int64_t e) { return scores[static_cast<size_t>(e * heads_ + k)]; };
      double largest = -std::numeric_limits<double>::infinity(), sum = 0.0;
      for (int64_t e = 0; e < count; ++e) largest = std::max(largest, score(e));
      for (int64_t e = 0; e < count; ++e) sum += std::exp(score(e) - largest);
      for (int64_t e = 0; e < count; ++e) {
        weights[e * heads_ + k] = static_cast<float>(std::exp(score(e) - largest) / sum);
      }
    }
  }

  const AttentionJob& job_;
  const AttentionScore score_;
  const AttentionStep& step_;
  const PreparedGraph::Parts& parts_;
  const int64_t heads_, width_;
  const std::vector<float>& edge_attr_;
  const bool has_features_;
  std::vector<double> folded_;  // kGat: att_edge W [K, A]
};

}  // namespace

int64_t EdgesOfRow(const Csr& csr, int64_t row, SelfLoops loops) {
  const int64_t sent = csr.row_ptr[static_cast<size_t>(row) + 1] - csr.row_ptr[static_cast<size_t>(row)];
  if (loops == SelfLoops::kAsSent) return sent;
  const LoopRange range = LoopsOf(csr.view(), row);
  return sent - (range.end - range.begin) + 1;
}

int64_t AttentionScratchBytes(const QueuedRequest& request, int num_threads) {
  const PreparedGraph::Parts& parts = request.graph->parts();
  const AttentionStep& step = request.links->attention->step;
  int64_t most = 0;  // edges of a target
  const auto look = [&](int64_t row) { most = std::max(most, EdgesOfRow(parts.csr, row, step.adjacency.loops)); };
  const int64_t nodes = request.graph->num_nodes();
  for (int64_t row = 0; request.nodes.all && row < nodes; ++row) look(row);
  for (const int64_t node : request.links->nodes) look(RowOfNode(parts.permutation, node));
  const int64_t targets = request.nodes.all ? nodes : static_cast<int64_t>(request.links->nodes.size());
  const int64_t busy = std::min<int64_t>(num_threads, targets);
  const auto of_edge = static_cast<int64_t>(sizeof(InEdge) + static_cast<size_t>(step.heads) * sizeof(double));
  return (targets + 1) * static_cast<int64_t>(sizeof(int64_t)) + busy * most * of_edge;
}

Status WeighEdges(const AttentionJob& job, ThreadPool* threads, const StopCheck& stop) {
  const EdgeWeigher weigher(job);
  const int64_t targets = weigher.num_targets();
  std::vector<int64_t> first(static_cast<size_t>(targets) + 1, 0);
  for (int64_t i = 0; i < targets; ++i) {
    first[static_cast<size_t>(i) + 1] = first[static_cast<size_t>(i)] + weigher.EdgesOf(weigher.target(i));
  }
  constexpr int64_t kBlock = 64;  // targets per task
  std::vector<Scratch> scratch(static_cast<size_t>(threads->num_threads()));
  Status wanted;
  const std::function<bool()> unwanted = [&] { return !(wanted = stop()).ok(); };
  const ThreadPool::StopScope loops(threads, unwanted);
  threads->ParallelFor((targets + kBlock - 1) / kBlock, [&](int64_t block, int thread) {
    for (int64_t i = block * kBlock; i < std::min(targets, (block + 1) * kBlock); ++i) {
      weigher.Weigh(weigher.target(i), first[static_cast<size_t>(i)], *threads, &scratch[static_cast<size_t>(thread)]);
    }
  });
  return loops.stopped() ? wanted : OkStatus();
}

}  // namespace vicinal
