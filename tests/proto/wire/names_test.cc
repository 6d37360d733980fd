// SPDX-License-Identifier: Apache-2.0
// The grammar of names against the same grammar as a POSIX regular expression.
#include "proto/wire/names.h"

#include <gtest/gtest.h>
#include <regex.h>

#include <string>
#include <vector>

namespace vicinal::wire {
namespace {

// Matches whole strings, embedded zeros included.
class Grammar {
 public:
  explicit Grammar(const char* grammar) {
    EXPECT_EQ(regcomp(&regex_, (std::string("^") + grammar + "$").c_str(), REG_EXTENDED), 0);
  }
  ~Grammar() { regfree(&regex_); }
  Grammar(const Grammar&) = delete;
  Grammar& operator=(const Grammar&) = delete;

  bool Matches(const std::string& text) const {
    regmatch_t match = {0, static_cast<regoff_t>(text.size())};
    return regexec(&regex_, text.c_str(), 1, &match, REG_STARTEND) == 0;
  }

 private:
  regex_t regex_;
};

TEST(NamesTest, AgreeWithTheGrammar) {
  const Grammar names(kNameGrammar), uploads(kUploadIdGrammar);
  std::vector<std::string> samples = {"",     "a",       "0",           "cora",     "Cora",     "-a",
                                      ".a",   "_a",      "a-b",         "a.b",      "a_b",      "a b",
                                      "a/b",  "../etc",  "caf\xC3\xA9", "a\n",      "a..",      "12",
                                      "abc~", "1234567", "12345678",    "1234567_", "-------a", "ABCDEFGH"};
  for (const int size : {7, 8, 62, 63, 64, 65, 1000}) samples.push_back(std::string(size, 'x'));
  samples.push_back(std::string("a\0b", 3));
  for (const std::string& sample : samples) {
    EXPECT_EQ(IsValidName(sample), names.Matches(sample)) << sample;
    EXPECT_EQ(IsValidUploadId(sample), uploads.Matches(sample)) << sample;
  }
}

TEST(NamesTest, EveryByteAlone) {
  const Grammar names(kNameGrammar);
  for (int c = 0; c < 256; ++c) {
    const std::string first(1, static_cast<char>(c));
    EXPECT_EQ(IsValidName(first), names.Matches(first)) << c;
    EXPECT_EQ(IsValidName("a" + first), names.Matches("a" + first)) << c;
  }
}

}  // namespace
}  // namespace vicinal::wire
