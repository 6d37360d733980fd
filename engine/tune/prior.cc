// SPDX-License-Identifier: Apache-2.0
#include "engine/tune/prior.h"

#include <algorithm>
#include <cmath>

namespace vicinal {
namespace {

// Bytes per second and core; nanoseconds.
constexpr double kL2Speed = 45e9, kLlcSpeed = 22e9, kMemorySpeed = 11e9;
constexpr double kEdgeNs = 0.7;         // of an edge in a pass, beside its row
constexpr double kVectorNs = 0.5;       // of 16 floats added
constexpr double kRowNs = 6.0;          // of a row of the result, beside its bytes
constexpr double kUnprefetched = 1.6;   // rows beyond the L2 take so much longer where nothing asks for them early
constexpr double kScalar = 8.0;         // the reference kernels, one element at a time
constexpr double kAttentionEdgeNs = 4;  // of a score and its exponential, per head
constexpr double kCopyNs = 1.0;         // of a row that is copied into a tile, beside its bytes
constexpr int64_t kPanelRows = 8192;    // of tiled_rows, for each of which it copies all parts of the sources again
constexpr double kL2Bytes = 1 << 20, kLlcBytes = 32 << 20;
constexpr int64_t kRegisterColumns = 256;  // that a kernel sums up in one pass

int32_t ValueOf(const std::vector<NamedParameter>& parameters, std::string_view name) {
  for (const NamedParameter& parameter : parameters)
    if (parameter.name == name) return parameter.value;
  return 0;
}

CacheShares RandomShares(const WorkShape& shape, int64_t row_bytes) {
  const double bytes = std::max(1.0, static_cast<double>(shape.cols) * static_cast<double>(row_bytes));
  return {std::min(1.0, kL2Bytes / bytes), std::min(1.0, kLlcBytes / bytes)};
}

// Seconds that a core takes to gather one row of so many bytes.
double GatherSeconds(const WorkShape& shape, int64_t row_bytes, bool prefetched) {
  CacheShares found = shape.reuse ? shape.reuse(row_bytes) : RandomShares(shape, row_bytes);
  found.llc = std::max(found.llc, found.l2);
  // A row takes whole cache lines.
  const double bytes = static_cast<double>((row_bytes + 63) / 64 * 64);
  const double beyond = (found.llc - found.l2) / kLlcSpeed + (1.0 - found.llc) / kMemorySpeed;
  return bytes * (found.l2 / kL2Speed + beyond * (prefetched ? 1.0 : kUnprefetched));
}

// Rows of sources that a pass copies into tiles: each once where one tile takes them all, else again for each panel of
// rows. 0 where nothing is copied.
double RowsCopied(const WorkShape& shape, int64_t tile_rows) {
  if (tile_rows <= 0) return 0.0;
  const int64_t panels = tile_rows < shape.cols ? (shape.rows + kPanelRows - 1) / kPanelRows : 1;
  return static_cast<double>(panels) * static_cast<double>(shape.cols);
}

// --- on a GPU ---

constexpr double kGpuL2Speed = 8.7e12, kGpuMemorySpeed = 4.2e12;  // bytes per second, measured on an H200
constexpr double kGpuL2Bytes = 50e6;                              // of 60 MB, what gathered rows have of it
constexpr double kLaunchSeconds = 3e-6;

// GNNAdvisor's Eq. 2, without its unit.
double GroupLatency(const WorkShape& shape, double width, double gs, double dw, double tpb) {
  constexpr double kMaxThreads = 1024.0;
  constexpr double kAlpha = 0.2;  // of the 0.15 to 0.3 that the paper gives
  const double edges = std::max<double>(1.0, static_cast<double>(shape.edges));
  const double workers = std::max(1.0, std::abs(dw - width / 3.0));
  const double threads = std::max(1.0, std::abs(tpb - std::sqrt(kMaxThreads)));
  const double imbalance = 1.0 + std::abs(gs - kAlpha * static_cast<double>(shape.rows) / edges);
  return edges * width / (gs * workers * threads) * imbalance;
}

// Of neighbor_group's setting, relative to one in the middle; its default is taken for that.
double GroupFactor(const WorkShape& shape, double width, const std::vector<NamedParameter>& parameters) {
  const double gs = ValueOf(parameters, "gs"), dw = ValueOf(parameters, "dw"), tpb = ValueOf(parameters, "tpb");
  if (gs <= 0 || dw <= 0 || tpb <= 0) return 1.0;
  const double middle = GroupLatency(shape, width, 32.0, 16.0, 128.0);
  return std::clamp(GroupLatency(shape, width, gs, dw, tpb) / middle, 0.8, 1.25);
}

// What the families took on an H200 by what binned_rows took, roughly: whom to try first.
double FamilyFactor(const WorkShape& shape, double width, std::string_view kernel,
                    const std::vector<NamedParameter>& parameters) {
  constexpr int64_t kFewEdges = 200'000;
  constexpr int64_t kLongRow = 16;
  const bool dense = shape.edges >= kFewEdges && shape.edges >= kLongRow * shape.rows;
  if (kernel == "length_sorted_rows") return dense ? 0.7 : 1.5;
  if (kernel == "dense_tiles" || kernel == "source_panels") return dense ? 0.9 : 1.2;
  if (kernel == "neighbor_group") return GroupFactor(shape, width, parameters);
  if (kernel == "partition_dual") return 0.75;
  if (kernel == "row_cache") return shape.edges < kFewEdges ? 0.9 : 1.6;
  if (kernel == "cusparse") return 1.8;
  if (kernel == "template_spmm") return 1.5;
  return 1.0;
}

double PredictGpuSeconds(const TuningKey& key, const WorkShape& shape, std::string_view kernel,
                         const std::vector<NamedParameter>& parameters) {
  const double columns = static_cast<double>(key.width * key.heads);
  const double row_bytes = columns * (key.storage == Storage::kFloat32 ? 4.0 : 2.0);
  const double rows = static_cast<double>(shape.rows), edges = static_cast<double>(shape.edges);
  const double in_l2 = std::min(1.0, kGpuL2Bytes / std::max(1.0, static_cast<double>(shape.cols) * row_bytes));
  const double gather = edges * row_bytes * (in_l2 / kGpuL2Speed + (1.0 - in_l2) / kGpuMemorySpeed);
  const double index_bytes = edges * (key.weights == EdgeWeights::kPerEdge ? 8.0 : 4.0);
  const double streamed = (index_bytes + rows * columns * 4.0) / kGpuMemorySpeed;
  return kLaunchSeconds + FamilyFactor(shape, columns, kernel, parameters) * (gather + streamed);
}

}  // namespace

double PredictSeconds(const TuningKey& key, const WorkShape& shape, std::string_view kernel,
                      const std::vector<NamedParameter>& parameters) {
  if (shape.device != DeviceKind::kCpu) return PredictGpuSeconds(key, shape, kernel, parameters);
  const int64_t element = key.storage == Storage::kFloat32 ? 4 : 2;
  const int64_t columns = key.width * key.heads;
  const int64_t tile = ValueOf(parameters, "tile_columns");
  const int64_t in_pass = std::min(columns, tile > 0 ? tile : kRegisterColumns);
  const int64_t passes = (columns + in_pass - 1) / in_pass;
  // Panels make all passes over a few rows before the next ones: what is found again is found as if rows were whole.
  const bool panels = ValueOf(parameters, "panel_rows") > 0;
  const bool prefetched = ValueOf(parameters, "prefetch_edges") >= 0;
  const double edges = static_cast<double>(shape.edges), rows = static_cast<double>(shape.rows);

  const double gather = panels ? GatherSeconds(shape, columns * element, prefetched) / static_cast<double>(passes)
                               : GatherSeconds(shape, in_pass * element, prefetched);
  const double index_bytes = key.weights == EdgeWeights::kPerEdge ? 8.0 : 4.0;
  double edge = index_bytes / (panels ? kL2Speed : kMemorySpeed) + gather +
                1e-9 * (kEdgeNs + kVectorNs * std::ceil(static_cast<double>(in_pass) / 16.0));
  if (key.operation == "attention") edge += 1e-9 * kAttentionEdgeNs * static_cast<double>(key.heads);
  const double row = 1e-9 * kRowNs * static_cast<double>(passes) + static_cast<double>(columns) * 4.0 / kMemorySpeed;
  const double copy = static_cast<double>(in_pass * element) / kLlcSpeed + 1e-9 * kCopyNs;
  const double copies = RowsCopied(shape, ValueOf(parameters, "source_rows"));
  const double alone = static_cast<double>(passes) * (edges * edge + copies * copy) + rows * row;
  return alone * (kernel == "reference" ? kScalar : 1.0) / std::max(1, shape.num_threads);
}

}  // namespace vicinal
