// SPDX-License-Identifier: Apache-2.0
#include "server/metrics/page.h"

#include <string>
#include <utility>

namespace vicinal::server {
namespace {

HttpResponse Text(int code, std::string text) {
  HttpResponse response;
  response.code = code;
  response.content_type = "text/plain; charset=utf-8";
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  response.body = std::move(text);
  return response;
}

}  // namespace

HttpResponse MetricsPage(const Metrics& metrics, const HttpRequest& request) {
  if (request.refused != 0) return Text(request.refused, "this server cannot read that request\n");
  if (request.path != "/metrics") return Text(404, "there is only /metrics\n");
  if (request.method != "GET" && request.method != "HEAD") {
    HttpResponse refused = Text(405, "this page only shows\n");
    refused.headers.emplace_back("Allow", "GET, HEAD");
    return refused;
  }
  HttpResponse response = Text(200, metrics.Text());
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  return response;
}

}  // namespace vicinal::server
