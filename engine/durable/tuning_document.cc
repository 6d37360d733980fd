// SPDX-License-Identifier: Apache-2.0
#include "engine/durable/tuning_document.h"

#include <limits>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/state/file_error.h"
#include "engine/state/sealed_json.h"
#include "engine/tune/record_json.h"

namespace vicinal::durable {
namespace {
using Json = nlohmann::json;
constexpr int64_t kMajor = state::kTuningMajor, kMinor = 0;
constexpr size_t kLarge = size_t{4} << 20;

std::string Encode(const TuningDocument& document) {
  Json records = Json::array();
  for (const KeptRecord& record : document.records) records.push_back(ToJson(record));
  Json defaults = Json::array();
  for (const DefaultWork& work : document.defaults) {
    KeptRecord record;
    record.entry.work = work.work;
    Json json = ToJson(record);
    json["reduction_order"] = work.reduction_order;
    defaults.push_back(std::move(json));
  }
  return state::internal::SealJson({{"major", kMajor},
                                    {"minor", kMinor},
                                    {"graph", document.graph},
                                    {"version", document.version},
                                    {"device", document.device},
                                    {"records", std::move(records)},
                                    {"defaults", std::move(defaults)}});
}

// The first builds wrote none.
Status ParseDefaults(const std::string& path, const Json& json, std::vector<DefaultWork>* defaults) {
  const auto found = json.find("defaults");
  if (found == json.end()) return OkStatus();
  if (!found->is_array()) return state::Damaged(path, "defaults is not an array");
  for (size_t i = 0; i < found->size(); ++i) {
    const StatusOr<KeptRecord> record = ParseKeptRecord((*found)[i], absl::StrCat("defaults[", i, "]"));
    if (!record.ok()) return state::Damaged(path, std::string(record.status().message()));
    DefaultWork work{record->entry.work, 0};
    VICINAL_ASSIGN_OR_RETURN(
        work.reduction_order,
        state::internal::IntegerMember(path, (*found)[i], "reduction_order", 0, std::numeric_limits<int64_t>::max()));
    defaults->push_back(std::move(work));
  }
  return OkStatus();
}

}  // namespace

std::string EncodeTuningDocument(const TuningDocument& document) {
  std::string text = Encode(document);
  if (text.size() <= kLarge) return text;
  TuningDocument thin = document;
  for (KeptRecord& record : thin.records) Thin(&record);
  return Encode(thin);
}

StatusOr<TuningDocument> ParseTuningDocument(const std::string& path, std::string_view text) {
  VICINAL_ASSIGN_OR_RETURN(const Json json, state::internal::UnsealJson(path, text));
  VICINAL_RETURN_IF_ERROR(state::internal::CheckMajor(path, json, kMajor));
  TuningDocument document;
  VICINAL_ASSIGN_OR_RETURN(document.graph, state::internal::StringMember(path, json, "graph"));
  VICINAL_ASSIGN_OR_RETURN(
      document.version, state::internal::IntegerMember(path, json, "version", 1, std::numeric_limits<int64_t>::max()));
  VICINAL_ASSIGN_OR_RETURN(document.device, state::internal::StringMember(path, json, "device"));
  const auto records = json.find("records");
  if (records == json.end() || !records->is_array()) return state::Damaged(path, "records is not an array");
  std::set<std::string> keys;
  for (size_t i = 0; i < records->size(); ++i) {
    StatusOr<KeptRecord> record = ParseKeptRecord((*records)[i], absl::StrCat("records[", i, "]"));
    if (!record.ok()) return state::Damaged(path, std::string(record.status().message()));
    const TuningKey& key = record->entry.work.key;
    const std::string name =
        absl::StrCat(Describe(key), ", ", std::string(ToString(key.storage)), key.concat ? "" : ", averaged");
    if (!keys.insert(name).second) return state::Damaged(path, "two records are of " + name);
    document.records.push_back(*std::move(record));
  }
  VICINAL_RETURN_IF_ERROR(ParseDefaults(path, json, &document.defaults));
  return document;
}

}  // namespace vicinal::durable
