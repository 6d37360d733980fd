// SPDX-License-Identifier: Apache-2.0
#include "server/metrics/families.h"

#include <utility>

namespace vicinal::server {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily Family(const char* name, const char* help, MetricType type) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  return family;
}

void AddValue(MetricFamily* family, double value, std::vector<ClientMetric::Label> labels) {
  ClientMetric metric;
  metric.label = std::move(labels);
  if (family->type == MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  family->metric.push_back(std::move(metric));
}

MetricFamily GaugeFamily(const char* name, const char* help, double value) {
  MetricFamily family = Family(name, help, MetricType::Gauge);
  AddValue(&family, value);
  return family;
}

MetricFamily CounterFamily(const char* name, const char* help, double value) {
  MetricFamily family = Family(name, help, MetricType::Counter);
  AddValue(&family, value);
  return family;
}

}  // namespace vicinal::server
