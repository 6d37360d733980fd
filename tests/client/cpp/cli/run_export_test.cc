// SPDX-License-Identifier: Apache-2.0
// `vicinal export` with programs in the place of the Python package's.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/client/cpp/cli/run_testing.h"

namespace vicinal::client::cli {
namespace {

using ::testing::HasSubstr;

class RunExportTest : public RunTest {
 protected:
  RunExportTest() : path_(getenv("PATH")) { setenv("PATH", folder_.path().c_str(), 1); }
  ~RunExportTest() override { setenv("PATH", path_.c_str(), 1); }

  // A program vicinal-export that notes its arguments, one a line, and then does `end`.
  void Install(const std::string& end) {
    std::ofstream("vicinal-export") << "#!/bin/sh\nprintf '%s\\n' \"$@\" >said\n" << end << '\n';
    std::filesystem::permissions("vicinal-export", std::filesystem::perms::owner_all);
  }
  static std::string Said() {
    std::ifstream file("said");
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string path_;
};

TEST_F(RunExportTest, HandsItsArgumentsOn) {
  Install("exit 0");
  EXPECT_EQ(Vicinal("export train.py:model"), kExitOk) << err();
  EXPECT_EQ(Said(), "train.py:model\n");
  EXPECT_EQ(Vicinal({"export", "my train.py:model", "--data", "the graph", "--out=-x", "--target=regression"}), kExitOk)
      << err();
  EXPECT_EQ(Said(), "my train.py:model\n--data=the graph\n--out=-x\n--target=regression\n");
}

TEST_F(RunExportTest, FailsIfTheExporterDoes) {
  Install("exit 3");
  EXPECT_EQ(Vicinal("export train.py:model"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("vicinal-export failed with exit status 3"));
  Install("kill -9 $$");
  EXPECT_EQ(Vicinal("export train.py:model"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("ended by signal 9"));
}

TEST_F(RunExportTest, WithoutThePackageItSaysHowToGetIt) {
  EXPECT_EQ(Vicinal("export train.py:model"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("no vicinal-export in PATH"));
  EXPECT_THAT(err(), HasSubstr("pip install ./client/python"));
}

TEST_F(RunExportTest, RefusesJson) {
  Install("exit 0");
  EXPECT_EQ(Vicinal("export train.py:model --json"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("text only"));
  EXPECT_EQ(Said(), "");
}

}  // namespace
}  // namespace vicinal::client::cli
