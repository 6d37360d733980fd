// SPDX-License-Identifier: Apache-2.0
// Series by (method, graph, model), with a bound on the names that may become labels. One lookup under a short lock of
// our own; the family's lock is taken only when a series is made.
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
  LabelCache(int64_t max_graphs, int64_t max_models) : graphs_(max_graphs), models_(max_models) {}

  // The series of the labels that the names map to. `admit`: names not seen before may become labels; otherwise the
  // call counts without names. `make(graph label, model label)` is called once per series.
  template <class Make>
  Series& Get(Method method, std::string_view graph, std::string_view model, bool admit, const Make& make) {
    MutexLock lock(&mutex_);
    const std::string_view graph_label = graphs_.Label(graph, admit);
    const std::string_view model_label = models_.Label(model, admit);
    const auto found = series_.find(std::tie(method, graph_label, model_label));
    if (found != series_.end()) return *found->second;
    Key key(method, std::string(graph_label), std::string(model_label));
    Series* series = make(std::get<1>(key), std::get<2>(key));
    series_.emplace(std::move(key), series);
    return *series;
  }

 private:
  class Names {
   public:
    explicit Names(int64_t maximum) : maximum_(maximum) {}
    std::string_view Label(std::string_view name, bool admit) {
      if (name.empty()) return {};
      const auto found = names_.find(name);
      if (found != names_.end()) return *found;
      if (!admit) return {};
      if (static_cast<int64_t>(names_.size()) >= maximum_) return "other";
      return *names_.emplace(name).first;
    }

   private:
    const int64_t maximum_;
    std::set<std::string, std::less<>> names_;
  };

  using Key = std::tuple<Method, std::string, std::string>;

  Mutex mutex_;
  Names graphs_ VICINAL_GUARDED_BY(mutex_);
  Names models_ VICINAL_GUARDED_BY(mutex_);
  std::map<Key, Series*, std::less<>> series_ VICINAL_GUARDED_BY(mutex_);
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_METRICS_LABEL_CACHE_H_
