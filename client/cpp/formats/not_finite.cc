// SPDX-License-Identifier: Apache-2.0
// A float is NaN or infinite when all bits of its exponent are set: no conversion, one pass over the bytes.
#include "client/cpp/formats/not_finite.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace vicinal::client {
namespace {

struct Found {
  int64_t at = 0;
  std::string value;
};

// `exponent` and `mantissa`: their bits in a float as wide as Bits.
template <class Bits>
std::optional<Found> Search(const Array& array, Bits exponent, Bits mantissa) {
  const int64_t count = array.element_count();
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, array.data.data() + i * static_cast<int64_t>(sizeof(bits)), sizeof(bits));
    if ((bits & exponent) != exponent) continue;
    const bool negative = (bits & ~(exponent | mantissa)) != 0;
    return Found{i, (bits & mantissa) != 0 ? "nan" : negative ? "-inf" : "inf"};
  }
  return std::nullopt;
}

std::optional<Found> Search(const Array& array) {
  if (array.type == ElementType::kFloat16) return Search<uint16_t>(array, 0x7C00, 0x03FF);
  return Search<uint32_t>(array, 0x7F800000, 0x007FFFFF);
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

}  // namespace vicinal::client
