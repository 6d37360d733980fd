// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/parameter_range.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace vicinal {

bool ParameterRange::Allows(int32_t value) const {
  if (value == 0) return true;
  if (values_.empty()) return value >= lowest_ && value <= highest_;
  return std::find(values_.begin(), values_.end(), value) != values_.end();
}

std::string ParameterRange::Describe() const {
  if (values_.empty()) return absl::StrCat(lowest_ > 0 ? "0 or " : "", lowest_, " to ", highest_);
  std::vector<int32_t> all = values_;
  all.push_back(0);
  std::sort(all.begin(), all.end());
  std::string text;
  for (size_t i = 0; i < all.size(); ++i)
    absl::StrAppend(&text, i == 0 ? "" : i + 1 < all.size() ? ", " : " or ", all[i]);
  return text;
}

}  // namespace vicinal
