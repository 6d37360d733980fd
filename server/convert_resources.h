// SPDX-License-Identifier: Apache-2.0
// Graphs, feature sets and models as messages of the API.
#ifndef VICINAL_SERVER_CONVERT_RESOURCES_H_
#define VICINAL_SERVER_CONVERT_RESOURCES_H_

#include "engine/api/graph_picture.h"
#include "engine/api/order_kind.h"
#include "engine/api/resources.h"
#include "engine/base/clock.h"
#include "google/protobuf/timestamp.pb.h"
#include "vicinal/v1/graph.pb.h"
#include "vicinal/v1/model.pb.h"

namespace vicinal::server {

google::protobuf::Timestamp ToProto(WallTime time);
v1::Reorder ToProto(OrderKind order);
v1::Graph ToProto(const GraphResource& graph);
v1::GraphPicture ToProto(const GraphPicture& picture);
v1::FeatureSet ToProto(const FeatureSetResource& set);
v1::Model ToProto(const ModelResource& model);

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_CONVERT_RESOURCES_H_
