// SPDX-License-Identifier: Apache-2.0
// The checks that every tensor from outside must pass before its bytes are read.
#ifndef VICINAL_ENGINE_GRAPH_CHECK_TENSOR_H_
#define VICINAL_ENGINE_GRAPH_CHECK_TENSOR_H_

#include <initializer_list>
#include <string_view>

#include "engine/base/status.h"
#include "engine/base/tensor.h"

namespace vicinal::internal {

// INVALID_ARGUMENT (field = `name`) unless the type is one of `types`, the shape has `rank` extents, none negative, and
// the bytes are as many as type and shape need.
Status CheckTensor(const TensorView& tensor, std::string_view name, std::initializer_list<DataType> types, int rank);

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_GRAPH_CHECK_TENSOR_H_
