// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/layout_codec.h"

#include "absl/strings/str_cat.h"

namespace vicinal {

std::string LayoutInput::SizeProblem(std::string_view array, int64_t bytes, int64_t most) {
  return absl::StrCat("array '", std::string(array), "' has ", bytes,
                      " bytes: not a whole number of elements, or more than ", most, " bytes");
}

// Here, so that its type has one home, whichever library has the kernel.
LayoutCodec::~LayoutCodec() = default;

const LayoutCodec* LayoutCodecOf(const AggregateKernel& kernel) { return dynamic_cast<const LayoutCodec*>(&kernel); }

}  // namespace vicinal
