// SPDX-License-Identifier: Apache-2.0
// Re-reads the token files periodically, so that an updated secret (a Kubernetes volume) takes effect without a
// restart. A file without a token changes nothing: a missing volume must neither open the server nor lock everyone out.
#ifndef VICINAL_SERVER_TOKEN_FILES_H_
#define VICINAL_SERVER_TOKEN_FILES_H_

#include <string>

#include "server/auth.h"
#include "server/config.h"
#include "server/json_log.h"

namespace vicinal::server {

// Not thread-safe.
class TokenFiles {
 public:
  // Watches the files named in `config`, if any. `auth` and `log` must outlive it.
  TokenFiles(const Config& config, Auth* auth, JsonLog* log);

  bool empty() const { return admin_.path.empty() && infer_.path.empty(); }

  // Reads the files and passes changed tokens to `auth`; each replaces the previous one immediately. If both roles
  // would have the same token, nothing changes. Each problem is logged once, until it is fixed or another one occurs.
  void Reread();

 private:
  struct File {
    std::string path;
    const char* flag;
    Role role;
    std::string token;       // the current token; empty: none is needed
    std::string error = {};  // the last error
  };
  // The file's token, or the current one if the file has none.
  std::string Read(File* file);
  void Take(const std::string& token, File* file);

  Auth& auth_;
  JsonLog& log_;
  File admin_, infer_;
  bool same_ = false;  // both files had the same token, and that was logged
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_TOKEN_FILES_H_
