// SPDX-License-Identifier: Apache-2.0
// The program as a script sees it: words in, text or JSON and an exit code out, against a fake server. Each test works
// in a folder of its own, as the map of ids is kept in the current one.
#ifndef VICINAL_TESTS_CLIENT_CPP_CLI_RUN_TESTING_H_
#define VICINAL_TESTS_CLIENT_CPP_CLI_RUN_TESTING_H_

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "client/cpp/cli/commands.h"
#include "tests/client/cpp/fake_server.h"

namespace vicinal::client::cli {

class RunTest : public ::testing::Test {
 protected:
  RunTest() {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    EXPECT_EQ(chdir(folder_.c_str()), 0);
  }
  ~RunTest() override {
    std::error_code ignored;
    std::filesystem::current_path(::testing::TempDir(), ignored);
    std::filesystem::remove_all(folder_, ignored);
  }

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

  std::string folder_ = ::testing::TempDir() + "/run_test_XXXXXX";
  FakeServer server_;
  std::ostringstream out_, err_;
  std::vector<int64_t> waits_;
};

}  // namespace vicinal::client::cli

#endif  // VICINAL_TESTS_CLIENT_CPP_CLI_RUN_TESTING_H_
