// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/run_times.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "absl/hash/hash.h"
#include "engine/execute/links/link_query.h"

namespace vicinal {
namespace {

// Weight of the latest run: a change of load shows within a few runs, and one slow run does not refuse much.
constexpr double kLatest = 0.25;

// An estimate this old counts half.
constexpr double kHalfLifeSeconds = 5.0;

void Blend(double value, double* mean) { *mean = *mean > 0.0 ? *mean + kLatest * (value - *mean) : value; }

// Orders of magnitude, by powers of two; 0: all nodes of a stored graph.
int SizeClass(const QueuedRequest& request) {
  if (!request.nodes.all) return static_cast<int>(std::bit_width(request.nodes.ids.size()));
  if (request.key.private_id == 0 || request.graph == nullptr) return 0;
  return static_cast<int>(std::bit_width(static_cast<uint64_t>(request.graph->num_nodes())));
}

// Of the scores of links; -1: rows are wanted.
int LinkClass(const QueuedRequest& request) {
  if (request.links == nullptr) return -1;
  return static_cast<int>(std::bit_width(static_cast<uint64_t>(request.links->num_pairs())));
}

// Whose scores: an MLP costs a hundred times a product. -1: rows are wanted.
int DecoderClass(const QueuedRequest& request) {
  if (request.links == nullptr) return -1;
  constexpr int kAttention = 1000;
  return request.links->decoder == nullptr ? kAttention : static_cast<int>(request.links->decoder->kind);
}

}  // namespace

RunKind RunKindOf(const QueuedRequest& request) {
  const RequestKey& key = request.key;
  return absl::HashOf(key.graph, key.model, key.options, key.private_id != 0, request.brings_features,
                      SizeClass(request), LinkClass(request), DecoderClass(request), request.kept != nullptr);
}

double RunTimes::Alone(RunKind kind, MonotonicTime now) const {
  const auto found = kinds_.find(kind);
  if (found == kinds_.end()) return 0.0;
  const double age = std::max(0.0, SecondsBetween(found->second.last_alone, now));
  return found->second.alone * std::exp2(-age / kHalfLifeSeconds);
}

double RunTimes::Late(RunKind kind) const {
  const auto found = kinds_.find(kind);
  return found == kinds_.end() ? 0.0 : 2.0 * found->second.distance;
}

double RunTimes::Share(RunKind kind) const {
  const auto found = kinds_.find(kind);
  return found == kinds_.end() ? 0.0 : found->second.share;
}

double RunTimes::Leading(RunKind kind) const {
  const auto found = kinds_.find(kind);
  return found == kinds_.end() ? 0.0 : found->second.alone;
}

double RunTimes::Joining(RunKind kind) const {
  const auto found = kinds_.find(kind);
  return found == kinds_.end() ? 0.0 : found->second.joining.value_or(found->second.share);
}

RunTimes::Measured& RunTimes::At(RunKind kind) {
  if (kinds_.size() >= kMaxKinds && !kinds_.contains(kind)) kinds_.clear();
  return kinds_[kind];
}

void RunTimes::BlendAlone(double seconds, MonotonicTime now, Measured* measured) {
  if (measured->alone > 0.0) measured->distance += kLatest * (std::abs(seconds - measured->alone) - measured->distance);
  Blend(seconds, &measured->alone);
  Blend(seconds, &measured->share);
  measured->last_alone = now;
}

void RunTimes::RecordAlone(RunKind kind, double seconds, MonotonicTime now) {
  Measured& measured = At(kind);
  BlendAlone(seconds, now, &measured);
  measured.ended = true;
  measured.given_up = false;
}

void RunTimes::RecordShare(RunKind kind, double seconds) { Blend(seconds, &At(kind).share); }

void RunTimes::RecordJoining(RunKind kind, double seconds) {
  std::optional<double>& joining = At(kind).joining;
  joining = joining ? *joining + kLatest * (seconds - *joining) : seconds;
}

void RunTimes::RecordAtLeast(RunKind kind, double seconds, MonotonicTime now) {
  const double known = Alone(kind, now);
  Measured& measured = At(kind);
  const bool in_a_row = std::exchange(measured.given_up, true);
  if (measured.ended && !in_a_row) {
    if (seconds > known) BlendAlone(seconds, now, &measured);
    return;
  }
  measured.alone = std::max(known, seconds);
  measured.share = std::max(measured.share, seconds);
  measured.last_alone = now;
}

}  // namespace vicinal
