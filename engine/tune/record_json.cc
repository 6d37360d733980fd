// SPDX-License-Identifier: Apache-2.0
#include "engine/tune/record_json.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/tune/record_members.h"
#include "engine/tune/work.h"

namespace vicinal {
namespace {

using internal::RecordMembers;
using Json = nlohmann::json;

constexpr size_t kMaxCandidatesKept = 1024, kMaxParametersKept = 64;
constexpr TuningState kKeptStates[] = {TuningState::kDefault, TuningState::kTuned, TuningState::kForced,
                                       TuningState::kSeeded};
constexpr CandidateOutcome kOutcomes[] = {CandidateOutcome::kWaiting, CandidateOutcome::kPruned,
                                          CandidateOutcome::kEliminated, CandidateOutcome::kMeasured,
                                          CandidateOutcome::kChosen};
constexpr Storage kStorages[] = {Storage::kFloat32, Storage::kBfloat16, Storage::kFloat16};
constexpr EdgeWeights kWeights[] = {EdgeWeights::kNone, EdgeWeights::kPerEdge, EdgeWeights::kPerSource};
constexpr SelfLoops kLoops[] = {SelfLoops::kAsSent, SelfLoops::kAddRemaining, SelfLoops::kReplace};
constexpr EdgeWeighting kWeightings[] = {
    EdgeWeighting::kNone,          EdgeWeighting::kSent,           EdgeWeighting::kGcnSent,
    EdgeWeighting::kGcnOnes,       EdgeWeighting::kMeanOnes,       EdgeWeighting::kSourceSymSent,
    EdgeWeighting::kSourceSymOnes, EdgeWeighting::kSourceMeanSent, EdgeWeighting::kSourceMeanOnes};

int64_t ToNanoseconds(WallTime time) {
  return std::chrono::duration_cast<Nanoseconds>(time.time_since_epoch()).count();
}
WallTime FromNanoseconds(int64_t count) {
  return WallTime(std::chrono::duration_cast<WallTime::duration>(Nanoseconds(count)));
}

std::string Cut(const std::string& text) { return text.substr(0, internal::kMaxTextWritten); }

Json ToJson(const TuningCandidate& candidate) {
  Json parameters = Json::object();
  for (const NamedParameter& parameter : candidate.parameters) parameters[parameter.name] = parameter.value;
  return {{"kernel", candidate.setting.kernel},
          {"parameters", std::move(parameters)},
          {"outcome", std::string(ToString(candidate.outcome))},
          {"predicted_seconds", candidate.predicted_seconds},
          {"measured_seconds", candidate.measured_seconds},
          {"spread", candidate.spread},
          {"ratio", candidate.ratio},
          {"samples", candidate.samples},
          {"dropped_samples", candidate.dropped_samples},
          {"whole_graph_only", candidate.whole_graph_only}};
}

TuningCandidate ParseCandidate(const Json& json, const std::string& where, Status* status) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  RecordMembers members(json, where, status);
  TuningCandidate candidate;
  members.Text("kernel", &candidate.setting.kernel);
  members.OneOf("outcome", kOutcomes, &candidate.outcome);
  members.Number("predicted_seconds", &candidate.predicted_seconds);
  members.Number("measured_seconds", &candidate.measured_seconds);
  members.Number("spread", &candidate.spread);
  members.Number("ratio", &candidate.ratio);
  members.Integer("samples", 0, kMost, &candidate.samples);
  members.Integer("dropped_samples", 0, kMost, &candidate.dropped_samples);
  members.Bool("whole_graph_only", &candidate.whole_graph_only);
  const Json* const parameters = members.Find("parameters", Json::value_t::object);
  if (parameters == nullptr) return candidate;
  if (parameters->size() > kMaxParametersKept) members.Fail("parameters", "has too many members");
  RecordMembers values(*parameters, members.At("parameters"), status);
  for (const auto& [name, value] : parameters->items()) {
    NamedParameter parameter{name, 0};
    values.Integer(name.c_str(), std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max(),
                   &parameter.value);
    candidate.parameters.push_back(std::move(parameter));
  }
  return candidate;
}

void ParseKey(RecordMembers& members, TuningKey* key) {
  members.Text("operation", &key->operation);
  members.Text("kind", &key->kind);
  members.Integer("width", 1, kMaxTuningColumns, &key->width);
  members.Integer("heads", 1, kMaxTuningColumns, &key->heads);
  members.Bool("concat", &key->concat);
  members.OneOf("weights", kWeights, &key->weights);
  members.OneOf("precision", kStorages, &key->storage);
  if (IsProduct(*key)) {
    members.Integer("outputs", 1, kMaxTuningColumns, &key->outputs);
    members.Bool("epilogue", &key->epilogue);
  }
  if (IsExpression(*key)) {
    members.Text("program", &key->program);
    if (members.ok() && !IsProgramName(key->program)) members.Fail("program", "is not 16 hex digits");
  }
  if (!members.ok()) return;
  const auto known = std::find(std::begin(kTunedOperations), std::end(kTunedOperations), key->operation);
  if (known == std::end(kTunedOperations)) return members.Fail("operation", "is not a tuned operation");
  if (!IsKindOf(key->operation, key->kind)) {
    return members.Fail("kind", absl::StrCat("is none of ", KindsOf(key->operation)));
  }
  if (key->width > kMaxTuningColumns / key->heads) members.Fail("heads", "times width is too large");
  const bool plain = key->heads == 1 && key->concat;
  const bool aggregate = key->operation == "aggregate", may_weigh = aggregate || IsExpression(*key);
  const bool weighted = key->weights != EdgeWeights::kNone, rounded = key->storage != Storage::kFloat32;
  if ((weighted && !may_weigh) || (rounded && !aggregate) || (!plain && key->operation != "attention")) {
    members.Fail("operation",
                 "has members that it cannot have: heads and concat are of attention, weights of aggregate and "
                 "expression, precision of aggregate");
  }
}

void ReadAdjacency(const Json& json, const std::string& where, Status* status, AdjacencySpec* adjacency) {
  RecordMembers members(json, where, status);
  double loop_weight = 1.0;
  members.OneOf("loops", kLoops, &adjacency->loops);
  members.Number("loop_weight", &loop_weight);
  members.OneOf("weighting", kWeightings, &adjacency->weighting);
  if (loop_weight > std::numeric_limits<float>::max()) members.Fail("loop_weight", "is too large");
  adjacency->loop_weight = static_cast<float>(loop_weight);
  // Absent unless it is true: earlier builds knew in-edges only.
  if (json.is_object() && json.contains("transposed")) members.Bool("transposed", &adjacency->transposed);
}

void ParseEvidence(RecordMembers& members, const std::string& where, Status* status, TuningRecord* record) {
  const Json* const candidates = members.Find("candidates", Json::value_t::array);
  const Json* const refused = members.Find("refused", Json::value_t::array);
  if (candidates == nullptr || refused == nullptr) return;
  if (candidates->size() > kMaxCandidatesKept || refused->size() > kMaxCandidatesKept) {
    return members.Fail("candidates", "or refused has too many elements");
  }
  for (size_t i = 0; i < candidates->size(); ++i) {
    record->candidates.push_back(ParseCandidate((*candidates)[i], absl::StrCat(where, ".candidates[", i, "]"), status));
  }
  for (size_t i = 0; i < refused->size(); ++i) {
    RecordMembers refusal((*refused)[i], absl::StrCat(where, ".refused[", i, "]"), status);
    KernelRefusal kept;
    refusal.Text("kernel", &kept.kernel);
    refusal.Text("reason", &kept.reason);
    record->refused.push_back(std::move(kept));
  }
}

Json EstimateOf(const TuningRecord& record) {
  return {{"modelled", record.modelled},
          {"model_seconds", record.model_seconds},
          {"profile_seconds", record.profile_seconds}};
}

void ParseEstimate(const Json& json, const std::string& where, Status* status, TuningRecord* record) {
  RecordMembers members(json, where, status);
  record->strategy = TuningStrategy::kEstimated;
  members.Integer("modelled", 0, std::numeric_limits<int64_t>::max(), &record->modelled);
  members.Number("model_seconds", &record->model_seconds);
  members.Number("profile_seconds", &record->profile_seconds);
}

}  // namespace

Json ToJson(const AdjacencySpec& adjacency) {
  Json json = {{"loops", std::string(ToString(adjacency.loops))},
               {"loop_weight", adjacency.loop_weight},
               {"weighting", std::string(ToString(adjacency.weighting))}};
  if (adjacency.transposed) json["transposed"] = true;
  return json;
}

StatusOr<AdjacencySpec> ParseAdjacency(const Json& json, const std::string& where) {
  Status status;
  AdjacencySpec adjacency;
  ReadAdjacency(json, where, &status, &adjacency);
  if (!status.ok()) return status;
  return adjacency;
}

Json ToJson(const KeptRecord& kept) {
  const TuningKey& key = kept.entry.work.key;
  const TuningRecord& record = kept.entry.record;
  Json candidates = Json::array(), refused = Json::array();
  for (const TuningCandidate& candidate : record.candidates) candidates.push_back(ToJson(candidate));
  for (const KernelRefusal& one : record.refused)
    refused.push_back({{"kernel", one.kernel}, {"reason", Cut(one.reason)}});
  Json json = {{"operation", key.operation},
               {"kind", key.kind},
               {"width", key.width},
               {"heads", key.heads},
               {"concat", key.concat},
               {"weights", std::string(ToString(key.weights))},
               {"precision", std::string(ToString(key.storage))},
               {"adjacency", ToJson(kept.entry.work.adjacency)},
               {"state", std::string(ToString(record.state))},
               {"chosen", record.chosen},
               {"order", {{"name", kept.order}, {"version", kept.order_version}}},
               {"gain", record.gain},
               {"budget_seconds", record.budget_seconds},
               {"used_seconds", record.used_seconds},
               {"finish_time_ns", ToNanoseconds(record.finish_time)},
               {"note", Cut(record.note)},
               {"candidates", std::move(candidates)},
               {"refused", std::move(refused)}};
  if (IsProduct(key)) {
    json["outputs"] = key.outputs;
    json["epilogue"] = key.epilogue;
  }
  if (IsExpression(key)) json["program"] = key.program;
  if (record.strategy == TuningStrategy::kEstimated) json["estimate"] = EstimateOf(record);
  return json;
}

StatusOr<KeptRecord> ParseKeptRecord(const Json& json, const std::string& where) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  Status status;
  KeptRecord kept;
  TuningRecord& record = kept.entry.record;
  RecordMembers members(json, where, &status);
  ParseKey(members, &kept.entry.work.key);
  record.key = kept.entry.work.key;
  const Json* const adjacency = members.Find("adjacency");
  if (adjacency != nullptr) {
    ReadAdjacency(*adjacency, members.At("adjacency"), &status, &kept.entry.work.adjacency);
  }
  const Json* const order = members.Find("order");
  if (order != nullptr) {
    RecordMembers inner(*order, members.At("order"), &status);
    inner.Text("name", &kept.order);
    inner.Integer("version", 0, std::numeric_limits<int32_t>::max(), &kept.order_version);
  }
  members.OneOf("state", kKeptStates, &record.state);
  members.Number("gain", &record.gain);
  members.Number("budget_seconds", &record.budget_seconds);
  members.Number("used_seconds", &record.used_seconds);
  // Only of what was estimated.
  if (members.ok() && json.contains("estimate")) {
    ParseEstimate(json["estimate"], members.At("estimate"), &status, &record);
  }
  int64_t finish_time = 0;
  members.Integer("finish_time_ns", 0, kMost, &finish_time);
  record.finish_time = FromNanoseconds(finish_time);
  members.Text("note", &record.note);
  ParseEvidence(members, where, &status, &record);
  members.Integer("chosen", 0, std::max<int64_t>(0, static_cast<int64_t>(record.candidates.size()) - 1),
                  &record.chosen);
  if (members.ok() && (record.state == TuningState::kDefault) != record.candidates.empty()) {
    members.Fail("candidates", "are there if and only if the state is not default");
  }
  if (!status.ok()) return status;
  return kept;
}

}  // namespace vicinal
