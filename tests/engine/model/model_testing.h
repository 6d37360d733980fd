// SPDX-License-Identifier: Apache-2.0
// What tests of models share: models that must load, the names of their steps, and what is expected of a document that
// is refused.
#ifndef VICINAL_TESTS_ENGINE_MODEL_MODEL_TESTING_H_
#define VICINAL_TESTS_ENGINE_MODEL_MODEL_TESTING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/model/model.h"
#include "tests/engine/model/safetensors_builder.h"

namespace vicinal::testing {

inline std::shared_ptr<const Model> LoadOrFail(const std::string& architecture,
                                               const SafetensorsBuilder& weights = {}) {
  auto model = LoadModel(architecture, weights.Build());
  EXPECT_TRUE(model.ok()) << architecture << model.status();
  return model.ok() ? *model : nullptr;
}

// A model of one layer "c" over `width` features.
inline std::string OfOneLayer(const std::string& type, const std::string& args, int width) {
  return R"({"format": "vicinal.model/1", "in_channels": )" + std::to_string(width) +
         R"(, "layers": [{"name": "c", "type": ")" + type + R"(", "args": {)" + args + "}}]}";
}

inline std::vector<std::string> NamesOfSteps(const Model& model) {
  std::vector<std::string> names;
  for (const Step& step : model.steps) names.push_back(StepName(step.op));
  return names;
}

// Loading is INVALID_ARGUMENT, with `reason`, `field` and a message that has `message` in it.
inline void ExpectRefused(const std::string& architecture, const std::string& weights, const std::string& reason,
                          const std::string& field, const std::string& message) {
  SCOPED_TRACE(architecture);
  const auto model = LoadModel(architecture, weights);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().code(), StatusCode::kInvalidArgument);
  const auto detail = DetailOf(model.status());
  ASSERT_TRUE(detail.has_value()) << model.status();
  EXPECT_EQ(detail->reason, reason);
  EXPECT_EQ(detail->field, field);
  EXPECT_THAT(std::string(model.status().message()), ::testing::HasSubstr(message));
}
// The same before any tensor is read: the file has none.
inline void ExpectRefused(const std::string& architecture, const std::string& reason, const std::string& field,
                          const std::string& message) {
  ExpectRefused(architecture, SafetensorsBuilder().Build(), reason, field, message);
}

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_MODEL_MODEL_TESTING_H_
