// SPDX-License-Identifier: Apache-2.0
// What the metrics' listener answers.
#ifndef VICINAL_SERVER_METRICS_PAGE_H_
#define VICINAL_SERVER_METRICS_PAGE_H_

#include "server/http/request.h"
#include "server/metrics/metrics.h"

namespace vicinal::server {

// GET and HEAD of /metrics: all of them, in Prometheus' text format. Anything else is refused.
HttpResponse MetricsPage(const Metrics& metrics, const HttpRequest& request);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_METRICS_PAGE_H_
