// SPDX-License-Identifier: Apache-2.0
// Uploads, and the caches of derived adjacencies and their layouts. Invariant: an adjacency in the cache never changes,
// and goes only while nobody uses the graph, so handles and views taken from it stay good; a layout stays as long as
// anyone holds it. Deriving one
// costs O(N + E) and runs outside the caches' lock.
#include "engine/prepared/prepared_graph.h"

#include <algorithm>
#include <chrono>

#include "engine/base/check.h"
#include "engine/graph/edge_features.h"

namespace vicinal {
namespace {

template <class T>
StatusOr<Buffer> UploadVector(const std::vector<T>& values, Device& device) {
  const size_t bytes = values.size() * sizeof(T);
  VICINAL_ASSIGN_OR_RETURN(Buffer buffer, device.Allocate(bytes));
  if (bytes > 0) VICINAL_RETURN_IF_ERROR(device.CopyFromHost(buffer.data(), values.data(), bytes));
  return buffer;
}

// Floats from one row of dense features to the next.
int64_t RowStride(int64_t cols, const Device& device) {
  if (device.kind() == DeviceKind::kCpu) return cols;
  const int64_t piece = cols >= 128 ? 16 : cols >= 32 ? 4 : 1;
  return (cols + piece - 1) / piece * piece;
}

// Between padded rows on the device and rows without padding on the host, so much goes at once.
constexpr int64_t kFloatsAtOnce = int64_t{1} << 21;

// Rows with padding of zeros between them. The host pads them, some at a time.
StatusOr<Buffer> UploadRows(const HostFeatures& features, int64_t stride, Device& device) {
  const int64_t rows = features.rows, cols = features.cols;
  if (stride == cols) return UploadVector(features.dense, device);
  VICINAL_ASSIGN_OR_RETURN(Buffer buffer, device.Allocate(static_cast<size_t>(rows * stride) * sizeof(float)));
  const int64_t at_once = std::min(rows, std::max<int64_t>(1, kFloatsAtOnce / stride));
  std::vector<float> apart(static_cast<size_t>(at_once * stride));
  for (int64_t begin = 0; begin < rows; begin += at_once) {
    const int64_t count = std::min(at_once, rows - begin);
    for (int64_t r = 0; r < count; ++r) {
      std::copy_n(features.dense.data() + (begin + r) * cols, cols, apart.data() + r * stride);
    }
    VICINAL_RETURN_IF_ERROR(device.CopyFromHost(buffer.as<float>() + begin * stride, apart.data(),
                                                static_cast<size_t>(count * stride) * sizeof(float)));
  }
  return buffer;
}

// Rows [rows, cols] without the padding between them, some at a time.
StatusOr<std::vector<float>> RowsToHost(ConstMatrixView rows, Device& device) {
  std::vector<float> host(static_cast<size_t>(rows.rows * rows.cols));
  if (rows.stride == rows.cols) {
    VICINAL_RETURN_IF_ERROR(device.CopyToHost(host.data(), rows.data, host.size() * sizeof(float)));
    return host;
  }
  const int64_t at_once = std::min(rows.rows, std::max<int64_t>(1, kFloatsAtOnce / rows.stride));
  std::vector<float> padded(static_cast<size_t>(at_once * rows.stride));
  for (int64_t begin = 0; begin < rows.rows; begin += at_once) {
    const int64_t count = std::min(at_once, rows.rows - begin);
    VICINAL_RETURN_IF_ERROR(device.CopyToHost(padded.data(), rows.data + begin * rows.stride,
                                              static_cast<size_t>(count * rows.stride) * sizeof(float)));
    for (int64_t r = 0; r < count; ++r) {
      std::copy_n(padded.data() + r * rows.stride, rows.cols, host.data() + (begin + r) * rows.cols);
    }
  }
  return host;
}

// Of degrees: with loops of weight 1 they are the same whether loops are added or replaced.
SelfLoops CanonicalLoops(SelfLoops loops) { return loops == SelfLoops::kAddRemaining ? SelfLoops::kReplace : loops; }

StatusOr<std::shared_ptr<const DeviceCsr>> Derive(const PreparedGraph::Parts& graph, const AdjacencySpec& canonical,
                                                  Device& device) {
  const EdgeWeighting own = graph.csr.value.empty() ? EdgeWeighting::kNone : EdgeWeighting::kSent;
  // The graph's own edges go to the device as they are.
  const bool as_sent = canonical.loops == SelfLoops::kAsSent && !canonical.transposed;
  if (as_sent && canonical.weighting == own) return DeviceCsr::Upload(graph.csr, device);
  const std::vector<NodeId>* names = graph.permutation.is_identity() ? nullptr : &graph.permutation.old_of_new();
  VICINAL_ASSIGN_OR_RETURN(const Csr csr, BuildAdjacency(graph.csr, canonical, names));
  return DeviceCsr::Upload(csr, device);
}

}  // namespace

StatusOr<std::shared_ptr<const DeviceCsr>> DeviceCsr::Upload(const Csr& csr, Device& device) {
  auto result = std::make_shared<DeviceCsr>();
  VICINAL_ASSIGN_OR_RETURN(result->row_ptr_, UploadVector(csr.row_ptr, device));
  VICINAL_ASSIGN_OR_RETURN(result->col_, UploadVector(csr.col, device));
  VICINAL_ASSIGN_OR_RETURN(result->value_, UploadVector(csr.value, device));
  result->view_ = {csr.num_rows,
                   csr.num_cols,
                   csr.nnz(),
                   result->row_ptr_.as<EdgeId>(),
                   result->col_.as<NodeId>(),
                   csr.value.empty() ? nullptr : result->value_.as<float>()};
  result->size_bytes_ = csr.size_bytes();
  return result;
}

StatusOr<std::shared_ptr<const DeviceCsr>> DeviceCsr::Concatenate(const std::vector<CsrView>& parts,
                                                                  const std::vector<EdgeId>& row_ptr, Device& device) {
  auto result = std::make_shared<DeviceCsr>();
  CsrView& all = result->view_;
  all.rows = static_cast<int64_t>(row_ptr.size()) - 1;
  all.cols = parts.front().cols;
  all.nnz = row_ptr.back();
  const bool weighted =
      std::any_of(parts.begin(), parts.end(), [](const CsrView& part) { return part.value != nullptr; });
  const auto entries = static_cast<size_t>(all.nnz);
  VICINAL_ASSIGN_OR_RETURN(result->row_ptr_, UploadVector(row_ptr, device));
  VICINAL_ASSIGN_OR_RETURN(result->col_, device.Allocate(entries * sizeof(NodeId)));
  VICINAL_ASSIGN_OR_RETURN(result->value_, device.Allocate(weighted ? entries * sizeof(float) : 0));
  int64_t before = 0;
  for (const CsrView& part : parts) {
    const auto count = static_cast<size_t>(part.nnz);
    if (count == 0) continue;
    VICINAL_RETURN_IF_ERROR(device.CopyOnDevice(result->col_.as<NodeId>() + before, part.col, count * sizeof(NodeId)));
    if (part.value != nullptr) {
      VICINAL_RETURN_IF_ERROR(
          device.CopyOnDevice(result->value_.as<float>() + before, part.value, count * sizeof(float)));
    } else if (weighted) {
      const std::vector<float> ones(count, 1.0f);
      VICINAL_RETURN_IF_ERROR(
          device.CopyFromHost(result->value_.as<float>() + before, ones.data(), count * sizeof(float)));
    }
    before += part.nnz;
  }
  all.row_ptr = result->row_ptr_.as<EdgeId>();
  all.col = result->col_.as<NodeId>();
  all.value = weighted ? result->value_.as<float>() : nullptr;
  result->size_bytes_ = static_cast<int64_t>(result->row_ptr_.bytes() + result->col_.bytes() + result->value_.bytes());
  return std::shared_ptr<const DeviceCsr>(std::move(result));
}

StatusOr<std::shared_ptr<const DeviceVector>> DeviceVector::Upload(const std::vector<float>& values, Device& device) {
  auto result = std::make_shared<DeviceVector>();
  VICINAL_ASSIGN_OR_RETURN(result->buffer_, UploadVector(values, device));
  return std::shared_ptr<const DeviceVector>(std::move(result));
}

int64_t FeatureMatrix::BytesOn(const HostFeatures& features, const Device& device) {
  if (!features.sparse) {
    return features.rows * RowStride(features.cols, device) * static_cast<int64_t>(sizeof(float));
  }
  const size_t ends = device.kind() == DeviceKind::kCpu ? 0 : features.csr.row_ptr.size() * sizeof(int64_t);
  return features.size_bytes() + static_cast<int64_t>(ends);
}

StatusOr<std::shared_ptr<const FeatureMatrix>> FeatureMatrix::Upload(const HostFeatures& features, Device& device) {
  auto result = std::make_shared<FeatureMatrix>();
  result->sparse_ = features.sparse;
  result->rows_ = features.rows;
  result->cols_ = features.cols;
  result->size_bytes_ = BytesOn(features, device);
  if (features.sparse) {
    VICINAL_ASSIGN_OR_RETURN(result->csr_, DeviceCsr::Upload(features.csr, device));
    if (device.kind() != DeviceKind::kCpu) result->host_row_ptr_ = features.csr.row_ptr;
    return result;
  }
  const int64_t stride = RowStride(features.cols, device);
  VICINAL_ASSIGN_OR_RETURN(result->buffer_, UploadRows(features, stride, device));
  result->dense_ = {result->buffer_.as<float>(), features.rows, features.cols, stride};
  return result;
}

StatusOr<std::shared_ptr<const FeatureMatrix>> FeatureMatrix::FillDense(
    int64_t rows, int64_t cols, Device& device, const std::function<Status(float* rows)>& fill) {
  if (device.kind() != DeviceKind::kCpu) {
    HostFeatures features;
    features.rows = rows;
    features.cols = cols;
    features.dense.resize(static_cast<size_t>(rows * cols));
    VICINAL_RETURN_IF_ERROR(fill(features.dense.data()));
    return Upload(features, device);
  }
  auto result = std::make_shared<FeatureMatrix>();
  result->rows_ = rows;
  result->cols_ = cols;
  result->size_bytes_ = rows * cols * static_cast<int64_t>(sizeof(float));
  VICINAL_ASSIGN_OR_RETURN(result->buffer_, device.Allocate(static_cast<size_t>(result->size_bytes_)));
  VICINAL_RETURN_IF_ERROR(fill(result->buffer_.as<float>()));
  result->dense_ = {result->buffer_.as<float>(), rows, cols, cols};
  return std::shared_ptr<const FeatureMatrix>(std::move(result));
}

StatusOr<std::shared_ptr<const FeatureMatrix>> FeatureMatrix::FillDenseInParts(int64_t rows, int64_t cols,
                                                                               Device& device,
                                                                               const FillNumbers& fill) {
  if (device.kind() == DeviceKind::kCpu) {
    return FillDense(rows, cols, device, [&](float* all) { return fill(0, rows * cols, all); });
  }
  auto result = std::make_shared<FeatureMatrix>();
  const int64_t stride = RowStride(cols, device);
  result->rows_ = rows;
  result->cols_ = cols;
  result->size_bytes_ = rows * stride * static_cast<int64_t>(sizeof(float));
  VICINAL_ASSIGN_OR_RETURN(result->buffer_, FillRows(rows, cols, stride, device, fill));
  result->dense_ = {result->buffer_.as<float>(), rows, cols, stride};
  return std::shared_ptr<const FeatureMatrix>(std::move(result));
}

StatusOr<HostFeatures> FeatureMatrix::ToHost(Device& device) const {
  HostFeatures host;
  host.sparse = sparse_;
  host.rows = rows_;
  host.cols = cols_;
  if (!sparse_) {
    VICINAL_ASSIGN_OR_RETURN(host.dense, RowsToHost(dense_, device));
    return host;
  }
  const CsrView there = csr();
  const auto entries = static_cast<size_t>(there.nnz);
  host.csr.num_rows = rows_;
  host.csr.num_cols = cols_;
  host.csr.row_ptr.assign(host_row_ptr(), host_row_ptr() + rows_ + 1);
  host.csr.col.resize(entries);
  VICINAL_RETURN_IF_ERROR(device.CopyToHost(host.csr.col.data(), there.col, entries * sizeof(NodeId)));
  if (there.value == nullptr) return host;
  host.csr.value.resize(entries);
  VICINAL_RETURN_IF_ERROR(device.CopyToHost(host.csr.value.data(), there.value, entries * sizeof(float)));
  return host;
}

StatusOr<std::shared_ptr<const FeatureMatrix>> FeatureMatrix::CopyWithRows(const FeatureMatrix& stored,
                                                                           const std::vector<float>& rows,
                                                                           const std::vector<int64_t>& positions,
                                                                           Device& device) {
  VICINAL_CHECK(!stored.sparse_);
  auto result = std::make_shared<FeatureMatrix>();
  result->rows_ = stored.rows_;
  result->cols_ = stored.cols_;
  result->size_bytes_ = stored.size_bytes_;
  VICINAL_ASSIGN_OR_RETURN(result->buffer_, device.Allocate(stored.buffer_.bytes()));
  VICINAL_RETURN_IF_ERROR(device.CopyOnDevice(result->buffer_.data(), stored.buffer_.data(), stored.buffer_.bytes()));
  float* const data = result->buffer_.as<float>();
  const size_t row_bytes = static_cast<size_t>(stored.cols_) * sizeof(float);
  const int64_t stride = stored.dense_.stride;
  for (size_t i = 0; i < positions.size(); ++i) {
    VICINAL_RETURN_IF_ERROR(
        device.CopyFromHost(data + positions[i] * stride, rows.data() + i * stored.cols_, row_bytes));
  }
  result->dense_ = {data, stored.rows_, stored.cols_, stride};
  return result;
}

StatusOr<std::shared_ptr<const FeatureMatrix>> FeatureMatrix::Concatenate(
    const std::vector<const FeatureMatrix*>& parts, Device& device) {
  auto result = std::make_shared<FeatureMatrix>();
  result->sparse_ = parts.front()->sparse_;
  result->cols_ = parts.front()->cols_;
  for (const FeatureMatrix* part : parts) {
    VICINAL_CHECK(part->sparse_ == result->sparse_ && part->cols_ == result->cols_);
    result->rows_ += part->rows_;
  }
  VICINAL_RETURN_IF_ERROR(result->sparse_ ? result->ConcatenateEntries(parts, device)
                                          : result->ConcatenateRows(parts, device));
  return std::shared_ptr<const FeatureMatrix>(std::move(result));
}

Status FeatureMatrix::ConcatenateRows(const std::vector<const FeatureMatrix*>& parts, Device& device) {
  const int64_t stride = RowStride(cols_, device);
  VICINAL_ASSIGN_OR_RETURN(buffer_, device.Allocate(static_cast<size_t>(rows_ * stride) * sizeof(float)));
  dense_ = {buffer_.as<float>(), rows_, cols_, stride};
  size_bytes_ = static_cast<int64_t>(buffer_.bytes());
  float* next = buffer_.as<float>();
  for (const FeatureMatrix* part : parts) {
    VICINAL_RETURN_IF_ERROR(device.CopyOnDevice(next, part->buffer_.data(), part->buffer_.bytes()));
    next += part->rows_ * stride;
  }
  return OkStatus();
}

Status FeatureMatrix::ConcatenateEntries(const std::vector<const FeatureMatrix*>& parts, Device& device) {
  std::vector<CsrView> blocks;
  std::vector<EdgeId> row_ptr = {0};
  for (const FeatureMatrix* part : parts) {
    blocks.push_back(part->csr());
    const EdgeId before = row_ptr.back();
    for (int64_t row = 0; row < part->rows_; ++row) row_ptr.push_back(before + part->host_row_ptr()[row + 1]);
  }
  VICINAL_ASSIGN_OR_RETURN(csr_, DeviceCsr::Concatenate(blocks, row_ptr, device));
  if (device.kind() != DeviceKind::kCpu) host_row_ptr_ = std::move(row_ptr);
  size_bytes_ = csr_->size_bytes() + static_cast<int64_t>(host_row_ptr_.size() * sizeof(EdgeId));
  return OkStatus();
}

PreparedGraph::PreparedGraph(Parts parts, Device* device) : parts_(std::move(parts)), device_(device) {
  VICINAL_CHECK(device_ != nullptr && parts_.permutation.size() == parts_.csr.num_rows);
}

std::shared_ptr<const DeviceCsr> PreparedGraph::FindAdjacency(const AdjacencySpec& canonical) const {
  MutexLock lock(&mutex_);
  for (const auto& [spec, adjacency] : adjacencies_) {
    if (spec == canonical) return adjacency;
  }
  return nullptr;
}

StatusOr<std::shared_ptr<const DeviceCsr>> PreparedGraph::Adjacency(const AdjacencySpec& spec) const {
  const AdjacencySpec canonical = CanonicalSpec(spec, weighted());
  if (auto found = FindAdjacency(canonical)) return found;
  // One derivation at a time: a thread that waited for another's looks for the result again.
  MutexLock derive_lock(&derive_mutex_);
  if (auto found = FindAdjacency(canonical)) return found;
  VICINAL_ASSIGN_OR_RETURN(std::shared_ptr<const DeviceCsr> adjacency, Derive(parts_, canonical, *device_));
  MutexLock lock(&mutex_);
  adjacencies_.emplace_back(canonical, adjacency);
  return adjacency;
}

AdjacencyShape PreparedGraph::ShapeOf(const AdjacencySpec& spec) const {
  const auto found = FindAdjacency(CanonicalSpec(spec, weighted()));
  if (found == nullptr) return ShapeOfAdjacency(parts_.csr, spec);
  const CsrView view = found->view();
  return {view.rows, view.cols, view.nnz, view.value != nullptr, found->size_bytes()};
}

bool PreparedGraph::Holds(const AdjacencySpec& spec) const {
  return FindAdjacency(CanonicalSpec(spec, weighted())) != nullptr;
}
bool PreparedGraph::Holds(SelfLoops degree_scale) const {
  return FindDegreeScale(CanonicalLoops(degree_scale)) != nullptr;
}
bool PreparedGraph::Holds(const AdjacencySpec& spec, std::string_view kernel, std::string_view layout) const {
  return FindLayout(KeyOf(spec, kernel, layout)) != nullptr;
}

AdjacencyLayoutRef PreparedGraph::FindLayout(const LayoutKey& key) const {
  MutexLock lock(&mutex_);
  for (const KeptLayout& kept : layouts_) {
    if (kept.key == key) return kept.layout;
  }
  return nullptr;
}

StatusOr<AdjacencyLayoutRef> PreparedGraph::Layout(const AdjacencySpec& spec, std::string_view kernel,
                                                   std::string_view name, const LayoutMaker& make) const {
  LayoutKey key = KeyOf(spec, kernel, name);
  if (auto found = FindLayout(key)) return found;
  VICINAL_ASSIGN_OR_RETURN(const auto adjacency, Adjacency(key.spec));
  MutexLock derive_lock(&derive_mutex_);
  if (auto found = FindLayout(key)) return found;
  LayoutSource source(adjacency->view(), parts_.blocks, *device_);
  const auto begin = std::chrono::steady_clock::now();
  VICINAL_ASSIGN_OR_RETURN(AdjacencyLayoutRef layout, make(source));
  VICINAL_CHECK(layout != nullptr);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  KeepLayout({std::move(key), layout, seconds.count()});
  return layout;
}

std::vector<PreparedGraph::KeptLayout> PreparedGraph::Layouts() const {
  MutexLock lock(&mutex_);
  return layouts_;
}

void PreparedGraph::NotifyOfLayouts(std::function<void()> made) const {
  MutexLock lock(&mutex_);
  layout_made_ = std::move(made);
}

void PreparedGraph::KeepLayout(KeptLayout made) const {
  std::vector<KeptLayout> dropped;  // freed without the lock
  std::function<void()> notify;
  {
    MutexLock lock(&mutex_);
    for (size_t i = 0; i < layouts_.size() && layouts_.size() >= kMaxLayouts;) {
      if (layouts_[i].layout.use_count() > 1) {
        ++i;
        continue;
      }
      dropped.push_back(std::move(layouts_[i]));
      layouts_.erase(layouts_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    layouts_.push_back(std::move(made));
    notify = layout_made_;
  }
  if (notify) notify();
}

std::shared_ptr<const DeviceVector> PreparedGraph::FindDegreeScale(SelfLoops canonical) const {
  MutexLock lock(&mutex_);
  for (const auto& [key, scale] : degree_scales_) {
    if (key == canonical) return scale;
  }
  return nullptr;
}

StatusOr<std::shared_ptr<const DeviceVector>> PreparedGraph::DegreeScale(SelfLoops loops) const {
  const SelfLoops canonical = CanonicalLoops(loops);
  if (auto found = FindDegreeScale(canonical)) return found;
  MutexLock derive_lock(&derive_mutex_);
  if (auto found = FindDegreeScale(canonical)) return found;
  VICINAL_ASSIGN_OR_RETURN(auto scale, DeviceVector::Upload(vicinal::DegreeScale(parts_.csr, canonical), *device_));
  MutexLock lock(&mutex_);
  degree_scales_.emplace_back(canonical, scale);
  return scale;
}

StatusOr<const float*> PreparedGraph::EdgeFeatures() const {
  if (device_->kind() == DeviceKind::kCpu) return parts_.edge_attr.data();
  const auto find = [this] {
    MutexLock lock(&mutex_);
    return edge_features_;
  };
  if (auto found = find()) return found->data();
  MutexLock derive_lock(&derive_mutex_);
  if (auto found = find()) return found->data();
  VICINAL_ASSIGN_OR_RETURN(auto sent, DeviceVector::Upload(parts_.edge_attr, *device_));
  MutexLock lock(&mutex_);
  edge_features_ = sent;
  return sent->data();
}

bool PreparedGraph::HoldsEdgeFeatures() const {
  if (device_->kind() == DeviceKind::kCpu) return true;
  MutexLock lock(&mutex_);
  return edge_features_ != nullptr;
}

StatusOr<std::shared_ptr<const DeviceVector>> PreparedGraph::MeanEdgeFeatures() const {
  const auto find = [this] {
    MutexLock lock(&mutex_);
    return mean_edge_features_;
  };
  if (auto found = find()) return found;
  MutexLock derive_lock(&derive_mutex_);
  if (auto found = find()) return found;
  VICINAL_ASSIGN_OR_RETURN(
      auto means,
      DeviceVector::Upload(vicinal::MeanEdgeFeatures(parts_.csr, parts_.edge_attr, edge_feature_width()), *device_));
  MutexLock lock(&mutex_);
  mean_edge_features_ = means;
  return means;
}

bool PreparedGraph::HoldsMeanEdgeFeatures() const {
  MutexLock lock(&mutex_);
  return mean_edge_features_ != nullptr;
}

void PreparedGraph::LeaveDevice() const {
  // Freed without the lock.
  decltype(adjacencies_) adjacencies;
  decltype(layouts_) layouts;
  decltype(degree_scales_) degree_scales;
  std::shared_ptr<const DeviceVector> edge_features, mean_edge_features;
  {
    MutexLock lock(&mutex_);
    adjacencies.swap(adjacencies_);
    layouts.swap(layouts_);
    degree_scales.swap(degree_scales_);
    edge_features.swap(edge_features_);
    mean_edge_features.swap(mean_edge_features_);
    Left left;
    for (const auto& [spec, adjacency] : adjacencies) {
      left.adjacencies.push_back(spec);
      left.bytes += adjacency->size_bytes();
    }
    for (const auto& [loops, scale] : degree_scales) {
      left.degree_scales.push_back(loops);
      left.bytes += scale->size_bytes();
    }
    left.edge_features = edge_features != nullptr;
    left.mean_edge_features = mean_edge_features != nullptr;
    if (left.edge_features) left.bytes += edge_features->size_bytes();
    if (left.mean_edge_features) left.bytes += mean_edge_features->size_bytes();
    left_ = std::move(left);
  }
  Reservation none;
  SettleReservation(&none);
}

int64_t PreparedGraph::returning_bytes() const {
  MutexLock lock(&mutex_);
  return left_.bytes;
}

Status PreparedGraph::ReturnToDevice() const {
  Left left;
  {
    MutexLock lock(&mutex_);
    left = std::exchange(left_, Left());
  }
  for (const AdjacencySpec& spec : left.adjacencies) VICINAL_RETURN_IF_ERROR(Adjacency(spec).status());
  for (const SelfLoops loops : left.degree_scales) VICINAL_RETURN_IF_ERROR(DegreeScale(loops).status());
  if (left.edge_features) VICINAL_RETURN_IF_ERROR(EdgeFeatures().status());
  if (left.mean_edge_features) VICINAL_RETURN_IF_ERROR(MeanEdgeFeatures().status());
  return OkStatus();
}

int64_t PreparedGraph::own_bytes() const {
  return parts_.csr.size_bytes() + parts_.permutation.size_bytes() +
         static_cast<int64_t>(parts_.edge_attr.size() * sizeof(float) + parts_.edge_order.size() * sizeof(EdgeId)) +
         static_cast<int64_t>((parts_.segments.size() + parts_.blocks.size()) * sizeof(int64_t));
}

int64_t PreparedGraph::size_bytes() const { return own_bytes() + device_bytes(); }

int64_t PreparedGraph::device_bytes() const {
  int64_t bytes = 0;
  MutexLock lock(&mutex_);
  for (const auto& [spec, adjacency] : adjacencies_) bytes += adjacency->size_bytes();
  for (const KeptLayout& kept : layouts_) bytes += kept.layout->size_bytes();
  for (const auto& [loops, scale] : degree_scales_) bytes += scale->size_bytes();
  if (edge_features_ != nullptr) bytes += edge_features_->size_bytes();
  if (mean_edge_features_ != nullptr) bytes += mean_edge_features_->size_bytes();
  return bytes;
}

void PreparedGraph::AddReservation(Reservation memory) const {
  MutexLock lock(&memory_mutex_);
  memory_.Merge(std::move(memory));
}

void PreparedGraph::SettleReservation(Reservation* source) const {
  MutexLock lock(&memory_mutex_);
  if (!memory_) return;
  const int64_t bytes = size_bytes();
  memory_.Shrink(bytes);
  memory_.Merge(source->Split(bytes - memory_.bytes()));
}

void PreparedGraph::TransferReservation(Account account) const {
  MutexLock lock(&memory_mutex_);
  memory_.TransferTo(account);
}

}  // namespace vicinal
