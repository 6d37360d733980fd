// SPDX-License-Identifier: Apache-2.0
// Few threads and short timeouts: the page is for people. A request that is not read within the timeout ends.
#include "server/status/listener.h"

#include <civetweb.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "server/metrics/wake.h"

namespace vicinal::server {

struct StatusListener::Impl {
  std::string host;
  int port = 0;
  StatusSite* site = nullptr;
  mg_context* context = nullptr;
};

namespace {

std::string HeaderOf(const mg_connection* connection, const char* name) {
  const char* const value = mg_get_header(connection, name);
  return value == nullptr ? std::string() : std::string(value);
}

// At most one byte more than a form may have.
std::string BodyOf(mg_connection* connection) {
  std::string body(kMostFormBytes + 1, '\0');
  size_t got = 0;
  while (got < body.size()) {
    const int read = mg_read(connection, body.data() + got, body.size() - got);
    if (read <= 0) break;
    got += static_cast<size_t>(read);
  }
  body.resize(got);
  return body;
}

int Handle(mg_connection* connection, void* site) {
  const mg_request_info& info = *mg_get_request_info(connection);
  HttpRequest request;
  request.method = info.request_method;
  request.path = info.local_uri == nullptr ? "" : info.local_uri;
  request.host = HeaderOf(connection, "Host");
  request.cookie = HeaderOf(connection, "Cookie");
  request.origin = HeaderOf(connection, "Origin");
  if (request.method == "POST") request.body = BodyOf(connection);
  const HttpResponse response = static_cast<StatusSite*>(site)->Answer(request);
  std::string head = absl::StrCat("HTTP/1.1 ", response.code, " ", mg_get_response_code_text(connection, response.code),
                                  "\r\nContent-Type: ", response.content_type,
                                  "\r\nContent-Length: ", response.body.size(), "\r\nConnection: close\r\n");
  for (const auto& [name, value] : response.headers) absl::StrAppend(&head, name, ": ", value, "\r\n");
  absl::StrAppend(&head, "\r\n");
  mg_write(connection, head.data(), head.size());
  mg_write(connection, response.body.data(), response.body.size());
  return response.code;
}

}  // namespace

StatusListener::StatusListener(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

StatusOr<std::unique_ptr<StatusListener>> StatusListener::Start(const std::string& host, int port, StatusSite& site) {
  auto impl = std::make_unique<Impl>();
  // The HTTP library knows addresses, not names.
  impl->host = host == "localhost" ? "127.0.0.1" : host;
  impl->site = &site;
  const std::string address = absl::StrCat(impl->host, ":", port);
  const char* const options[] = {
      "listening_ports",  address.c_str(), "num_threads", "8", "request_timeout_ms", "5000", "enable_keep_alive", "no",
      "max_request_size", "16384",         nullptr};
  mg_init_library(0);
  const mg_callbacks callbacks = {};
  impl->context = mg_start(&callbacks, nullptr, const_cast<const char**>(options));
  if (impl->context == nullptr) {
    mg_exit_library();
    return FailedPrecondition(
        "CANNOT_LISTEN",
        absl::StrCat("--status_listen: cannot listen on ", address,
                     "; is the port in use? Use another address, or an empty one to serve no status page"));
  }
  mg_server_port ports[1] = {};
  mg_get_server_ports(impl->context, 1, ports);
  impl->port = ports[0].port;
  mg_set_request_handler(impl->context, "/", Handle, &site);
  return std::unique_ptr<StatusListener>(new StatusListener(std::move(impl)));
}

StatusListener::~StatusListener() {
  StopWoken(impl_->host, impl_->port, [this] { mg_stop(impl_->context); });
  mg_exit_library();
}

int StatusListener::port() const { return impl_->port; }

}  // namespace vicinal::server
