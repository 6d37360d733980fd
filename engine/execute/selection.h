// SPDX-License-Identifier: Apache-2.0
// Rows that a request asks for or brings, between the client's ids and execution order.
#ifndef VICINAL_ENGINE_EXECUTE_SELECTION_H_
#define VICINAL_ENGINE_EXECUTE_SELECTION_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/device/device.h"
#include "engine/device/views.h"
#include "engine/graph/validate.h"
#include "engine/plan/plan.h"
#include "engine/prepared/prepared_graph.h"
#include "engine/reorder/order.h"

namespace vicinal {

// INVALID_ARGUMENT (reason NODE_OUT_OF_RANGE) naming the first id outside [0, num_nodes), as "nodes.ids[3]".
Status CheckNodeIds(const std::vector<int64_t>& ids, int64_t num_nodes, std::string_view field);
// INVALID_ARGUMENT (reason DUPLICATE_NODE) naming the first id that came before. REQUIRES: ids in range.
Status CheckDistinct(const std::vector<int64_t>& ids, std::string_view field);

// Rows `positions` of `matrix` (device memory) as [positions, width] on the host. No other rows leave the device.
// `stop` is asked before each piece of some megabytes, and its error returned.
StatusOr<std::vector<float>> CopyRows(ConstMatrixView matrix, const std::vector<int64_t>& positions,
                                      const StopCheck& stop, DeviceContext& context);
// Rows of `width` values that are copied between two questions of `stop`: some megabytes.
int64_t RowsOfPiece(int64_t width);
// Rows, in execution order, of the nodes `ids` in their order, or with `ids` null of all `rows` in order of the
// client's ids.
std::vector<int64_t> PlacesOfNodes(int64_t rows, const Permutation& permutation, const std::vector<int64_t>* ids);

// `rows`, in the form of `stored`, for runs that read them in place of its rows `positions` (distinct).
ReplacedRows InPlaceOfRows(const FeatureMatrix& stored, const HostFeatures& rows, std::vector<int64_t> positions);
// `stored` with row positions[i] replaced by row i of `rows`, on the device. REQUIRES: equal widths, positions
// distinct.
StatusOr<std::shared_ptr<const FeatureMatrix>> WithRows(const FeatureMatrix& stored, const HostFeatures& rows,
                                                        const std::vector<int64_t>& positions, Device& device);

// `stored` with row positions[i] replaced by row i of `rows`. The result is sparse if `stored` is. REQUIRES: equal
// widths, positions distinct.
HostFeatures ReplaceRows(const HostFeatures& stored, const HostFeatures& rows, const std::vector<int64_t>& positions);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_SELECTION_H_
