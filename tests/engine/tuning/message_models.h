// SPDX-License-Identifier: Apache-2.0
// Models with message functions of their own on the large graph (tuning_testing.h).
#ifndef VICINAL_TESTS_ENGINE_TUNING_MESSAGE_MODELS_H_
#define VICINAL_TESTS_ENGINE_TUNING_MESSAGE_MODELS_H_

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/engine/tuning/tuning_testing.h"

namespace vicinal::testing {

// One layer of 12 columns, whose message no other operation computes. Its parameter `w` begins with `first`.
inline void PutMessageModel(Engine& engine, const std::string& name, const std::string& message,
                            const std::string& aggr, float first = -0.5f) {
  ModelSource model;
  model.name = name;
  model.architecture_json = absl::StrCat(R"({"format": "vicinal.model/1", "in_channels": 12, "layers": [)",
                                         R"({"name": "c", "type": "MessagePassing", "args": {"message": ")", message,
                                         R"(", "aggr": ")", aggr, R"("}}]})");
  model.weights_file = SafetensorsBuilder().AddRamp("c.w", {kColumns, kColumns}, first).Build();
  const auto put = engine.PutModel(model, {});
  ASSERT_TRUE(put.ok()) << put.status();
}

inline constexpr char kProductMessage[] = "linear(tanh(x_i * x_j), w) * x_j";
inline constexpr char kOtherMessage[] = "tanh(x_i * x_j) * linear(x_j, w)";

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_TUNING_MESSAGE_MODELS_H_
