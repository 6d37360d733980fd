// SPDX-License-Identifier: Apache-2.0
// docs/formats.md and docs/layers.md are true: every example of an architecture is read, every layer type and argument
// is told of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/model/model.h"
#include "tests/engine/model/safetensors_builder.h"

namespace vicinal {
namespace {

std::string ReadDocument(const std::string& name) {
  std::ifstream file(std::string(VICINAL_TEST_DATA) + "/../../docs/" + name);
  EXPECT_TRUE(file.good()) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// What stands between ```json and ```.
std::vector<std::string> JsonExamples(const std::string& text) {
  const std::string open = "```json\n", close = "```";
  std::vector<std::string> examples;
  for (size_t at = text.find(open); at != std::string::npos; at = text.find(open, at)) {
    at += open.size();
    examples.push_back(text.substr(at, text.find(close, at) - at));
  }
  return examples;
}

TEST(DocsTest, EveryExampleOfAnArchitectureIsRead) {
  const std::vector<std::string> examples = JsonExamples(ReadDocument("formats.md"));
  EXPECT_GE(examples.size(), 5);
  for (const std::string& example : examples) {
    SCOPED_TRACE(example);
    // There are no weights, so the first tensor is what is missing: all before it was right.
    const auto model = LoadModel(example, testing::SafetensorsBuilder().Build());
    ASSERT_FALSE(model.ok());
    EXPECT_EQ(DetailOf(model.status())->reason, "TENSOR_MISSING") << model.status();
  }
}

// The part of `text` under the heading "## name".
std::string Section(const std::string& text, const std::string& name) {
  const size_t begin = text.find("\n## " + name + "\n");
  if (begin == std::string::npos) return "";
  const size_t end = text.find("\n## ", begin + 1);
  return text.substr(begin, end == std::string::npos ? end : end - begin);
}

TEST(DocsTest, EveryLayerTypeAndArgumentIsTold) {
  const std::string text = ReadDocument("layers.md");
  const std::string shared = Section(text, "What all convolutions share");
  ASSERT_FALSE(shared.empty());
  for (const LayerTypeInfo& type : SupportedLayerTypes()) {
    const std::string section = Section(text, type.type);
    EXPECT_FALSE(section.empty()) << type.type;
    std::vector<std::string> arguments = type.supported;
    arguments.insert(arguments.end(), type.refused.begin(), type.refused.end());
    for (const std::string& argument : arguments) {
      const std::string quoted = "`" + argument + "`";
      const bool convolution = type.type.find("Conv") != std::string::npos || type.type == "APPNP";
      const bool told =
          section.find(quoted) != std::string::npos || (convolution && shared.find(quoted) != std::string::npos);
      EXPECT_TRUE(told) << type.type << " " << argument;
    }
  }
}

}  // namespace
}  // namespace vicinal
