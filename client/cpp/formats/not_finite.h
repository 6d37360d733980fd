// SPDX-License-Identifier: Apache-2.0
// NaN and infinities. Features with them no server takes: they are found before megabytes travel, where it is known
// which file, and whose row. Answers may have them: the reader should know.
#ifndef VICINAL_CLIENT_CPP_FORMATS_NOT_FINITE_H_
#define VICINAL_CLIENT_CPP_FORMATS_NOT_FINITE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/cpp/formats/graph_file.h"

namespace vicinal::client {

struct NotFinite {
  int64_t row = 0;
  int64_t column = 0;
  std::string value;  // "nan", "inf" or "-inf"
};

// The first value that is NaN or infinite; none in what may be uploaded.
std::optional<NotFinite> FindNotFinite(const Features& features);

// Marks the rows of a matrix [rows, columns] in which a value is NaN or infinite; those of integers have none.
// REQUIRES: marks->size() is the number of rows.
void MarkRowsNotFinite(const Array& matrix, std::vector<bool>* marks);

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_FORMATS_NOT_FINITE_H_
