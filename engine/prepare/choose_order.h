// SPDX-License-Identifier: Apache-2.0
// Chooses the node order of a graph: the requested one or, for `auto`, the one that measurements favour.
#ifndef VICINAL_ENGINE_PREPARE_CHOOSE_ORDER_H_
#define VICINAL_ENGINE_PREPARE_CHOOSE_ORDER_H_

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/thread_pool.h"
#include "engine/graph/communities.h"
#include "engine/graph/csr.h"
#include "engine/profile/graph_profile.h"
#include "engine/reorder/order.h"

namespace vicinal {

// The measured cost of one aggregation in a numbering.
struct OrderTime {
  double seconds_per_edge = 0.0;  // median
  // Median ratio of this order's time to the first order's in the same round, so that temporary slowdowns do not
  // decide. 1 for the first.
  double relative = 1.0;
  double spread = 0.0;  // of the times: (third quartile - first quartile) / median
  // Gains up to this are not known to be gains: sums of microseconds scatter by 10 %. 0 where ratios within rounds have
  // taken care of that.
  double uncertainty = 0.0;
};

// Times a sum of width kMeasuredWidth over `graph` in each of `orders`. Returns one time per order, or an error if it
// cannot measure (no kernel, no memory); `auto` then decides by its estimate.
using MeasureOrders =
    std::function<StatusOr<std::vector<OrderTime>>(const Csr& graph, std::span<const Permutation* const> orders)>;
inline constexpr int64_t kMeasuredWidth = 64;

// Which orders `auto` considers. Those that it leaves out cost scratch memory.
enum class AutoOrders {
  kAll,
  kWithoutCommunities,  // as sent, rcm and degree
  kAsSent,
};

struct ChooseOptions {
  CacheSizes caches;
  ThreadPool* pool = nullptr;  // null: only the calling thread
  MeasureOrders measure;       // empty: `auto` decides by its estimate
  // Whether estimates leave orders unmeasured. Not on a GPU: its kernels gain from dense blocks, too, and runs are
  // short.
  bool estimates_exclude = true;
  AutoOrders auto_orders = AutoOrders::kAll;
  GivenUp given_up = {};  // called between candidates, and where GivenUp says
};

struct ChosenOrder {
  OrderKind kind = OrderKind::kNone;  // never kAuto
  Permutation permutation;
  std::string reason;                      // for users, with the numbers
  LocalityProfile before;                  // of the numbering as sent
  std::optional<Communities> communities;  // in the ids as sent; if they were computed
  // What it saves in a sum of width kMeasuredWidth over the whole graph, measured; 0: nothing, or not measured.
  double saved_seconds = 0.0;
  std::vector<int64_t> metis_borders;  // between METIS's parts in the new order; if that is its order
};

// `auto`, step by step, among ChooseOptions::auto_orders. Some steps end with the order as sent ("kept"); later ones
// cost more:
// 1. No edges, or rows of width kMeasuredWidth fit in the second-level cache in any order: kept.
// 2. The profile's reuse estimate gives the relative cost of a gather as sent, and of the best that any order could
//    reach (each row missed once). Less than kWorthwhileGain between them, or kEnoughInside of the edges inside the
//    window: kept. The former only if estimates exclude.
// 3. community and rcm are computed; degree, too, if the deviation of the in-degrees exceeds their mean. (metis is
//    serial, and used only by request.) Nothing cheaper predicts whether this will pay: of two graphs that are
//    equally local by window and estimate, one gains 13 % and one nothing (docs/tuning.md, Orders). Candidates whose
//    estimated cost is not at least kPromisingGain below that as sent are dropped, if estimates exclude, and all but
//    the best kMaxMeasured; none left: kept.
// 4. The order as sent and these candidates are measured. The fastest is taken if it gains kWorthwhileGain, and more
//    than the measurement's uncertainty; otherwise the order as sent is kept: a renumbered graph costs a permutation of
//    the features of every upload and of the rows of every answer, and 5 % is about the resolution of a measurement on
//    a busy machine.
inline constexpr double kEnoughInside = 0.9;
inline constexpr double kPromisingGain = 0.04;
inline constexpr double kWorthwhileGain = 0.05;
inline constexpr int kMaxMeasured = 2;

// Cost of a gather of kMeasuredWidth floats, relative to one from the second-level cache: 2 from the last level, 4 from
// memory. Deliberately rough: only ratios of such costs are used, and measurements decide.
double RelativeGatherCost(const ReuseEstimate& reuse);

// Errors of OrderComputer::Compute; `auto` skips candidates that fail. CANCELLED if given up. O(E) for `none`,
// otherwise the cost of the order.
StatusOr<ChosenOrder> ChooseOrder(OrderKind requested, const Csr& graph, const ChooseOptions& options = {});

}  // namespace vicinal

#endif  // VICINAL_ENGINE_PREPARE_CHOOSE_ORDER_H_
