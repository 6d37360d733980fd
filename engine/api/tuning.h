// SPDX-License-Identifier: Apache-2.0
// Records of tuning: the kind of work (TuningKey), the candidates that were tried, the kernels that do not support it,
// the winner and its gain (TuningRecord). Plain values.
//
// Every CPU kernel and configuration gives the same bits for the same problem (kernels/operations.h, KernelConfig): a
// choice affects speed, not results. On a GPU it may change a plan's numerics revision.
#ifndef VICINAL_ENGINE_API_TUNING_H_
#define VICINAL_ENGINE_API_TUNING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/api/kernel_config.h"
#include "engine/base/clock.h"
#include "engine/base/vocabulary.h"

namespace vicinal {

// The source of an adjacency's weights; it determines the bytes per edge.
enum class EdgeWeights {
  kNone,       // every edge counts 1
  kPerEdge,    // the adjacency has values
  kPerSource,  // one weight per source row (AggregateArgs::src_scale)
};

// The key of an entry of a graph's tuning table. Adjacencies that differ only in self-loops share an entry: N edges
// more or less do not change the winner. A product has one row per node, so the graph determines its rows. Message
// functions of models with the same architecture share an entry, whatever their weights.
struct TuningKey {
  std::string operation;  // "aggregate", "attention", "dense_update", "expression"
  // The reduction ("sum", "mean", "max", "min"; expressions also "var", "std", "softmax", or "several" different ones),
  // the attention kind ("gat", "gatv2", "dot"), or the precision of a product's factors ("float32", "tf32", "bfloat16",
  // "float16").
  std::string kind;
  int64_t width = 0;   // aggregated columns; attention: per head; products: inputs; expressions: of the result
  int64_t heads = 1;   // attention; otherwise 1
  bool concat = true;  // attention: heads are concatenated, or averaged
  EdgeWeights weights = EdgeWeights::kNone;
  Storage storage = Storage::kFloat32;  // of the gathered rows
  int64_t outputs = 0;                  // products; otherwise 0
  bool epilogue = false;                // products: a bias, residual, activation or scale is applied to the result
  std::string program = {};             // expressions: the name of the program, 16 hex digits; otherwise empty

  friend bool operator==(const TuningKey&, const TuningKey&) = default;
};

struct NamedParameter {
  std::string name;
  int32_t value = 0;

  friend bool operator==(const NamedParameter&, const NamedParameter&) = default;
};

// A kernel and its configuration.
struct KernelSetting {
  std::string kernel;
  KernelConfig config;

  friend bool operator==(const KernelSetting&, const KernelSetting&) = default;
};

// The outcome of a candidate.
enum class CandidateOutcome {
  kWaiting,     // not measured (yet, or the budget ended first)
  kPruned,      // not measured: predicted to be far behind
  kEliminated,  // measured, and significantly slower than another
  kMeasured,    // measured to the end
  kChosen,
};

struct TuningCandidate {
  KernelSetting setting;
  std::vector<NamedParameter> parameters;  // setting.config by name, in the kernel's order; zeros mean its own default
  double predicted_seconds = 0.0;          // by the kernel; 0: no prediction
  double measured_seconds = 0.0;           // median of its samples; 0: not measured
  double spread = 0.0;                     // (third quartile - first quartile) / median
  double ratio = 0.0;                      // median over the rounds of its time / the default's; 0: not measured
  int64_t samples = 0;
  int64_t dropped_samples = 0;    // disturbed
  bool whole_graph_only = false;  // does not support receptive fields
  CandidateOutcome outcome = CandidateOutcome::kWaiting;
};

enum class TuningState {
  kDefault,  // the registry's default serves: tuning is off, or was reset
  kQueued,   // waits to be measured
  kRunning,
  kTuned,   // the choice was measured
  kForced,  // the choice was made by TuneGraph
  kFailed,  // could not be measured (see note); the default serves
  kSeeded,  // the choice was taken from a graph with a similar profile (see note); not measured on this graph yet
};

// How a choice is found.
enum class TuningStrategy {
  kMeasured,   // all promising candidates are measured
  kEstimated,  // models rank many settings, a few of which are measured (GNNAdvisor's Estimating)
};

struct TuningRecord {
  TuningKey key;
  TuningState state = TuningState::kDefault;
  TuningStrategy strategy = TuningStrategy::kMeasured;  // of the choice, if it was measured
  std::vector<TuningCandidate> candidates;              // the registry's default first; empty before tuning
  std::vector<KernelRefusal> refused;
  bool incomplete = false;      // for lack of memory, a kernel was left out (see refused) that another tuning tries
  int64_t chosen = 0;           // index into candidates, if there are any
  double gain = 0.0;            // time of the default / time of the chosen candidate
  double budget_seconds = 0.0;  // allowed
  double used_seconds = 0.0;    // spent on runs, including dropped ones
  // With kEstimated: how many settings models ranked, how long that took on the tuning thread, and the part of
  // used_seconds that went into small communities.
  int64_t modelled = 0;
  double model_seconds = 0.0;
  double profile_seconds = 0.0;
  int64_t uses = 0;        // runs of steps with this key so far
  WallTime finish_time{};  // when this state was reached; the epoch for kDefault, kQueued and kRunning
  std::string note;        // for users: why the default was kept, what failed

  // Null if nothing was chosen.
  const TuningCandidate* choice() const {
    return chosen >= 0 && chosen < static_cast<int64_t>(candidates.size()) ? &candidates[chosen] : nullptr;
  }
};

std::string_view ToString(EdgeWeights weights);       // "none", "per_edge", "per_source"
std::string_view ToString(CandidateOutcome outcome);  // "waiting", "pruned", "eliminated", "measured", "chosen"
std::string_view ToString(TuningStrategy strategy);   // "measured", "estimated"
std::string_view ToString(TuningState state);         // "default", "queued", "running", "tuned", "forced", "failed",
                                                      // "seeded"
// "aggregate sum, width 64, weights per_edge", "attention gat, width 8 x 4 heads", "dense_update float32, width 128,
// outputs 64, with epilogue", "expression mean, width 16, weights none, program 0123456789abcdef"; for messages and
// logs, with the terms of the command line.
std::string Describe(const TuningKey& key);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_API_TUNING_H_
