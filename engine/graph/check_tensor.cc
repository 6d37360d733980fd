// SPDX-License-Identifier: Apache-2.0
// Type, rank, extents, bytes: in that order, so that the message names the first thing to mend. O(1).
#include "engine/graph/check_tensor.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal::internal {
namespace {

absl::string_view Abs(std::string_view s) { return absl::string_view(s.data(), s.size()); }

std::string Alternatives(std::initializer_list<DataType> types) {
  std::string text;
  size_t i = 0;
  for (const DataType type : types) {
    if (i > 0) absl::StrAppend(&text, i + 1 == types.size() ? " or " : ", ");
    absl::StrAppend(&text, Abs(ToString(type)));
    ++i;
  }
  return text;
}

}  // namespace

Status CheckTensor(const TensorView& tensor, std::string_view name, std::initializer_list<DataType> types, int rank) {
  if (std::find(types.begin(), types.end(), tensor.dtype) == types.end()) {
    return InvalidArgument(
        "WRONG_TYPE", name,
        absl::StrCat(Abs(name), " is ", Abs(ToString(tensor.dtype)), "; it must be ", Alternatives(types)));
  }
  if (static_cast<int>(tensor.shape.size()) != rank) {
    return InvalidArgument("BAD_SHAPE", name,
                           absl::StrCat(Abs(name), " has shape ", ShapeToString(tensor.shape), "; it must have ", rank,
                                        rank == 1 ? " dimension" : " dimensions"));
  }
  return CheckBytes(tensor, name).status();
}

}  // namespace vicinal::internal
