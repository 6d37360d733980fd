// SPDX-License-Identifier: Apache-2.0
// Serves the status page over HTTP/1.1, in plain text. The one place that knows the HTTP library (civetweb, which
// prometheus-cpp brings).
#ifndef VICINAL_SERVER_STATUS_LISTENER_H_
#define VICINAL_SERVER_STATUS_LISTENER_H_

#include <memory>
#include <string>

#include "engine/base/status.h"
#include "server/status/site.h"

namespace vicinal::server {

class StatusListener {
 public:
  // Listens on HOST:PORT (port 0: any). `site` must outlive it; it is called on the library's threads.
  // FAILED_PRECONDITION (CANNOT_LISTEN).
  static StatusOr<std::unique_ptr<StatusListener>> Start(const std::string& host, int port, StatusSite& site);
  // Waits for requests in progress.
  ~StatusListener();

  int port() const;

 private:
  struct Impl;
  explicit StatusListener(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_STATUS_LISTENER_H_
