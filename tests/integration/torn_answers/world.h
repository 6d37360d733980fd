// SPDX-License-Identifier: Apache-2.0
// What the torn-answer test uploads, made from seeds: graphs with features, further features, models. All graphs have
// the same nodes, so that any features and any question fit any of them. Numbers are random floats, so that an answer
// which mixes two versions, or adds in another order, has other bits.
#ifndef VICINAL_TESTS_INTEGRATION_TORN_ANSWERS_WORLD_H_
#define VICINAL_TESTS_INTEGRATION_TORN_ANSWERS_WORLD_H_

#include <cstdint>
#include <string>

#include "client/cpp/client.h"

namespace vicinal::testing {

inline constexpr int64_t kTornNodes = 300, kTornFeatures = 12, kTornHidden = 16, kTornClasses = 5;
// Of the rows that the model may aggregate.
inline constexpr int64_t kTornWidths[] = {kTornClasses, kTornFeatures, kTornHidden};

// Each uploads under the fixed names "g", "default" and "m", replacing what is there, and returns the version.
absl::StatusOr<int64_t> PutTornGraph(client::Client& client, int64_t seed);
absl::StatusOr<int64_t> PutTornFeatures(client::Client& client, int64_t seed);
absl::StatusOr<int64_t> PutTornModel(client::Client& client, int64_t seed);

// Asks for the logits of all nodes.
v1::ClassifyRequest AskAllNodes(v1::Precision precision);

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_INTEGRATION_TORN_ANSWERS_WORLD_H_
