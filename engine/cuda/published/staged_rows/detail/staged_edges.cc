// SPDX-License-Identifier: Apache-2.0
// Computes degrees, the staged sources and their places. Then two passes over the rows: the first counts each row's
// edges by partition, the second writes them.
#include "engine/cuda/published/staged_rows/detail/staged_edges.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "engine/cuda/runtime/send.h"

namespace vicinal::cuda {
namespace {

constexpr int64_t kRowsOfTask = 1 << 12;
// Cost of a row besides its edges, in edges: its bounds and its sum.
constexpr int64_t kRowCost = 2;

std::vector<int32_t> StagedSources(const CsrView& host, int64_t min_degree) {
  std::vector<int64_t> degree(host.cols, 0);
  for (int64_t edge = 0; edge < host.nnz; ++edge) ++degree[host.col[edge]];
  std::vector<int32_t> sources;
  for (int64_t node = 0; node < host.cols; ++node) {
    if (degree[node] >= min_degree) sources.push_back(static_cast<int32_t>(node));
  }
  constexpr size_t kMax = kMaxPartitions * kStagedSources;
  if (sources.size() > kMax) {
    std::stable_sort(sources.begin(), sources.end(), [&](int32_t a, int32_t b) { return degree[a] > degree[b]; });
    sources.resize(kMax);
    std::sort(sources.begin(), sources.end());
  }
  return sources;
}

class Builder {
 public:
  Builder(const CsrView& host, const std::vector<int32_t>& sources, ThreadPool& pool)
      : host_(host), pool_(pool), place_(host.cols, -1) {
    for (size_t i = 0; i < sources.size(); ++i) place_[sources[i]] = static_cast<int32_t>(i);
    partitions_ = (static_cast<int64_t>(sources.size()) + kStagedSources - 1) / kStagedSources;
    result_.source = sources;
    result_.source.resize(partitions_ * kStagedSources, -1);
  }

  HostStagedEdges Build() {
    result_.row_ptr.assign(partitions_ * (host_.rows + 1), 0);
    result_.rest_row_ptr.assign(host_.rows + 1, 0);
    ForRows([this](int64_t row) { Count(row); });
    std::partial_sum(result_.row_ptr.begin(), result_.row_ptr.end(), result_.row_ptr.begin());
    std::partial_sum(result_.rest_row_ptr.begin(), result_.rest_row_ptr.end(), result_.rest_row_ptr.begin());
    result_.local.resize(host_.nnz - result_.rest_row_ptr.back());
    result_.rest_col.resize(result_.rest_row_ptr.back());
    if (host_.value != nullptr) {
      result_.value.resize(result_.local.size());
      result_.rest_value.resize(result_.rest_col.size());
    }
    ForRows([this](int64_t row) { Fill(row); });
    CutRuns();
    return std::move(result_);
  }

 private:
  template <class Body>
  void ForRows(const Body& body) {
    pool_.ParallelFor((host_.rows + kRowsOfTask - 1) / kRowsOfTask, [&](int64_t task, int) {
      for (int64_t row = task * kRowsOfTask; row < std::min(host_.rows, (task + 1) * kRowsOfTask); ++row) body(row);
    });
  }
  // The first edge of a row in a partition. A row ends where the next one begins, and the last row where the next
  // partition begins.
  int32_t& Begin(int64_t partition, int64_t row) { return result_.row_ptr[partition * (host_.rows + 1) + row]; }

  void Count(int64_t row) {
    for (int64_t edge = host_.row_ptr[row]; edge < host_.row_ptr[row + 1]; ++edge) {
      const int32_t place = place_[host_.col[edge]];
      if (place < 0) {
        ++result_.rest_row_ptr[row + 1];
      } else {
        ++Begin(place / kStagedSources, row + 1);
      }
    }
  }

  void Fill(int64_t row) {
    std::array<int32_t, kMaxPartitions> next;
    for (int64_t partition = 0; partition < partitions_; ++partition) next[partition] = Begin(partition, row);
    int64_t rest = result_.rest_row_ptr[row];
    for (int64_t edge = host_.row_ptr[row]; edge < host_.row_ptr[row + 1]; ++edge) {
      const int32_t place = place_[host_.col[edge]];
      if (place < 0) {
        if (host_.value != nullptr) result_.rest_value[rest] = host_.value[edge];
        result_.rest_col[rest++] = host_.col[edge];
      } else {
        const int32_t at = next[place / kStagedSources]++;
        result_.local[at] = static_cast<uint16_t>(place % kStagedSources);
        if (host_.value != nullptr) result_.value[at] = host_.value[edge];
      }
    }
  }

  void CutRuns() {
    std::vector<int32_t> rows(host_.rows);
    std::iota(rows.begin(), rows.end(), 0);
    for (int64_t partition = 0; partition < partitions_; ++partition) {
      const auto cost = [&](int64_t row) { return Begin(partition, row) - Begin(partition, 0) + kRowCost * row; };
      for (int64_t run = 0; run <= kRowRuns; ++run) {
        const int64_t want = cost(host_.rows) * run / kRowRuns;
        const auto cut = std::partition_point(rows.begin(), rows.end(), [&](int32_t row) { return cost(row) < want; });
        result_.border.push_back(static_cast<int32_t>(cut - rows.begin()));
      }
    }
  }

  const CsrView& host_;
  ThreadPool& pool_;
  std::vector<int32_t> place_;  // of each source among the staged ones; -1: not staged
  int64_t partitions_ = 0;
  HostStagedEdges result_;
};

}  // namespace

HostStagedEdges BuildStagedEdges(const CsrView& host, int64_t min_degree, ThreadPool& pool) {
  return Builder(host, StagedSources(host, min_degree), pool).Build();
}

StatusOr<std::shared_ptr<const StagedEdgesLayout>> StagedEdgesLayout::Upload(const HostStagedEdges& host,
                                                                             Device& device) {
  auto layout = std::make_shared<StagedEdgesLayout>();
  VICINAL_ASSIGN_OR_RETURN(layout->source_, Send(host.source, device));
  VICINAL_ASSIGN_OR_RETURN(layout->row_ptr_, Send(host.row_ptr, device));
  VICINAL_ASSIGN_OR_RETURN(layout->border_, Send(host.border, device));
  VICINAL_ASSIGN_OR_RETURN(layout->local_, Send(host.local, device));
  VICINAL_ASSIGN_OR_RETURN(layout->value_, Send(host.value, device));
  VICINAL_ASSIGN_OR_RETURN(layout->rest_row_ptr_, Send(host.rest_row_ptr, device));
  VICINAL_ASSIGN_OR_RETURN(layout->rest_col_, Send(host.rest_col, device));
  VICINAL_ASSIGN_OR_RETURN(layout->rest_value_, Send(host.rest_value, device));
  const bool weighted = !host.value.empty() || !host.rest_value.empty();
  layout->view_ = {host.partitions(),
                   layout->source_.as<int32_t>(),
                   layout->row_ptr_.as<int32_t>(),
                   layout->border_.as<int32_t>(),
                   layout->local_.as<uint16_t>(),
                   weighted ? layout->value_.as<float>() : nullptr,
                   layout->rest_row_ptr_.as<int64_t>(),
                   layout->rest_col_.as<int32_t>(),
                   weighted ? layout->rest_value_.as<float>() : nullptr,
                   static_cast<int64_t>(host.rest_col.size())};
  return std::shared_ptr<const StagedEdgesLayout>(std::move(layout));
}

int64_t StagedEdgesLayout::size_bytes() const {
  return static_cast<int64_t>(source_.bytes() + row_ptr_.bytes() + border_.bytes() + local_.bytes() + value_.bytes() +
                              rest_row_ptr_.bytes() + rest_col_.bytes() + rest_value_.bytes());
}

// Each edge, with its weight, is either staged or in the rest.
int64_t StagedEdgesBytesBound(int64_t rows, int64_t edges) {
  const int64_t max_partitions = std::min(kMaxPartitions, edges / kStagedSources + 1);
  return 8 * edges + 8 * (rows + 1) + max_partitions * 4 * (rows + 1 + kStagedSources + kRowRuns + 1);
}

}  // namespace vicinal::cuda
