// SPDX-License-Identifier: Apache-2.0
// Whether a server's address is one that gRPC can use. gRPC itself takes whatever it is given for a host name and asks
// the DNS for "http://host", or goes to port 443 where none was said; here that is told before anything is tried.
#ifndef VICINAL_CLIENT_CPP_ADDRESS_H_
#define VICINAL_CLIENT_CPP_ADDRESS_H_

#include <string>

#include "absl/status/status.h"

namespace vicinal::client {

// OK for HOST:PORT (a name, an IPv4 address, an IPv6 address in brackets; the port 1 to 65535), dns:HOST:PORT,
// dns:///HOST:PORT, dns://RESOLVER/HOST:PORT, ipv4:HOST:PORT,..., ipv6:[HOST]:PORT,..., unix:PATH, unix:///PATH,
// unix-abstract:NAME and xds:///NAME. INVALID_ARGUMENT otherwise: what is wrong, and how to write it. Nothing is
// looked up.
absl::Status CheckAddress(const std::string& address);

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_ADDRESS_H_
