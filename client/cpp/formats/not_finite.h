// SPDX-License-Identifier: Apache-2.0
// Features that no server takes, found before megabytes travel: here it is known which file, and whose row.
#ifndef VICINAL_CLIENT_CPP_FORMATS_NOT_FINITE_H_
#define VICINAL_CLIENT_CPP_FORMATS_NOT_FINITE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "client/cpp/formats/graph_file.h"

namespace vicinal::client {

struct NotFinite {
  int64_t row = 0;
  int64_t column = 0;
  std::string value;  // "nan", "inf" or "-inf"
};

// The first value that is NaN or infinite; none in what may be uploaded.
std::optional<NotFinite> FindNotFinite(const Features& features);

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_FORMATS_NOT_FINITE_H_
