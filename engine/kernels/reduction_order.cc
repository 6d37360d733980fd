// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/reduction_order.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/fnv1a.h"

namespace vicinal {
namespace {

int64_t Fold(uint64_t hash) {
  constexpr uint64_t kTop = uint64_t{1} << (kReductionOrderBits - 1);
  return static_cast<int64_t>(((hash ^ hash >> (kReductionOrderBits - 1)) & (kTop - 1)) | kTop);
}

std::string NameAndVersion(const DeclaredOrder& order) {
  return absl::StrCat("'", std::string(order.name), "' version ", order.version);
}

}  // namespace

int64_t ReductionOrderId(std::string_view operation, const DeclaredOrder& order, std::span<const int64_t> parameters) {
  while (!parameters.empty() && parameters.back() == 0) parameters = parameters.first(parameters.size() - 1);
  std::string text = absl::StrCat(std::string(operation), "/", std::string(order.name), "/", order.version);
  if (!parameters.empty()) absl::StrAppend(&text, "/", absl::StrJoin(parameters, ","));
  return Fold(Fnv1a(text));
}

int64_t MixReductionOrders(int64_t before, int64_t place, int64_t id) {
  std::string bytes;
  for (const int64_t number : {before, place, id}) {
    for (int shift = 0; shift < 64; shift += 8)
      bytes.push_back(static_cast<char>(static_cast<uint64_t>(number) >> shift & 255));
  }
  return Fold(Fnv1a(bytes));
}

std::string WhyOrdersConflict(std::string_view operation, const DeclaredOrder& a, const DeclaredOrder& b) {
  if (a.name == b.name && a.version == b.version) {
    if (a.standard == b.standard) return {};
    return absl::StrCat("the reduction order ", NameAndVersion(a), " of ", std::string(operation),
                        " is declared both standard and not standard");
  }
  if (ReductionOrderId(operation, a) != ReductionOrderId(operation, b)) return {};
  return absl::StrCat("the reduction orders ", NameAndVersion(a), " and ", NameAndVersion(b), " of ",
                      std::string(operation), " have the same id ", ReductionOrderId(operation, a),
                      ": rename the newer one");
}

}  // namespace vicinal
