// SPDX-License-Identifier: Apache-2.0
// The order metis in a build without libmetis: refused, with what to do.
#include "engine/base/error.h"
#include "engine/reorder/metis_order.h"

namespace vicinal::internal {

const bool kHaveMetis = false;

StatusOr<MetisOrder> NumberMetisParts(const UndirectedGraph&, int64_t, ThreadPool*) {
  return FailedPrecondition("METIS_MISSING",
                            "this server was built without METIS, which the order metis needs: ask for another order "
                            "(community is the nearest to it), or build with libmetis-dev installed");
}

}  // namespace vicinal::internal
