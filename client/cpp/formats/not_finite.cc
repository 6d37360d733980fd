// SPDX-License-Identifier: Apache-2.0
// A float is NaN or infinite when all bits of its exponent are set: no conversion, one pass over the bytes.
#include "client/cpp/formats/not_finite.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace vicinal::client {
namespace {

// Where the first value from `begin` on is whose exponent's bits are all set; `end` where none is.
template <class Bits>
int64_t Seek(const Array& array, int64_t begin, int64_t end, Bits exponent) {
  for (int64_t i = begin; i < end; ++i) {
    Bits bits;
    std::memcpy(&bits, array.data.data() + i * static_cast<int64_t>(sizeof(bits)), sizeof(bits));
    if ((bits & exponent) == exponent) return i;
  }
  return end;
}

constexpr uint16_t kExponent16 = 0x7C00, kMantissa16 = 0x03FF;
constexpr uint32_t kExponent32 = 0x7F800000, kMantissa32 = 0x007FFFFF;

struct Found {
  int64_t at = 0;
  std::string value;
};

// `exponent` and `mantissa`: their bits in a float as wide as Bits.
template <class Bits>
std::optional<Found> Search(const Array& array, Bits exponent, Bits mantissa) {
  const int64_t at = Seek(array, 0, array.element_count(), exponent);
  if (at == array.element_count()) return std::nullopt;
  Bits bits;
  std::memcpy(&bits, array.data.data() + at * static_cast<int64_t>(sizeof(bits)), sizeof(bits));
  const bool negative = (bits & ~(exponent | mantissa)) != 0;
  return Found{at, (bits & mantissa) != 0 ? "nan" : negative ? "-inf" : "inf"};
}

std::optional<Found> Search(const Array& array) {
  if (array.type == ElementType::kFloat16) return Search<uint16_t>(array, kExponent16, kMantissa16);
  return Search<uint32_t>(array, kExponent32, kMantissa32);
}

}  // namespace

std::optional<NotFinite> FindNotFinite(const Features& features) {
  const std::optional<Found> found = Search(features.sparse ? features.values : features.dense);
  if (!found) return std::nullopt;
  if (!features.sparse) return NotFinite{found->at / features.columns, found->at % features.columns, found->value};
  const std::vector<int64_t> indptr = *ToInts(features.indptr), columns = *ToInts(features.indices);
  const auto end = std::upper_bound(indptr.begin(), indptr.end(), found->at);
  return NotFinite{end - indptr.begin() - 1, columns[static_cast<size_t>(found->at)], found->value};
}

std::optional<NotFinite> FindNotFinite(const Array& array) {
  const std::optional<Found> found = Search(array);
  if (!found) return std::nullopt;
  const int64_t columns = array.shape.size() == 2 ? array.shape[1] : 1;
  return NotFinite{found->at / columns, found->at % columns, found->value};
}

void MarkRowsNotFinite(const Array& matrix, std::vector<bool>* marks) {
  const int64_t columns = matrix.shape[1];
  const auto mark = [&](auto exponent) {
    for (size_t row = 0; row < marks->size(); ++row) {
      const int64_t begin = static_cast<int64_t>(row) * columns, end = begin + columns;
      if (Seek(matrix, begin, end, exponent) != end) (*marks)[row] = true;
    }
  };
  if (matrix.type == ElementType::kFloat32) mark(kExponent32);
  if (matrix.type == ElementType::kFloat16) mark(kExponent16);
}

}  // namespace vicinal::client
