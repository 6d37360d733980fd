// SPDX-License-Identifier: Apache-2.0
// Changes the field of an error, for code that serves several request fields.
#ifndef VICINAL_ENGINE_BASE_WITH_FIELD_H_
#define VICINAL_ENGINE_BASE_WITH_FIELD_H_

#include <string>
#include <string_view>

#include "engine/base/error.h"

namespace vicinal {

// `status` with its field, if any, replaced by `field`.
inline Status WithField(const Status& status, std::string_view field) {
  auto detail = DetailOf(status);
  if (!detail || detail->field.empty()) return status;
  detail->field = std::string(field);
  return MakeError(status.code(), {status.message().data(), status.message().size()}, *detail);
}

}  // namespace vicinal

#endif  // VICINAL_ENGINE_BASE_WITH_FIELD_H_
