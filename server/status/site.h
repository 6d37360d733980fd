// SPDX-License-Identifier: Apache-2.0
// The status page as a function from requests to responses: who may see it, which page, which headers. Knows no
// sockets.
#ifndef VICINAL_SERVER_STATUS_SITE_H_
#define VICINAL_SERVER_STATUS_SITE_H_

#include <string>
#include <utility>

#include "engine/base/clock.h"
#include "server/auth.h"
#include "server/http/request.h"
#include "server/status/pages.h"
#include "server/status/sessions.h"

namespace vicinal::server {

// Thread-safe.
class StatusSite {
 public:
  // `loopback_only`: the listener is on a loopback address. Then the header Host must name one too, or a page of
  // somebody else's could read this one by a name that it makes resolve to this machine.
  StatusSite(StatusSource source, const Auth& auth, const Clock& clock, bool loopback_only)
      : source_(std::move(source)), auth_(auth), sessions_(clock), loopback_only_(loopback_only) {}

  HttpResponse Answer(const HttpRequest& request);

 private:
  HttpResponse Dispatch(const HttpRequest& request);
  HttpResponse SignIn(const HttpRequest& request);
  bool MaySee(const std::string& authorization) const;

  const StatusSource source_;
  const Auth& auth_;
  Sessions sessions_;
  const bool loopback_only_;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_STATUS_SITE_H_
