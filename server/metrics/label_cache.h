// SPDX-License-Identifier: Apache-2.0
// Series by (method, graph, model), with bounds on the names that may become labels, and on the pairs of a graph and a
// model: each series is a histogram, so all pairs of graphs and models would be hundreds of thousands of lines per
// scrape. One lookup under a short lock of our own, two beyond the bounds; the family's lock is taken only when a
// series is made.
#ifndef VICINAL_SERVER_METRICS_LABEL_CACHE_H_
#define VICINAL_SERVER_METRICS_LABEL_CACHE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include "engine/base/mutex.h"
#include "server/methods.h"

namespace vicinal::server {

// Thread-safe. Series are owned by their family.
template <class Series>
class LabelCache {
 public:
  // At most `max_pairs` pairs of a graph's and a model's label; all others are ("other", "other").
  LabelCache(int64_t max_graphs, int64_t max_models, int64_t max_pairs)
      : graphs_(max_graphs), models_(max_models), max_pairs_(max_pairs) {}

  // The series of the labels that the names map to. `admit`: names not seen before may become labels; otherwise the
  // call counts without names. `make(graph label, model label)` is called once per series.
  template <class Make>
  Series& Get(Method method, std::string_view graph, std::string_view model, bool admit, const Make& make) {
    MutexLock lock(&mutex_);
    const std::string_view graph_label = graphs_.Label(graph, admit);
    const std::string_view model_label = models_.Label(model, admit);
    const auto found = series_.find(std::tie(method, graph_label, model_label));
    if (found != series_.end()) return *found->second;
    if (!AdmitPair(graph_label, model_label)) return Find(method, kOther, kOther, make);
    return Find(method, graph_label, model_label, make);
  }

 private:
  static constexpr std::string_view kOther = "other";

  class Names {
   public:
    explicit Names(int64_t maximum) : maximum_(maximum) {}
    std::string_view Label(std::string_view name, bool admit) {
      if (name.empty()) return {};
      const auto found = names_.find(name);
      if (found != names_.end()) return *found;
      if (!admit) return {};
      if (static_cast<int64_t>(names_.size()) >= maximum_) return kOther;
      return *names_.emplace(name).first;
    }

   private:
    const int64_t maximum_;
    std::set<std::string, std::less<>> names_;
  };

  using Pair = std::tuple<std::string, std::string>;
  using Key = std::tuple<Method, std::string, std::string>;
  // Looks up by views without copying a name. With std::less<> clang 14 does not find how std::string and
  // std::string_view compare within tuples.
  struct Less {
    using is_transparent = void;
    using PairView = std::tuple<std::string_view, std::string_view>;
    using KeyView = std::tuple<Method, std::string_view, std::string_view>;
    bool operator()(const PairView& a, const PairView& b) const { return a < b; }
    bool operator()(const KeyView& a, const KeyView& b) const { return a < b; }
  };

  // Whether the pair has series of its own: it has some of another method, or the bound allows one more.
  bool AdmitPair(std::string_view graph, std::string_view model) VICINAL_REQUIRES(mutex_) {
    if (graph.empty() || model.empty()) return true;  // bounded by the number of names
    if (pairs_.find(std::tie(graph, model)) != pairs_.end()) return true;
    if (static_cast<int64_t>(pairs_.size()) >= max_pairs_) return false;
    pairs_.emplace(graph, model);
    return true;
  }

  template <class Make>
  Series& Find(Method method, std::string_view graph, std::string_view model, const Make& make)
      VICINAL_REQUIRES(mutex_) {
    const auto found = series_.find(std::tie(method, graph, model));
    if (found != series_.end()) return *found->second;
    Key key(method, std::string(graph), std::string(model));
    Series* series = make(std::get<1>(key), std::get<2>(key));
    series_.emplace(std::move(key), series);
    return *series;
  }

  Mutex mutex_;
  Names graphs_ VICINAL_GUARDED_BY(mutex_);
  Names models_ VICINAL_GUARDED_BY(mutex_);
  const int64_t max_pairs_;
  std::set<Pair, Less> pairs_ VICINAL_GUARDED_BY(mutex_);
  std::map<Key, Series*, Less> series_ VICINAL_GUARDED_BY(mutex_);
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_METRICS_LABEL_CACHE_H_
