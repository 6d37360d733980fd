// SPDX-License-Identifier: Apache-2.0
// Checks that gRPC can use a server's address, before connecting. gRPC itself accepts any text as a host name: it asks
// the DNS for "http://host", and takes port 443 if none is given.
#ifndef VICINAL_CLIENT_CPP_ADDRESS_H_
#define VICINAL_CLIENT_CPP_ADDRESS_H_

#include <string>

#include "absl/status/status.h"

namespace vicinal::client {

// OK for HOST:PORT (a name, an IPv4 address, an IPv6 address in brackets; the port 1 to 65535), dns:HOST:PORT,
// dns:///HOST:PORT, dns://RESOLVER/HOST:PORT, ipv4:HOST:PORT,..., ipv6:[HOST]:PORT,..., unix:PATH, unix:///PATH,
// unix-abstract:NAME and xds:///NAME. Otherwise INVALID_ARGUMENT with the fault and the expected forms. Resolves no
// names.
absl::Status CheckAddress(const std::string& address);

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_ADDRESS_H_
