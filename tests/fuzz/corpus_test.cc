// SPDX-License-Identifier: Apache-2.0
// Runs every target over its stored inputs, in every build, and checks that each method of the API has a target.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "tests/fuzz/calls.pb.h"
#include "tests/fuzz/target.h"

namespace vicinal::fuzz {
namespace {

TEST(FuzzCorpusTest, EveryStoredInputPasses) {
  int64_t inputs = 0;
  std::set<std::string> done;
  for (const Target& target : Targets()) {
    if (!done.insert(target.corpus).second) continue;
    const std::filesystem::path folder = std::filesystem::path(VICINAL_FUZZ_CORPUS) / target.corpus;
    ASSERT_TRUE(std::filesystem::is_directory(folder)) << target.name << " has no corpus in " << folder;
    int64_t of_target = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      SCOPED_TRACE(entry.path().string());
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string input{std::istreambuf_iterator<char>(file), {}};
      target.run(input);
      ++of_target;
    }
    EXPECT_GT(of_target, 0) << target.name;
    inputs += of_target;
  }
  EXPECT_GT(inputs, 0);
}

TEST(FuzzCorpusTest, EveryRequestMessageHasATarget) {
  int methods = 0;
  for (const auto* file : {v1::GetGraphRequest::descriptor()->file(), v1::GetModelRequest::descriptor()->file(),
                           v1::ClassifyRequest::descriptor()->file(), v1::ExplainRequest::descriptor()->file(),
                           inference::ModelInferRequest::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        const auto* method = file->service(s)->method(m);
        const std::string name = file->service(s)->name() + "." + method->name();
        const Target* target = FindTarget(name);
        EXPECT_NE(target, nullptr) << name << ": add its request to tests/fuzz/calls.proto and to Session::Run";
        bool has_message = false;
        const auto* oneof = Call::descriptor()->FindOneofByName("request");
        for (int i = 0; i < oneof->field_count(); ++i) {
          has_message |= oneof->field(i)->message_type() == method->input_type();
        }
        EXPECT_TRUE(has_message) << name;
        ++methods;
      }
    }
  }
  EXPECT_EQ(methods, Call::descriptor()->FindOneofByName("request")->field_count());
}

}  // namespace
}  // namespace vicinal::fuzz
