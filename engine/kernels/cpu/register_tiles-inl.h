// SPDX-License-Identifier: Apache-2.0
// How large tiles of products are that stay in registers: rows of one matrix by panels of another, which has been
// packed 16 rows at a time. Compiled once per instruction set.
#if defined(VICINAL_ENGINE_KERNELS_CPU_REGISTER_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef VICINAL_ENGINE_KERNELS_CPU_REGISTER_TILES_INL_H_
#undef VICINAL_ENGINE_KERNELS_CPU_REGISTER_TILES_INL_H_
#else
#define VICINAL_ENGINE_KERNELS_CPU_REGISTER_TILES_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "engine/kernels/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vicinal::internal::HWY_NAMESPACE {

// Panels and rows of a tile, chosen so that accumulators, one row of panels and the broadcast fit 32 or 16 registers.
inline constexpr int kMaxPanels = kLanes >= 16 ? 4 : 1;

template <int kPanels>
constexpr int TileRows() {
  if (kLanes < 8) return 2;
  if (kLanes < 16) return 6;
  return kPanels == 4 ? 6 : kPanels == 3 ? 8 : kPanels == 2 ? 12 : 14;
}

// Calls `group` for as many panels at a time as a tile may have: with their number, as an integral constant, and the
// first one.
template <class Group>
VICINAL_INLINE void ForPanelGroups(int64_t panels, const Group& group) {
  for (int64_t panel = 0; panel < panels;) {
    const int64_t count = Smaller(kMaxPanels, panels - panel);
    switch (count) {
      case 1:
        group(std::integral_constant<int, 1>(), panel);
        break;
      case 2:
        group(std::integral_constant<int, HWY_MIN(2, kMaxPanels)>(), panel);
        break;
      case 3:
        group(std::integral_constant<int, HWY_MIN(3, kMaxPanels)>(), panel);
        break;
      default:
        group(std::integral_constant<int, kMaxPanels>(), panel);
        break;
    }
    panel += count;
  }
}

}  // namespace vicinal::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // VICINAL_ENGINE_KERNELS_CPU_REGISTER_TILES_INL_H_
