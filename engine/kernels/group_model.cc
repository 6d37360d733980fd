// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels/group_model.h"

#include <algorithm>
#include <cmath>

namespace vicinal {

double GroupModel::Alpha() const {
  constexpr double kLeast = 0.15, kMost = 0.3;  // the paper's range
  const double mean = edges / std::max(1.0, nodes);
  if (degree_deviation <= 0.0 || mean <= 0.0) return kLeast;
  return kLeast + (kMost - kLeast) * degree_deviation / (degree_deviation + mean);
}

double GroupModel::Latency(const GroupSetting& setting) const {
  const double most_edges = std::max(1.0, edges);
  const double workers = std::max(1.0, std::abs(setting.dw - width / 3.0));
  const double threads = std::max(1.0, std::abs(setting.tpb - std::sqrt(max_threads)));
  const double imbalance = 1.0 + std::abs(setting.gs - Alpha() * nodes / most_edges);
  return most_edges * width / (setting.gs * workers * threads) * imbalance;
}

bool GroupModel::Fits(const GroupSetting& setting) const {
  const double floats = setting.gs * width / setting.dw;
  if (lane_floats > 0.0 && floats > lane_floats) return false;
  const double degree = std::max(1.0, edges / std::max(1.0, nodes));
  const double rows = setting.tpb * setting.gs / (degree * setting.dw);
  return rows * width * sizeof(float) <= block_bytes;
}

}  // namespace vicinal
