// SPDX-License-Identifier: Apache-2.0
// The metrics of a scrape besides the registry: gauges of state, launch counters, and the process itself. Internal to
// metrics/.
#ifndef VICINAL_SERVER_METRICS_SCRAPE_H_
#define VICINAL_SERVER_METRICS_SCRAPE_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/mutex.h"
#include "server/metrics/metrics.h"
#include "server/metrics/nvml.h"

namespace vicinal::server {

// Thread-safe.
class Scrape final : public prometheus::Collectable {
 public:
  explicit Scrape(Metrics::Options options);

  std::vector<prometheus::MetricFamily> Collect() const override;
  void SetSource(std::function<StateSnapshot()> source);
  void SetDevice(const std::string& device, std::shared_ptr<const Nvml> gpu);

 private:
  // All but the GPU's.
  std::vector<prometheus::MetricFamily> StateFamilies(const StateSnapshot& state, const std::string& device) const;

  const Metrics::Options options_;
  const double start_seconds_;
  mutable Mutex mutex_;  // held while the source is called
  std::function<StateSnapshot()> source_ VICINAL_GUARDED_BY(mutex_);
  std::string device_ VICINAL_GUARDED_BY(mutex_);
  std::shared_ptr<const Nvml> gpu_ VICINAL_GUARDED_BY(mutex_);
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_METRICS_SCRAPE_H_
