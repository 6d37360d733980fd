// SPDX-License-Identifier: Apache-2.0
#include "engine/api/order_kind.h"

#include <array>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal {
namespace {

struct OrderEntry {
  OrderKind kind;
  const char* name;
};

constexpr OrderEntry kOrders[] = {
    {OrderKind::kAuto, "auto"}, {OrderKind::kNone, "none"},           {OrderKind::kDegree, "degree"},
    {OrderKind::kRcm, "rcm"},   {OrderKind::kCommunity, "community"}, {OrderKind::kMetis, "metis"},
};

constexpr auto kKinds = [] {
  std::array<OrderKind, std::size(kOrders)> kinds = {};
  for (size_t i = 0; i < kinds.size(); ++i) kinds[i] = kOrders[i].kind;
  return kinds;
}();

}  // namespace

std::span<const OrderKind> KnownOrders() { return kKinds; }

std::string_view ToString(OrderKind kind) {
  for (const OrderEntry& entry : kOrders) {
    if (entry.kind == kind) return entry.name;
  }
  return "unknown";
}

StatusOr<OrderKind> ParseOrderKind(std::string_view name) {
  std::string known;
  for (const OrderEntry& entry : kOrders) {
    if (name == entry.name) return entry.kind;
    absl::StrAppend(&known, known.empty() ? "" : ", ", entry.name);
  }
  return InvalidArgument(
      "UNKNOWN_ORDER", "reorder",
      absl::StrCat("unknown order '", absl::string_view(name.data(), name.size()), "'; known: ", known));
}

}  // namespace vicinal
