// SPDX-License-Identifier: Apache-2.0
// Built plans, kept for later requests. The least recently used ones are dropped when there are too many or memory is
// needed.
// A plan holds its graph and model, so plans of versions that no longer serve are purged when versions change.
//
// A plan that tuning outdated serves on until another one takes its place (plans_ahead.h): building takes long, and
// both are right, each under its own numerics revision.
#ifndef VICINAL_ENGINE_EXECUTE_PLAN_CACHE_H_
#define VICINAL_ENGINE_EXECUTE_PLAN_CACHE_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/plan/plan.h"

namespace vicinal {

// What a plan was built for. Pointers identify versions: a cached plan keeps what they point to alive, so that no
// address is used twice.
struct PlanKey {
  const PreparedGraph* graph = nullptr;
  const Model* model = nullptr;
  bool sparse = false;
  bool crowded = false;
  int64_t cols = 0;
  int64_t edge_set_cols = 0;
  ValueId output = 0;
  ForcedKernels forced;
  Storage precision = Storage::kFloat32;
  ProductPrecision products = ProductPrecision::kFloat32;
  int64_t tuning_revision = 0;
  int64_t quarantine_revision = 0;

  static PlanKey Of(const PlanRequest& request);
  friend bool operator==(const PlanKey&, const PlanKey&) = default;
};

struct PlanKeyHash {
  size_t operator()(const PlanKey& key) const;
};

// Thread-safe. A plan that leaves the cache lives on, with the reservation of its bytes (PlanMemory::Keep), until its
// last run ends.
class PlanCache {
 public:
  // True if a plan's graph and model are the versions that serve. Called under the cache's lock: it must not call the
  // cache or reserve memory.
  using IsCurrent = std::function<bool(const PreparedGraph& graph, const std::string& model_name, const Model& model)>;

  PlanCache(int64_t max_plans, IsCurrent is_current) : max_plans_(max_plans), is_current_(std::move(is_current)) {}

  // Null when there is none. Does not allocate. `first_use`, which may be null: whether the plan was made ahead, and
  // nobody has found it before.
  std::shared_ptr<Plan> Find(const PlanKey& key, bool* first_use = nullptr);
  // As Find, but no use of the plan.
  std::shared_ptr<Plan> Peek(const PlanKey& key) const;
  // As Find, or else the plan of an earlier tuning revision, if it is still there.
  std::shared_ptr<Plan> FindOrEarlier(const PlanKey& key, bool* first_use = nullptr);
  // Keeps `plan`, unless its graph or model was replaced or its graph was tuned meanwhile. Returns the plan to run: an
  // earlier one of the same key, if there is one. A plan that replaces one outdated by tuning continues its counts.
  std::shared_ptr<Plan> Insert(const PlanRequest& request, const std::string& model_name, std::shared_ptr<Plan> plan);
  // The same for a plan that no request asked for; its graph or model need not serve yet.
  void InsertAhead(const PlanRequest& request, const std::string& model_name, std::shared_ptr<Plan> plan);
  // Drops plans whose graph or model is no longer current. Call it after each such change.
  void PurgeStale();
  // Drops plans whose graph was tuned since.
  void PurgeOutdated();

  // What a kept plan was built for.
  struct Built {
    PlanRequest request;
    std::string model_name;
  };
  // Of plans that requests used and whose graph and model are current, the most recently used first.
  std::vector<Built> InUse() const;
  // Of plans whose graph was tuned since.
  std::vector<Built> Outdated() const;
  // Drops `plan`, if it is kept. Another one for the same request continues its counts.
  void Drop(const Plan& plan);
  // Drops the plans of a graph version, and what is known of former ones.
  void Release(const std::string& graph, int64_t version);
  // Drops least recently used plans until `bytes` are freed. Plans that run are kept: dropping them would free nothing.
  // Returns the bytes freed.
  int64_t Evict(int64_t bytes);

  int64_t count() const;

 private:
  struct Entry {
    PlanKey key;
    Built built;
    std::shared_ptr<Plan> plan;
    bool unused = false;  // made ahead, and not found yet
  };
  using Entries = std::list<Entry>;  // most recently used first

  // The counts of a plan that tuning outdated, for the plan that takes its place.
  struct Retired {
    PlanKey key;  // with revisions 0: matches all
    std::shared_ptr<const PreparedGraph> graph;
    std::shared_ptr<const Model> model;
    std::string model_name;
    std::vector<PlanStepInfo> steps;
  };
  using Retirees = std::list<Retired>;  // the latest first, at most as many as plans

  std::shared_ptr<Plan> Use(Entries::iterator entry, bool* first_use) VICINAL_REQUIRES(mutex_);
  // Of the same key, but for another tuning revision; end() if there is none.
  Entries::iterator FindEarlier(const PlanKey& key) VICINAL_REQUIRES(mutex_);
  bool Serves(const Entry& entry) const VICINAL_REQUIRES(mutex_);
  static bool IsOutdated(const Entry& entry);
  // Keeps the plan, unless its graph was tuned meanwhile, with the counts of the one whose place it takes.
  std::shared_ptr<Plan> Keep(const PlanRequest& request, const std::string& model_name, std::shared_ptr<Plan> plan,
                             bool ahead);
  void Retire(const Entry& entry, Retirees* dropped) VICINAL_REQUIRES(mutex_);
  Retirees::iterator FindRetired(PlanKey key) VICINAL_REQUIRES(mutex_);

  // Moves the entry to `dropped`, to be freed without the lock.
  void Drop(Entries::iterator entry, Entries* dropped) VICINAL_REQUIRES(mutex_);

  const int64_t max_plans_;
  const IsCurrent is_current_;
  mutable Mutex mutex_;
  Entries entries_ VICINAL_GUARDED_BY(mutex_);
  std::unordered_map<PlanKey, Entries::iterator, PlanKeyHash> by_key_ VICINAL_GUARDED_BY(mutex_);
  Retirees retired_ VICINAL_GUARDED_BY(mutex_);
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_PLAN_CACHE_H_
