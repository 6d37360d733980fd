// SPDX-License-Identifier: Apache-2.0
// The server's certificate, its key, and the authorities of client certificates. Re-reads the files while the server
// runs. A new set is checked as a whole, key against certificate included, and only then published to files in memory,
// which gRPC watches (gRPC checks nothing, and would read half of a set). A bad set changes nothing and is logged.
#ifndef VICINAL_SERVER_CERTIFICATE_FILES_H_
#define VICINAL_SERVER_CERTIFICATE_FILES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "proto/tls/certificates.h"
#include "proto/tls/server_session.h"
#include "server/config.h"
#include "server/json_log.h"
#include "server/memory_file.h"

namespace vicinal::server {

// Load and Reread: one thread at a time.
class CertificateFiles {
 public:
  // The files named in `config`. `log` and `clock` must outlive it.
  CertificateFiles(const Config& config, JsonLog* log, const Clock* clock);

  // Reads and publishes the first set. INVALID_ARGUMENT (BAD_FLAG), naming the flag and the file.
  Status Load();
  // Publishes a changed set. Each problem is logged once, until it is fixed or another one occurs; so is the published
  // certificate's expiry.
  void Reread();

  bool wants_client_certificates() const { return !authorities_path_.empty(); }
  // What gRPC watches; valid after Load.
  std::string published_chain() const { return chain_.path(); }
  std::string published_key() const { return key_.path(); }
  std::string published_authorities() const { return authorities_.path(); }

  // The published set, for listeners of our own; valid after Load. Any thread.
  std::shared_ptr<const tls::ServerContext> context() const;

  // The published certificate's end, in seconds since 1970. Any thread.
  double expiry_seconds() const { return expiry_seconds_.load(); }

 private:
  struct Set {
    std::string chain, key, authorities;  // PEM
    tls::Certificate leaf;
    friend bool Same(const Set& a, const Set& b) {
      return a.chain == b.chain && a.key == b.key && a.authorities == b.authorities;
    }
  };
  // Only reads.
  StatusOr<Set> Read() const;
  // Fills in `leaf`, if all of it can be used now.
  Status Check(Set* set) const;
  Status Publish(Set set);
  void Note(const Status& error);

  const std::string chain_path_, key_path_, authorities_path_;
  JsonLog& log_;
  const Clock& clock_;
  MemoryFile chain_, key_, authorities_;
  Set current_;
  int64_t generation_ = 0;
  std::string error_;  // the last one
  bool said_expired_ = false;
  std::atomic<double> expiry_seconds_{0.0};
  mutable Mutex mutex_;
  std::shared_ptr<const tls::ServerContext> context_ VICINAL_GUARDED_BY(mutex_);
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_CERTIFICATE_FILES_H_
