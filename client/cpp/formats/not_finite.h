// SPDX-License-Identifier: Apache-2.0
// Finds NaN and infinities. The server rejects features that contain them; the client checks before uploading, because
// it can name the file and the id of the row. Answers may contain them, and the user should know.
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

// The first value that is NaN or infinite, if any.
std::optional<NotFinite> FindNotFinite(const Features& features);
// The same of a matrix [rows, columns] or a vector [rows] (column 0) of float32 or float16.
std::optional<NotFinite> FindNotFinite(const Array& array);

// Marks the rows of a matrix [rows, columns] that contain NaN or infinity; integer matrices have no such rows.
// REQUIRES: marks->size() is the number of rows.
void MarkRowsNotFinite(const Array& matrix, std::vector<bool>* marks);

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_FORMATS_NOT_FINITE_H_
