// SPDX-License-Identifier: Apache-2.0
// Tokens that change while the server runs: their files are read again now and then, so that a mounted secret that is
// updated in its place (Kubernetes) takes effect without a restart. A file that says no token any more changes nothing:
// a server must not open, nor lock everybody out, because a volume is gone.
#ifndef VICINAL_SERVER_TOKEN_FILES_H_
#define VICINAL_SERVER_TOKEN_FILES_H_

#include <string>

#include "server/auth.h"
#include "server/config.h"
#include "server/json_log.h"

namespace vicinal::server {

// For one thread.
class TokenFiles {
 public:
  // Of the files that `config` names; none: nothing to do. `auth` and `log` must outlive it.
  TokenFiles(const Config& config, Auth* auth, JsonLog* log);

  bool empty() const { return admin_.path.empty() && infer_.path.empty(); }

  // Reads the files, and gives `auth` the tokens that have changed: each replaces the one before it at once. Where both
  // roles would have one token nothing changes. What is wrong is logged once, until it is mended or something else is.
  void Reread();

 private:
  struct File {
    std::string path;
    const char* flag;
    Role role;
    std::string token;       // that is taken now; empty: none is needed
    std::string error = {};  // the last one
  };
  // What the file says; where it says nothing, the token that is taken now.
  std::string Read(File* file);
  void Take(const std::string& token, File* file);

  Auth& auth_;
  JsonLog& log_;
  File admin_, infer_;
  bool same_ = false;  // both files said one token, and that was logged
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_TOKEN_FILES_H_
