// SPDX-License-Identifier: Apache-2.0
// Re-reads the files of tokens and principals periodically, so that an updated secret (a Kubernetes volume) takes
// effect without a restart. A file with an error changes nothing: a missing volume must neither open the server nor
// lock everyone out.
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

  bool empty() const { return admin_.path.empty() && infer_.path.empty() && principals_.path.empty(); }

  // Reads the files and passes changes to `auth`, all together. If CheckCredentials rejects the new whole, nothing
  // changes. Each problem is logged once, until it is fixed or another one occurs.
  void Reread();

 private:
  struct File {
    std::string path;
    const char* flag;
    std::string error = {};  // the last error
  };
  // The file's token, or `current` if the file has none.
  std::string ReadToken(const std::string& current, File* file);
  std::vector<Principal> ReadListed();
  // Logs the error, unless it was the file's last one.
  void Note(const Status& error, const char* message, File* file);
  void Take(Credentials next);

  Auth& auth_;
  JsonLog& log_;
  File admin_, infer_, principals_;
  Credentials current_;
  std::string refused_;  // why the whole was refused the last time; empty: it was not
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_TOKEN_FILES_H_
