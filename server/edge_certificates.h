// SPDX-License-Identifier: Apache-2.0
// Client certificates as a proxy at the edge hands them over: it has verified them, and sends each call's certificate
// as base64 of its DER form. Decoding one takes some 20 us, so the last ones are kept.
#ifndef VICINAL_SERVER_EDGE_CERTIFICATES_H_
#define VICINAL_SERVER_EDGE_CERTIFICATES_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/base/mutex.h"
#include "engine/base/status.h"

namespace vicinal::server {

// Metadata that only a proxy at the unix socket may set.
inline constexpr std::string_view kEdgeMetadataPrefix = "vicinal-edge-";
inline constexpr char kEdgeCertificateMetadata[] = "vicinal-edge-client-der";
inline constexpr char kEdgeAddressMetadata[] = "vicinal-edge-client-address";

// Thread-safe.
class EdgeCertificates {
 public:
  // The certificate's names, as of tls::Certificate. INVALID_ARGUMENT (BAD_EDGE_CERTIFICATE): not base64 of a
  // certificate.
  using Names = std::shared_ptr<const std::vector<std::string>>;
  StatusOr<Names> NamesIn(std::string_view base64_der);

 private:
  // Together some megabytes.
  static constexpr size_t kMostKept = 1024;

  Mutex mutex_;
  std::unordered_map<std::string, Names> kept_ VICINAL_GUARDED_BY(mutex_);
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_EDGE_CERTIFICATES_H_
