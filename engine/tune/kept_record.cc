// SPDX-License-Identifier: Apache-2.0
#include "engine/tune/kept_record.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/tune/work.h"

namespace vicinal {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxCandidatesKept = 1024, kMaxParametersKept = 64;
// Longest text that is written, and that is read: cutting may end within a character, which JSON then replaces.
constexpr size_t kMaxTextWritten = 2000, kMaxTextRead = 2 * kMaxTextWritten;
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

// Reads members of an object. The first problem stays.
class Members {
 public:
  Members(const Json& object, std::string where, Status* status)
      : object_(object), where_(std::move(where)), status_(*status) {
    if (!object_.is_object()) Fail("", "is not an object");
  }

  void Text(const char* key, std::string* value) {
    const Json* const found = Find(key, Json::value_t::string);
    if (found == nullptr) return;
    *value = found->get<std::string>();
    if (value->size() > kMaxTextRead) Fail(key, absl::StrCat("is longer than ", kMaxTextRead, " bytes"));
  }
  void Bool(const char* key, bool* value) {
    const Json* const found = Find(key, Json::value_t::boolean);
    if (found != nullptr) *value = found->get<bool>();
  }
  template <class T>
  void Integer(const char* key, int64_t least, int64_t most, T* value) {
    const Json* const found = Find(key);
    if (found == nullptr) return;
    const bool fits = found->is_number_integer() &&
                      !(found->is_number_unsigned() &&
                        found->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
    if (!fits || found->get<int64_t>() < least || found->get<int64_t>() > most) {
      return Fail(key, absl::StrCat("is not an integer between ", least, " and ", most));
    }
    *value = static_cast<T>(found->get<int64_t>());
  }
  // Not negative.
  void Number(const char* key, double* value) {
    const Json* const found = Find(key);
    if (found == nullptr) return;
    const double number = found->is_number() ? found->get<double>() : -1.0;
    if (!std::isfinite(number) || number < 0.0) return Fail(key, "is not a number from 0");
    *value = number;
  }
  template <class T, size_t kCount>
  void OneOf(const char* key, const T (&values)[kCount], T* value) {
    std::string name, known;
    Text(key, &name);
    if (!status_.ok()) return;
    for (const T one : values) {
      if (ToString(one) == name) {
        *value = one;
        return;
      }
      absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(ToString(one)));
    }
    Fail(key, absl::StrCat("is none of ", known));
  }
  // Null if it is missing or of another type, or something failed before.
  const Json* Find(const char* key, std::optional<Json::value_t> type = std::nullopt) {
    if (!status_.ok()) return nullptr;
    const auto found = object_.find(key);
    if (found == object_.end() || (type.has_value() && found->type() != *type)) {
      Fail(key, "is missing or of another type");
      return nullptr;
    }
    return &*found;
  }
  void Fail(std::string_view key, const std::string& what) {
    if (status_.ok()) status_ = InvalidArgument("BAD_TUNING_RECORD", At(key), absl::StrCat(At(key), " ", what));
  }
  std::string At(std::string_view key) const {
    return key.empty() ? where_ : absl::StrCat(where_, ".", std::string(key));
  }
  bool ok() const { return status_.ok(); }

 private:
  const Json& object_;
  const std::string where_;
  Status& status_;
};

std::string Cut(const std::string& text) { return text.substr(0, kMaxTextWritten); }

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
  Members members(json, where, status);
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
  Members values(*parameters, members.At("parameters"), status);
  for (const auto& [name, value] : parameters->items()) {
    NamedParameter parameter{name, 0};
    values.Integer(name.c_str(), std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max(),
                   &parameter.value);
    candidate.parameters.push_back(std::move(parameter));
  }
  return candidate;
}

void ParseKey(Members& members, TuningKey* key) {
  members.Text("operation", &key->operation);
  members.Text("kind", &key->kind);
  members.Integer("width", 1, kMaxTuningColumns, &key->width);
  members.Integer("heads", 1, kMaxTuningColumns, &key->heads);
  members.Bool("concat", &key->concat);
  members.OneOf("weights", kWeights, &key->weights);
  members.OneOf("precision", kStorages, &key->storage);
  if (!members.ok()) return;
  const auto known = std::find(std::begin(kTunedOperations), std::end(kTunedOperations), key->operation);
  if (known == std::end(kTunedOperations)) return members.Fail("operation", "is not a tuned operation");
  if (!IsKindOf(key->operation, key->kind)) {
    return members.Fail("kind", absl::StrCat("is none of ", KindsOf(key->operation)));
  }
  if (key->width > kMaxTuningColumns / key->heads) members.Fail("heads", "times width is too large");
  const bool plain = key->heads == 1 && key->concat;
  const bool unweighted = key->weights == EdgeWeights::kNone && key->storage == Storage::kFloat32;
  if (key->operation == "attention" ? !unweighted : !plain) {
    members.Fail("operation",
                 "has members that it cannot have: heads and concat are of attention, weights and "
                 "precision of aggregate");
  }
}

void ReadAdjacency(const Json& json, const std::string& where, Status* status, AdjacencySpec* adjacency) {
  Members members(json, where, status);
  double loop_weight = 1.0;
  members.OneOf("loops", kLoops, &adjacency->loops);
  members.Number("loop_weight", &loop_weight);
  members.OneOf("weighting", kWeightings, &adjacency->weighting);
  if (loop_weight > std::numeric_limits<float>::max()) members.Fail("loop_weight", "is too large");
  adjacency->loop_weight = static_cast<float>(loop_weight);
  // Absent unless it is true: earlier builds knew in-edges only.
  if (json.is_object() && json.contains("transposed")) members.Bool("transposed", &adjacency->transposed);
}

void ParseEvidence(Members& members, const std::string& where, Status* status, TuningRecord* record) {
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
    Members refusal((*refused)[i], absl::StrCat(where, ".refused[", i, "]"), status);
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
  Members members(json, where, status);
  record->strategy = TuningStrategy::kEstimated;
  members.Integer("modelled", 0, std::numeric_limits<int64_t>::max(), &record->modelled);
  members.Number("model_seconds", &record->model_seconds);
  members.Number("profile_seconds", &record->profile_seconds);
}

// Calls f(kernel, problem) with the kernel of that name (or a current name for it) on the device; false without one.
template <class F>
bool WithKernel(const KernelRegistry& registry, DeviceKind device, const TuningKey& key, const AdjacencyShape& shape,
                const std::string& kernel, F&& f) {
  return WithProblem(registry, key, shape.rows, shape.cols, shape.edges,
                     [&](const auto& operation, const auto& problem) {
                       const std::string_view current = CurrentKernelName(operation.operation(), kernel);
                       for (const auto& entry : operation.kernels()) {
                         if (entry->kernel().device() != device || entry->kernel().name() != current) continue;
                         f(entry->kernel(), problem);
                         return true;
                       }
                       return false;
                     });
}

// The configuration of a candidate that is evidence only, as far as this build knows the kernel.
void Configure(const KernelRegistry& registry, DeviceKind device, const TuningKey& key, const AdjacencyShape& shape,
               TuningCandidate* candidate) {
  WithKernel(registry, device, key, shape, candidate->setting.kernel, [&](const auto& kernel, const auto&) {
    const std::vector<std::string_view> names = kernel.ParameterNames();
    for (const NamedParameter& parameter : candidate->parameters) {
      const auto found = std::find(names.begin(), names.end(), parameter.name);
      if (found != names.end()) candidate->setting.config.values[found - names.begin()] = parameter.value;
    }
    candidate->setting.kernel = std::string(kernel.name());
    candidate->parameters = NameParameters(kernel, candidate->setting.config);
  });
}

bool IsPlain(const TuningCandidate& candidate) {
  return std::all_of(candidate.parameters.begin(), candidate.parameters.end(),
                     [](const NamedParameter& parameter) { return parameter.value == 0; });
}

// As what serves without tuning: it may be a fallback, which cannot be chosen otherwise.
bool IsDefault(const KernelRegistry& registry, DeviceKind device, const TuningKey& key, const AdjacencyShape& shape,
               const TuningCandidate& candidate) {
  if (!IsPlain(candidate)) return false;
  return WithProblem(
      registry, key, shape.rows, shape.cols, shape.edges, [&](const auto& operation, const auto& problem) {
        const auto choice = operation.Choose(problem, device, {});
        return choice.ok() &&
               choice->kernel->kernel().name() == CurrentKernelName(operation.operation(), candidate.setting.kernel);
      });
}

Status CheckChoice(const KernelRegistry& registry, DeviceKind device, const AdjacencyShape& shape,
                   const KeptRecord& record) {
  const TuningKey& key = record.entry.work.key;
  const TuningCandidate& choice = *record.entry.record.choice();
  std::map<std::string, int32_t> parameters;
  for (const NamedParameter& parameter : choice.parameters) {
    if (parameter.value != 0) parameters[parameter.name] = parameter.value;
  }
  if (!IsDefault(registry, device, key, shape, choice)) {
    VICINAL_RETURN_IF_ERROR(
        NamedCandidate(registry, device, key, shape.rows, shape.cols, shape.edges, choice.setting.kernel, parameters)
            .status());
  }
  DeclaredOrder order;
  WithKernel(registry, device, key, shape, choice.setting.kernel,
             [&](const auto& kernel, const auto&) { order = kernel.declared_order(); });
  if (order.name == record.order && order.version == record.order_version) return OkStatus();
  return InvalidArgument("KERNEL_VERSION", "order",
                         absl::StrCat("kernel '", choice.setting.kernel, "' adds in order '", std::string(order.name),
                                      "' version ", order.version, "; when this was recorded it was '", record.order,
                                      "' version ", record.order_version));
}

}  // namespace

KeptRecord Keep(const KernelRegistry& registry, DeviceKind device, const TuningEntry& entry) {
  KeptRecord kept{entry, "", 0};
  const TuningCandidate* const choice = entry.record.choice();
  if (choice == nullptr) return kept;
  WithKernel(registry, device, entry.work.key, {}, choice->setting.kernel, [&](const auto& kernel, const auto&) {
    const DeclaredOrder order = kernel.declared_order();
    kept.order = std::string(order.name);
    kept.order_version = order.version;
  });
  return kept;
}

void Thin(KeptRecord* kept) {
  TuningRecord& record = kept->entry.record;
  record.refused.clear();
  if (record.candidates.size() <= 2) return;
  if (record.chosen == 0) {
    record.candidates.resize(1);
    return;
  }
  record.candidates = {record.candidates[0], record.candidates[record.chosen]};
  record.chosen = 1;
}

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
  if (record.strategy == TuningStrategy::kEstimated) json["estimate"] = EstimateOf(record);
  return json;
}

StatusOr<KeptRecord> ParseKeptRecord(const Json& json, const std::string& where) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  Status status;
  KeptRecord kept;
  TuningRecord& record = kept.entry.record;
  Members members(json, where, &status);
  ParseKey(members, &kept.entry.work.key);
  record.key = kept.entry.work.key;
  const Json* const adjacency = members.Find("adjacency");
  if (adjacency != nullptr) {
    ReadAdjacency(*adjacency, members.At("adjacency"), &status, &kept.entry.work.adjacency);
  }
  const Json* const order = members.Find("order");
  if (order != nullptr) {
    Members inner(*order, members.At("order"), &status);
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

StatusOr<TuningEntry> Usable(const KernelRegistry& registry, DeviceKind device, const AdjacencyShape& shape,
                             bool graph_weighted, const KeptRecord& kept) {
  TuningEntry entry = kept.entry;
  const TuningKey& key = entry.work.key;
  const bool sent = entry.work.adjacency.weighting == EdgeWeighting::kSent && shape.weighted;
  if (shape.weighted != (key.weights == EdgeWeights::kPerEdge) || (sent && !graph_weighted)) {
    return InvalidArgument("ADJACENCY_MISMATCH", "weights",
                           absl::StrCat("it is for weights ", std::string(ToString(key.weights)),
                                        ", which this graph does not have "
                                        "there"));
  }
  if (entry.record.choice() != nullptr) VICINAL_RETURN_IF_ERROR(CheckChoice(registry, device, shape, kept));
  for (TuningCandidate& candidate : entry.record.candidates) Configure(registry, device, key, shape, &candidate);
  return entry;
}

int64_t ReductionOrderOf(const KernelRegistry& registry, DeviceKind device, const AdjacencyShape& shape,
                         const TuningKey& key, const std::optional<KernelSetting>& setting) {
  return WithProblem(
      registry, key, shape.rows, shape.cols, shape.edges, [&](const auto& operation, const auto& problem) -> int64_t {
        const auto choice = operation.Choose(problem, device, setting ? setting->kernel : "");
        if (!choice.ok()) return 0;
        return choice->kernel->kernel().ReductionOrder(problem, setting ? setting->config : KernelConfig());
      });
}

}  // namespace vicinal
