// SPDX-License-Identifier: Apache-2.0
// The caches of derived adjacencies and their layouts. Invariant: an adjacency in the cache never changes, and goes
// only while nobody uses the graph, so handles and views taken from it stay good; a layout stays as long as anyone
// holds it. Deriving one costs O(N + E) and runs outside the caches' lock.
#include "engine/prepared/prepared_graph.h"

#include <chrono>
#include <utility>

#include "engine/base/check.h"
#include "engine/graph/edge_features.h"

namespace vicinal {
namespace {

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
