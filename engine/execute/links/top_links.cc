// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/links/top_links.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "engine/prepare/counted_features.h"

namespace vicinal {
namespace {

// Floats of a batch's packed rows: half of a second cache of a mebibyte.
constexpr int64_t kPackedFloats = int64_t{1} << 17;
// Bytes of a batch's lists, of all threads.
constexpr int64_t kListBytes = int64_t{32} << 20;
// A thread takes so much at a time: a cancelled request stops within that.
constexpr double kTaskNanoseconds = 1'000'000;
// Edges between two questions of whether to go on.
constexpr int64_t kEdgesOfPiece = int64_t{1} << 22;

int32_t ClientId(const Permutation& permutation, int64_t row) {
  return permutation.is_identity() ? static_cast<int32_t>(row) : permutation.ToOld(static_cast<NodeId>(row));
}
int64_t RowOf(const Permutation& permutation, int64_t id) {
  return permutation.is_identity() ? id : permutation.ToNew(static_cast<NodeId>(id));
}

// Partners that each node must not get, by the client's ids. Nodes that repeat share a list.
class Exclusions {
 public:
  // Errors: the budget's, and those of `stop`.
  static StatusOr<Exclusions> Of(const LinkQuery& query, const PreparedGraph& graph, MemoryBudget* budget,
                                 const StopCheck& stop) {
    Exclusions made;
    constexpr int64_t kId = sizeof(int32_t), kOfQuery = 2 * sizeof(int32_t) + 2 * sizeof(int64_t);
    const int64_t lists = static_cast<int64_t>(query.nodes.size()) * kOfQuery;
    VICINAL_ASSIGN_OR_RETURN(made.lists_memory_,
                             ReserveLarge(graph.num_nodes() * kId + lists, "ranking links", budget));
    made.Number(query, graph);
    VICINAL_RETURN_IF_ERROR(made.Count(query, graph, stop));
    VICINAL_ASSIGN_OR_RETURN(made.memory_, ReserveLarge(made.ptr_.back() * kId, "ranking links", budget));
    VICINAL_RETURN_IF_ERROR(made.Fill(query, graph, stop));
    std::vector<int32_t>().swap(made.number_of_row_);
    made.lists_memory_.Shrink(lists);
    return made;
  }

  // Of query number `q`.
  ExcludedIds operator[](int64_t q) const {
    const auto list = static_cast<size_t>(list_of_query_[static_cast<size_t>(q)]);
    return {ids_.data() + ptr_[list], ids_.data() + ptr_[list] + sizes_[list]};
  }

 private:
  // Gives distinct nodes numbers, in the order in which they come.
  void Number(const LinkQuery& query, const PreparedGraph& graph) {
    number_of_row_.assign(static_cast<size_t>(graph.num_nodes()), -1);
    for (const int64_t node : query.nodes) {
      int32_t& number = number_of_row_[static_cast<size_t>(RowOf(graph.parts().permutation, node))];
      if (number < 0) {
        number = static_cast<int32_t>(distinct_.size());
        distinct_.push_back(static_cast<int32_t>(node));
      }
      list_of_query_.push_back(number);
    }
  }

  // Calls take(number, partner's row) for each link of the nodes that is to be excluded.
  template <class Take>
  Status ForLinks(const LinkQuery& query, const PreparedGraph& graph, const StopCheck& stop, const Take& take) const {
    const Csr& csr = graph.parts().csr;
    int64_t next_stop = 0;
    for (int64_t row = 0; query.exclude_links && row < csr.num_rows; ++row) {
      const int64_t begin = csr.row_ptr[static_cast<size_t>(row)], end = csr.row_ptr[static_cast<size_t>(row) + 1];
      if (begin >= next_stop) {
        VICINAL_RETURN_IF_ERROR(stop());
        next_stop = begin + kEdgesOfPiece;
      }
      const int32_t of_target = number_of_row_[static_cast<size_t>(row)];
      if (query.nodes_are_targets && of_target < 0) continue;
      for (int64_t e = begin; e < end; ++e) {
        const int64_t source = csr.col[static_cast<size_t>(e)];
        if (source == row) continue;  // the node itself is another question
        const int32_t of_source = number_of_row_[static_cast<size_t>(source)];
        if (query.nodes_are_targets) {
          take(of_target, source);
        } else if (of_source >= 0) {
          take(of_source, row);
        }
      }
    }
    return OkStatus();
  }

  Status Count(const LinkQuery& query, const PreparedGraph& graph, const StopCheck& stop) {
    ptr_.assign(distinct_.size() + 1, 0);
    VICINAL_RETURN_IF_ERROR(
        ForLinks(query, graph, stop, [this](int32_t number, int64_t) { ++ptr_[static_cast<size_t>(number) + 1]; }));
    const int64_t self = query.include_self ? 0 : 1;
    for (size_t i = 0; i < distinct_.size(); ++i) ptr_[i + 1] += ptr_[i] + self;
    return OkStatus();
  }

  Status Fill(const LinkQuery& query, const PreparedGraph& graph, const StopCheck& stop) {
    const Permutation& permutation = graph.parts().permutation;
    ids_.resize(static_cast<size_t>(ptr_.back()));
    sizes_.assign(distinct_.size(), 0);
    const auto add = [this](int32_t number, int32_t id) {
      const auto list = static_cast<size_t>(number);
      ids_[static_cast<size_t>(ptr_[list] + sizes_[list]++)] = id;
    };
    VICINAL_RETURN_IF_ERROR(
        ForLinks(query, graph, stop, [&](int32_t number, int64_t row) { add(number, ClientId(permutation, row)); }));
    for (size_t i = 0; i < distinct_.size(); ++i) {
      if (!query.include_self) add(static_cast<int32_t>(i), distinct_[i]);
      std::sort(ids_.begin() + ptr_[i], ids_.begin() + ptr_[i + 1]);
    }
    return OkStatus();
  }

  Reservation lists_memory_, memory_;   // of all but ids_, of ids_; first: the lists go before them
  std::vector<int32_t> number_of_row_;  // [N] of the graph, -1: not asked for
  std::vector<int32_t> distinct_;       // by the client's ids
  std::vector<int32_t> list_of_query_;  // [Q]
  std::vector<int64_t> ptr_, sizes_;    // of each list in ids_
  std::vector<int32_t> ids_;
};

// The row whose product with a partner's row is the score, but for the partner's length (cosine) and a bias.
void MakeQueryRow(const LinkQuery& query, const float* node, int64_t width, float* out) {
  const Decoder& decoder = *query.decoder;
  std::copy_n(node, width, out);
  if (decoder.kind == DecoderKind::kCosine) {
    float inverse = 0;
    InverseLengths({node, 1, width, width}, 0, 1, &inverse);
    for (int64_t c = 0; c < width; ++c) out[c] *= inverse;
  } else if (decoder.kind == DecoderKind::kDistMult) {
    const float* const vector = decoder.weight->values.data() + query.relation * width;
    for (int64_t c = 0; c < width; ++c) out[c] *= vector[c];
  } else if (decoder.kind == DecoderKind::kBilinear) {
    const float* const weight = decoder.weight->values.data() + query.relation * width * width;
    std::fill_n(out, width, 0.0f);
    for (int64_t a = 0; a < width; ++a) {
      for (int64_t b = 0; b < width; ++b) {
        // sum_ab u_a W[a, b] v_b: of a source row the sum over a, of a target row the sum over b.
        if (query.nodes_are_targets) {
          out[a] += weight[a * width + b] * node[b];
        } else {
          out[b] += weight[a * width + b] * node[a];
        }
      }
    }
  }
}

float BiasOf(const LinkQuery& query) {
  const WeightRef& bias = query.decoder->bias;
  return bias != nullptr ? bias->values[static_cast<size_t>(query.relation)] : 0.0f;
}

// `list` [k], sorted, to the results of query `q`.
void WriteList(const TopLinksJob& job, int64_t q, const TopEntry* list, float bias) {
  const int64_t k = job.query->k;
  for (int64_t i = 0; i < k; ++i) {
    const bool there = list[i].id != TopEntry().id;
    job.scores[q * k + i] = there ? list[i].score + bias : TopEntry().score;
    job.links[q * k + i] = there ? list[i].id : -1;
  }
}

// Calls body(begin, end, thread) for all partners, in pieces of `piece`.
template <class Body>
Status ForPartners(int64_t count, int64_t piece, ThreadPool* pool, const StopCheck& stop, const Body& body) {
  Status wanted;
  const std::function<bool()> unwanted = [&] { return !(wanted = stop()).ok(); };
  const ThreadPool::StopScope loops(pool, unwanted);
  pool->ParallelFor((count + piece - 1) / piece,
                    [&](int64_t task, int thread) { body(task * piece, std::min(count, (task + 1) * piece), thread); });
  return loops.stopped() ? wanted : OkStatus();
}

// The nodes of one batch, and the lists of all threads.
class Batch {
 public:
  Batch(const TopLinksJob& job, const Exclusions& exclusions, const float* lengths, int64_t size, ThreadPool* pool)
      : job_(job), exclusions_(exclusions), pool_(pool), k_(job.query->k), size_(size), excluded_(size) {
    const auto threads = static_cast<size_t>(pool->num_threads());
    packed_.resize(static_cast<size_t>(PaddedQueries(size) * job.partners.cols));
    rows_.resize(static_cast<size_t>(size * job.partners.cols));
    lists_.resize(threads * static_cast<size_t>(size * k_));
    thresholds_.resize(threads * static_cast<size_t>(PaddedQueries(size)));
    products_.candidates = job.partners;
    products_.ids = job.ids;
    products_.scale = lengths;
    products_.queries = packed_.data();
    products_.k = k_;
    products_.excluded = excluded_.data();
  }

  // Queries [first, first + count), count <= size.
  Status Run(int64_t first, int64_t count, const StopCheck& stop) {
    const int64_t width = job_.partners.cols;
    for (int64_t q = 0; q < count; ++q) {
      const float* const node = job_.rows.row(job_.node_rows[first + q]);
      MakeQueryRow(*job_.query, node, width, rows_.data() + q * width);
      excluded_[static_cast<size_t>(q)] = exclusions_[first + q];
    }
    PackQueries({rows_.data(), count, width, width}, packed_.data());
    products_.num_queries = count;
    for (int thread = 0; thread < pool_->num_threads(); ++thread)
      StartTop(products_, ListsOf(thread), ThresholdsOf(thread));
    const auto piece = static_cast<int64_t>(kTaskNanoseconds / OfferNanoseconds(products_)) + 1;
    VICINAL_RETURN_IF_ERROR(
        ForPartners(job_.partners.rows, piece, pool_, stop, [&](int64_t begin, int64_t end, int thread) {
          OfferProducts(products_, begin, end, ListsOf(thread), ThresholdsOf(thread));
        }));
    Finish(first, count);
    return OkStatus();
  }

 private:
  TopEntry* ListsOf(int thread) { return lists_.data() + thread * size_ * k_; }
  float* ThresholdsOf(int thread) { return thresholds_.data() + thread * PaddedQueries(size_); }

  void Finish(int64_t first, int64_t count) {
    const float bias = BiasOf(*job_.query);
    for (int64_t q = 0; q < count; ++q) {
      TopEntry* const list = ListsOf(0) + q * k_;
      for (int thread = 1; thread < pool_->num_threads(); ++thread) {
        const TopEntry* const other = ListsOf(thread) + q * k_;
        for (int64_t i = 0; i < k_; ++i) OfferTop(other[i], list, k_);
      }
      SortTop(list, k_);
      WriteList(job_, first + q, list, bias);
    }
  }

  const TopLinksJob& job_;
  const Exclusions& exclusions_;
  ThreadPool* const pool_;
  const int64_t k_, size_;
  std::vector<ExcludedIds> excluded_;
  std::vector<float> packed_, rows_, thresholds_;
  std::vector<TopEntry> lists_;
  TopProductsJob products_;
};

}  // namespace

Status TopByProducts(const TopLinksJob& job, ThreadPool* pool, MemoryBudget* budget, const StopCheck& stop) {
  const LinkQuery& query = *job.query;
  const int64_t width = job.partners.cols, threads = pool->num_threads();
  const int64_t by_lists = kListBytes / (threads * query.k * static_cast<int64_t>(sizeof(TopEntry)));
  const int64_t by_rows = std::max(kPackedFloats / width, kQueriesOfPanel);
  const int64_t size =
      std::clamp<int64_t>(std::min(by_rows, by_lists) / kQueriesOfPanel * kQueriesOfPanel, 1, query.rows);
  const bool cosine = query.decoder->kind == DecoderKind::kCosine;
  const int64_t bytes = size * (threads * query.k * static_cast<int64_t>(sizeof(TopEntry)) + 8 * width) +
                        (cosine ? job.partners.rows * 4 : 0);
  VICINAL_ASSIGN_OR_RETURN(const Reservation memory, ReserveLarge(bytes, "ranking links", budget));
  VICINAL_ASSIGN_OR_RETURN(const Exclusions exclusions, Exclusions::Of(query, *job.graph, budget, stop));
  std::vector<float> lengths(cosine ? static_cast<size_t>(job.partners.rows) : 0);
  if (cosine) {
    VICINAL_RETURN_IF_ERROR(ForPartners(job.partners.rows, 4096, pool, stop, [&](int64_t begin, int64_t end, int) {
      InverseLengths(job.partners, begin, end, lengths.data());
    }));
  }
  Batch batch(job, exclusions, cosine ? lengths.data() : nullptr, size, pool);
  for (int64_t first = 0; first < query.rows; first += size) {
    VICINAL_RETURN_IF_ERROR(batch.Run(first, std::min(size, query.rows - first), stop));
  }
  return OkStatus();
}

Status TopByPairs(const TopLinksJob& job, LinkScorer* scorer, const std::vector<int64_t>& partner_rows,
                  MemoryBudget* budget, const StopCheck& stop) {
  const LinkQuery& query = *job.query;
  VICINAL_ASSIGN_OR_RETURN(const Exclusions exclusions, Exclusions::Of(query, *job.graph, budget, stop));
  constexpr int64_t kBlock = LinkScorer::kBlockPairs;
  std::vector<int64_t> node(static_cast<size_t>(kBlock));
  std::vector<float> scores(static_cast<size_t>(kBlock));
  std::vector<TopEntry> list(static_cast<size_t>(query.k));
  for (int64_t q = 0; q < query.rows; ++q) {
    ClearTop(list.data(), query.k);
    std::fill(node.begin(), node.end(), job.node_rows[q]);
    const ExcludedIds excluded = exclusions[q];
    for (int64_t first = 0; first < query.num_partners; first += kBlock) {
      VICINAL_RETURN_IF_ERROR(stop());
      const int64_t count = std::min(kBlock, query.num_partners - first);
      const int64_t* const partner = partner_rows.data() + first;
      VICINAL_RETURN_IF_ERROR(
          scorer->ScorePairs(job.rows, query.relation, query.nodes_are_targets ? partner : node.data(),
                             query.nodes_are_targets ? node.data() : partner, count, scores.data()));
      for (int64_t i = 0; i < count; ++i) {
        const int32_t id = job.ids != nullptr ? job.ids[first + i] : static_cast<int32_t>(first + i);
        const TopEntry entry = {scores[static_cast<size_t>(i)], id};
        if (entry.Better(list[0]) && !excluded.Contains(id)) {
          ReplaceWorst(entry, list.data(), query.k);
        }
      }
    }
    SortTop(list.data(), query.k);
    WriteList(job, q, list.data(), 0.0f);
  }
  return OkStatus();
}

}  // namespace vicinal
