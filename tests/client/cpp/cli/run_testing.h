// SPDX-License-Identifier: Apache-2.0
// The program as a script sees it: words in, text or JSON and an exit code out, against a fake server. Each test works
// in a folder of its own, as the map of ids is kept in the current one.
#ifndef VICINAL_TESTS_CLIENT_CPP_CLI_RUN_TESTING_H_
#define VICINAL_TESTS_CLIENT_CPP_CLI_RUN_TESTING_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "client/cpp/cli/commands.h"
#include "tests/client/cpp/fake_server.h"
#include "tests/support/temporary_directory.h"

namespace vicinal::client::cli {

class RunTest : public ::testing::Test {
 protected:
  RunTest() { EXPECT_EQ(chdir(folder_.path().c_str()), 0); }
  ~RunTest() override { EXPECT_EQ(chdir("/"), 0); }

  // `line` split at spaces, --server added. Waits are noted, not waited.
  int Vicinal(const std::string& line) {
    std::vector<std::string> words;
    std::istringstream stream(line);
    for (std::string word; stream >> word;) words.push_back(word);
    words.insert(words.end(), {"--server", server_.target()});
    return Vicinal(words);
  }
  int Vicinal(const std::vector<std::string>& words) {
    out_.str("");
    err_.str("");
    return cli::Run(words, out_, err_, false,
                    [this](std::chrono::milliseconds wait) { waits_.push_back(wait.count()); });
  }

  nlohmann::json Json() const { return nlohmann::json::parse(out_.str(), nullptr, false); }
  std::string out() const { return out_.str(); }
  std::string err() const { return err_.str(); }

  const TemporaryDirectory folder_;
  FakeServer server_;
  std::ostringstream out_, err_;
  std::vector<int64_t> waits_;
};

}  // namespace vicinal::client::cli

#endif  // VICINAL_TESTS_CLIENT_CPP_CLI_RUN_TESTING_H_
