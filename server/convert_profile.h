// SPDX-License-Identifier: Apache-2.0
// Converts the profile of a graph to the API's message. A pure function.
#ifndef VICINAL_SERVER_CONVERT_PROFILE_H_
#define VICINAL_SERVER_CONVERT_PROFILE_H_

#include "engine/api/engine.h"
#include "vicinal/v1/graph.pb.h"

namespace vicinal::server {

v1::GraphProfile ToProto(const GraphProfile& profile);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_CONVERT_PROFILE_H_
