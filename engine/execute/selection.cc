// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/selection.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"

namespace vicinal {
namespace {

// 16 MiB: a few milliseconds, beside which the launch on a GPU is small.
constexpr int64_t kPieceValues = 4 << 20;

std::string FieldAt(std::string_view field, size_t i) { return absl::StrCat(std::string(field), "[", i, "]"); }

// Row `row` of `features`, dense, into `out` [cols].
void DenseRow(const HostFeatures& features, int64_t row, float* out) {
  if (!features.sparse) {
    std::memcpy(out, features.dense.data() + row * features.cols, features.cols * sizeof(float));
    return;
  }
  std::memset(out, 0, features.cols * sizeof(float));
  for (int64_t e = features.csr.row_ptr[row]; e < features.csr.row_ptr[row + 1]; ++e) {
    out[features.csr.col[e]] = features.csr.value.empty() ? 1.0f : features.csr.value[e];
  }
}

// Appends row `row` of `features` to `csr`; zeros of a dense row are left out.
void AppendSparseRow(const HostFeatures& features, int64_t row, Csr* csr) {
  if (features.sparse) {
    for (int64_t e = features.csr.row_ptr[row]; e < features.csr.row_ptr[row + 1]; ++e) {
      csr->col.push_back(features.csr.col[e]);
      csr->value.push_back(features.csr.value.empty() ? 1.0f : features.csr.value[e]);
    }
  } else {
    for (int64_t c = 0; c < features.cols; ++c) {
      const float value = features.dense[row * features.cols + c];
      if (value == 0.0f) continue;
      csr->col.push_back(static_cast<NodeId>(c));
      csr->value.push_back(value);
    }
  }
  csr->row_ptr.push_back(csr->nnz());
}

}  // namespace

Status CheckNodeIds(const std::vector<int64_t>& ids, int64_t num_nodes, std::string_view field) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < num_nodes) continue;
    return InvalidArgument(
        "NODE_OUT_OF_RANGE", FieldAt(field, i),
        absl::StrCat(FieldAt(field, i), " is ", ids[i], "; ids of this graph are 0 to ", num_nodes - 1));
  }
  return OkStatus();
}

Status CheckDistinct(const std::vector<int64_t>& ids, std::string_view field) {
  std::unordered_set<int64_t> seen;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (seen.insert(ids[i]).second) continue;
    return InvalidArgument(
        "DUPLICATE_NODE", FieldAt(field, i),
        absl::StrCat(FieldAt(field, i), " is ", ids[i], ", which came before; send each node's row once"));
  }
  return OkStatus();
}

int64_t RowsOfPiece(int64_t width) { return std::max<int64_t>(1, kPieceValues / std::max<int64_t>(1, width)); }

StatusOr<std::vector<float>> CopyRows(ConstMatrixView matrix, const std::vector<int64_t>& positions,
                                      const StopCheck& stop, DeviceContext& context) {
  const auto rows = static_cast<int64_t>(positions.size());
  const int64_t piece = RowsOfPiece(matrix.cols);
  std::vector<float> out;
  out.reserve(static_cast<size_t>(rows * matrix.cols));
  for (int64_t first = 0; first < rows; first += piece) {
    VICINAL_RETURN_IF_ERROR(stop());
    const int64_t count = std::min(piece, rows - first);
    // Grown piece by piece: memory is touched here for the first time, which takes longer than the copy.
    out.resize(static_cast<size_t>((first + count) * matrix.cols));
    VICINAL_RETURN_IF_ERROR(
        context.CopyRowsToHost(out.data() + first * matrix.cols, matrix, positions.data() + first, count));
  }
  return out;
}

std::vector<int64_t> PlacesOfNodes(int64_t rows, const Permutation& permutation, const std::vector<int64_t>* ids) {
  std::vector<int64_t> places(ids != nullptr ? ids->size() : static_cast<size_t>(rows));
  for (size_t i = 0; i < places.size(); ++i) {
    const int64_t id = ids != nullptr ? (*ids)[i] : static_cast<int64_t>(i);
    places[i] = permutation.is_identity() ? id : permutation.ToNew(static_cast<NodeId>(id));
  }
  return places;
}

ReplacedRows InPlaceOfRows(const FeatureMatrix& stored, const HostFeatures& rows, std::vector<int64_t> positions) {
  const auto count = static_cast<int64_t>(positions.size());
  ReplacedRows replaced;
  replaced.positions = std::move(positions);
  replaced.entries = stored.entries();
  HostFeatures& out = replaced.rows;
  out.sparse = stored.sparse();
  out.rows = count;
  out.cols = stored.cols();
  if (!out.sparse) {
    out.dense.resize(static_cast<size_t>(count * out.cols));
    for (int64_t i = 0; i < count; ++i) DenseRow(rows, i, out.dense.data() + i * out.cols);
    return replaced;
  }
  out.csr.num_rows = count;
  out.csr.num_cols = out.cols;
  out.csr.row_ptr.push_back(0);
  for (int64_t i = 0; i < count; ++i) {
    AppendSparseRow(rows, i, &out.csr);
    const int64_t* const stored_end = stored.host_row_ptr() + replaced.positions[i] + 1;
    replaced.entries -= stored_end[0] - stored_end[-1];
  }
  replaced.entries += out.csr.nnz();
  return replaced;
}

StatusOr<std::shared_ptr<const FeatureMatrix>> WithRows(const FeatureMatrix& stored, const HostFeatures& rows,
                                                        const std::vector<int64_t>& positions, Device& device) {
  // Each row is a copy of its own, which on a GPU costs as much as a quarter of a megabyte of the whole.
  constexpr int64_t kBytesPerRow = 256 << 10;
  const bool few = device.kind() == DeviceKind::kCpu ||
                   static_cast<int64_t>(positions.size()) * kBytesPerRow <= std::max(stored.size_bytes(), kBytesPerRow);
  if (!stored.sparse() && few) {
    std::vector<float> dense(positions.size() * static_cast<size_t>(stored.cols()));
    for (size_t i = 0; i < positions.size(); ++i) {
      DenseRow(rows, static_cast<int64_t>(i), dense.data() + i * stored.cols());
    }
    return FeatureMatrix::CopyWithRows(stored, dense, positions, device);
  }
  VICINAL_ASSIGN_OR_RETURN(const HostFeatures all, stored.ToHost(device));
  return FeatureMatrix::Upload(ReplaceRows(all, rows, positions), device);
}

HostFeatures ReplaceRows(const HostFeatures& stored, const HostFeatures& rows, const std::vector<int64_t>& positions) {
  if (!stored.sparse) {
    HostFeatures replaced = stored;
    for (size_t i = 0; i < positions.size(); ++i) {
      DenseRow(rows, static_cast<int64_t>(i), replaced.dense.data() + positions[i] * stored.cols);
    }
    return replaced;
  }
  std::vector<int64_t> replacement(static_cast<size_t>(stored.rows), -1);
  for (size_t i = 0; i < positions.size(); ++i) replacement[positions[i]] = static_cast<int64_t>(i);
  HostFeatures replaced;
  replaced.sparse = true;
  replaced.rows = stored.rows;
  replaced.cols = stored.cols;
  replaced.csr.num_rows = stored.csr.num_rows;
  replaced.csr.num_cols = stored.csr.num_cols;
  replaced.csr.row_ptr.push_back(0);
  for (int64_t r = 0; r < stored.rows; ++r) {
    const bool from_request = replacement[r] >= 0;
    AppendSparseRow(from_request ? rows : stored, from_request ? replacement[r] : r, &replaced.csr);
  }
  return replaced;
}

}  // namespace vicinal
