// SPDX-License-Identifier: Apache-2.0
// Metrics of a scrape that no registry holds: they are read when the scrape comes. Internal to metrics/.
#ifndef VICINAL_SERVER_METRICS_FAMILIES_H_
#define VICINAL_SERVER_METRICS_FAMILIES_H_

#include <prometheus/metric_family.h>

#include <vector>

namespace vicinal::server {

prometheus::MetricFamily Family(const char* name, const char* help, prometheus::MetricType type);

// Adds a series. REQUIRES: the family has counters or gauges.
void AddValue(prometheus::MetricFamily* family, double value, std::vector<prometheus::ClientMetric::Label> labels = {});

// With one series, without labels.
prometheus::MetricFamily GaugeFamily(const char* name, const char* help, double value);
prometheus::MetricFamily CounterFamily(const char* name, const char* help, double value);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_METRICS_FAMILIES_H_
