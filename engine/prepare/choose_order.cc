// SPDX-License-Identifier: Apache-2.0
// The rule of `auto`. Candidates are compared through their permutations, without renumbering the graph: first by the
// reuse estimate; promising ones are then measured.
#include "engine/prepare/choose_order.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/prepare/stages.h"
#include "engine/profile/reuse.h"

namespace vicinal {
namespace {

// Of a gather that hits the last cache, or none.
constexpr double kLlcCost = 2.0;
constexpr double kMemoryCost = 4.0;

constexpr size_t kMeasuredWidthAt =
    std::find(kReuseWidths.begin(), kReuseWidths.end(), kMeasuredWidth) - kReuseWidths.begin();
static_assert(kMeasuredWidthAt < kReuseWidths.size());

struct Candidate {
  OrderKind kind = OrderKind::kNone;
  Permutation permutation;
  double estimated = 0.0;         // RelativeGatherCost
  std::optional<OrderTime> time;  // once measured

  // Time or, without a measurement, estimated cost, relative to the order as sent.
  double RelativeTo(const Candidate& as_sent) const { return time ? time->relative : estimated / as_sent.estimated; }
};

std::string Name(const Candidate& candidate) {
  return candidate.kind == OrderKind::kNone ? "as sent" : std::string(ToString(candidate.kind));
}

std::string Percent(double share) { return absl::StrFormat("%.1f %%", 100.0 * share); }

// Minimum cost of a gather: each source missed once, everything else in the second-level cache.
double BestGatherCost(const Csr& graph, const CacheSizes& caches) {
  std::vector<char> is_source(graph.num_cols, 0);
  for (const NodeId source : graph.col) is_source[source] = 1;
  const double first =
      static_cast<double>(std::count(is_source.begin(), is_source.end(), 1)) / static_cast<double>(graph.nnz());
  const bool all_in_llc = graph.num_cols * kMeasuredWidth * static_cast<int64_t>(sizeof(float)) <= caches.llc_bytes;
  return (1.0 - first) + first * (all_in_llc ? kLlcCost : kMemoryCost);
}

// For one graph.
class AutoOrder {
 public:
  AutoOrder(const Csr& graph, const ChooseOptions& options)
      : graph_(graph), options_(options), computer_(graph, options.pool, options.given_up) {}

  ChosenOrder Choose(const LocalityProfile& before) {
    if (graph_.nnz() == 0) return Keep("there are no edges");
    const int64_t bytes = graph_.num_cols * kMeasuredWidth * static_cast<int64_t>(sizeof(float));
    if (bytes <= options_.caches.l2_bytes) {
      return Keep(absl::StrFormat("%d rows of %d floats fit in the second-level cache in any order", graph_.num_cols,
                                  kMeasuredWidth));
    }
    if (before.inside_window >= kEnoughInside) {
      return Keep(absl::StrCat("it is local enough: ", Percent(before.inside_window),
                               " of the edges lie inside a window of ", kLocalityWindow, " ids"));
    }
    const ReuseEstimate& reuse = before.reuse[kMeasuredWidthAt];
    const Candidate as_sent = {OrderKind::kNone, Permutation::Identity(graph_.num_rows), RelativeGatherCost(reuse),
                               std::nullopt};
    const double most = 1.0 - BestGatherCost(graph_, options_.caches) / as_sent.estimated;
    if (options_.estimates_exclude && most < kWorthwhileGain) {
      return Keep(absl::StrCat("no order could gain more than ", Percent(std::max(most, 0.0)), ": an estimated ",
                               Percent(reuse.l2), " of the gathers hit the second-level cache"));
    }
    if (options_.auto_orders == AutoOrders::kAsSent)
      return Keep("the memory budget has no room for computing an order");
    return ChooseAmong(as_sent);
  }

 private:
  ChosenOrder Keep(const std::string& why) {
    return {OrderKind::kNone,
            Permutation::Identity(graph_.num_rows),
            absl::StrCat("kept as sent, ", why),
            {},
            computer_.TakeCommunities(),
            0.0,
            {}};
  }

  ChosenOrder ChooseAmong(const Candidate& as_sent) {
    std::vector<Candidate> candidates = Candidates();
    std::sort(candidates.begin(), candidates.end(),
              [](const Candidate& a, const Candidate& b) { return a.estimated < b.estimated; });
    std::string estimates = absl::StrFormat("estimated cost of a gather: as sent %.2f", as_sent.estimated);
    if (options_.auto_orders != AutoOrders::kAll)
      absl::StrAppend(&estimates, ", community left out for want of memory");
    for (const Candidate& c : candidates)
      absl::StrAppend(&estimates, ", ", Name(c), absl::StrFormat(" %.2f", c.estimated));
    if (options_.estimates_exclude) {
      std::erase_if(candidates,
                    [&](const Candidate& c) { return c.estimated > (1.0 - kPromisingGain) * as_sent.estimated; });
      if (candidates.size() > kMaxMeasured) candidates.resize(kMaxMeasured);
    }
    if (candidates.empty()) return Keep(absl::StrCat("no order promises a gain: ", estimates));

    const std::string numbers = absl::StrCat(Measure(as_sent, &candidates), estimates);
    Candidate& best = *std::min_element(
        candidates.begin(), candidates.end(),
        [&](const Candidate& a, const Candidate& b) { return a.RelativeTo(as_sent) < b.RelativeTo(as_sent); });
    const double gain = 1.0 - best.RelativeTo(as_sent);
    const double least = std::max(kWorthwhileGain, best.time ? best.time->uncertainty : 0.0);
    if (gain < least) return Keep(absl::StrCat("no order gains ", Percent(least), ": ", numbers));
    // By the ratio within rounds, which is what decided.
    const double saved = best.time ? gain / best.time->relative * best.time->seconds_per_edge : 0.0;
    return {best.kind,
            std::move(best.permutation),
            absl::StrCat(Name(best), " takes ", Percent(gain), " less time than the order as sent: ", numbers),
            {},
            computer_.TakeCommunities(),
            saved * static_cast<double>(graph_.nnz()),
            {}};
  }

  std::vector<Candidate> Candidates() {
    std::vector<Candidate> candidates;
    for (const OrderKind kind : {OrderKind::kCommunity, OrderKind::kRcm, OrderKind::kDegree}) {
      if (IsGivenUp(options_.given_up)) return {};
      if (kind == OrderKind::kDegree && !DegreesScatter()) continue;
      if (kind == OrderKind::kCommunity && options_.auto_orders != AutoOrders::kAll) continue;
      StatusOr<Permutation> permutation = computer_.Compute(kind);
      if (!permutation.ok()) continue;
      const auto reuse = EstimateReuse(graph_, permutation->old_of_new(), options_.caches, kReuseSample, options_.pool);
      candidates.push_back({kind, *std::move(permutation), RelativeGatherCost(reuse[kMeasuredWidthAt]), std::nullopt});
    }
    return candidates;
  }

  bool DegreesScatter() const {
    const double mean = static_cast<double>(graph_.nnz()) / static_cast<double>(graph_.num_rows);
    double squares = 0.0;
    for (int64_t v = 0; v < graph_.num_rows; ++v) {
      const double off = static_cast<double>(graph_.row_ptr[v + 1] - graph_.row_ptr[v]) - mean;
      squares += off * off;
    }
    return squares / static_cast<double>(graph_.num_rows) > mean * mean;
  }

  // Times the candidates, if possible; returns the result as text for users.
  std::string Measure(const Candidate& as_sent, std::vector<Candidate>* candidates) const {
    if (!options_.measure || IsGivenUp(options_.given_up)) return "not measured; ";
    std::vector<const Permutation*> orders = {&as_sent.permutation};
    for (const Candidate& c : *candidates) orders.push_back(&c.permutation);
    const StatusOr<std::vector<OrderTime>> times = options_.measure(graph_, orders);
    if (!times.ok()) return absl::StrCat("not measured (", times.status().message(), "); ");
    const auto describe = [&](const Candidate& c, const OrderTime& time) {
      const double ms = 1e3 * time.seconds_per_edge * static_cast<double>(graph_.nnz());
      return absl::StrFormat("%s %.2f ms (spread %.0f %%)", Name(c), ms, 100.0 * time.spread);
    };
    std::string text = absl::StrFormat("a sum of width %d takes %s", kMeasuredWidth, describe(as_sent, times->front()));
    for (size_t i = 0; i < candidates->size(); ++i) {
      (*candidates)[i].time = (*times)[i + 1];
      absl::StrAppend(&text, ", ", describe((*candidates)[i], (*times)[i + 1]));
    }
    return absl::StrCat(text, "; ");
  }

  const Csr& graph_;
  const ChooseOptions& options_;
  OrderComputer computer_;
};

}  // namespace

double RelativeGatherCost(const ReuseEstimate& reuse) {
  return reuse.l2 + kLlcCost * (reuse.llc - reuse.l2) + kMemoryCost * (1.0 - reuse.llc);
}

StatusOr<ChosenOrder> ChooseOrder(OrderKind requested, const Csr& graph, const ChooseOptions& options) {
  ProfileOptions profile;
  profile.caches = options.caches;
  profile.pool = options.pool;
  const LocalityProfile before = ProfileLocality(graph, profile);
  ChosenOrder chosen;
  if (requested == OrderKind::kAuto) {
    chosen = AutoOrder(graph, options).Choose(before);
  } else {
    OrderComputer computer(graph, options.pool, options.given_up);
    VICINAL_ASSIGN_OR_RETURN(chosen.permutation, computer.Compute(requested));
    chosen.kind = requested;
    chosen.reason = "requested";
    chosen.communities = computer.TakeCommunities();
    chosen.metis_borders = computer.TakeMetisBorders();
  }
  if (IsGivenUp(options.given_up)) return internal::NobodyWaits();
  chosen.before = before;
  if (chosen.communities) {
    chosen.before.inside_window_and_community =
        InsideWindowAndCommunity(graph, kLocalityWindow, chosen.communities->of_node, options.pool);
  }
  return chosen;
}

}  // namespace vicinal
