// SPDX-License-Identifier: Apache-2.0
#include "engine/tuning/tuning_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/strict_json.h"
#include "engine/tune/kept_record.h"
#include "engine/tune/record_json.h"
#include "engine/tuning/tuning_request.h"

namespace vicinal {
namespace {

using Json = nlohmann::json;
constexpr char kFormat[] = "vicinal.tuning/1", kField[] = "import_text";

Status BadText(const std::string& problem) {
  return InvalidArgument("BAD_TUNING_TEXT", kField, absl::StrCat("this is no text of exported tuning: ", problem));
}

// Keeps reason and message; the field says which record.
Status InRecord(const Status& status, size_t index, const TuningKey& key) {
  if (status.code() != StatusCode::kInvalidArgument) return status;
  const auto detail = DetailOf(status);
  return InvalidArgument(detail.has_value() ? detail->reason : "BAD_TUNING_RECORD",
                         absl::StrCat(kField, ".records[", index, "]"),
                         absl::StrCat("records[", index, "], ", Describe(key), ": ", std::string(status.message())));
}

StatusOr<std::string> Word(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string()) return BadText(absl::StrCat(key, " is missing or no string"));
  return found->get<std::string>();
}

StatusOr<Json> ParseText(const std::string& device, const std::string& text) {
  if (text.size() > kMaxTuningText) {
    return BadText(absl::StrCat("it has ", text.size(), " bytes, and may have ", kMaxTuningText));
  }
  StatusOr<Json> json = internal::ParseStrictJson(text, "BAD_TUNING_TEXT", "the tuning to import");
  if (!json.ok()) return BadText(std::string(json.status().message()));
  if (!json->is_object()) return BadText("it is not a JSON object");
  VICINAL_ASSIGN_OR_RETURN(const std::string format, Word(*json, "format"));
  if (format != kFormat) {
    return BadText(absl::StrCat("its format is '", Printable(format), "'; this server reads ", kFormat));
  }
  VICINAL_ASSIGN_OR_RETURN(const std::string exported_on, Word(*json, "device"));
  if (exported_on != device) {
    return InvalidArgument(
        "DEVICE_MISMATCH", absl::StrCat(kField, ".device"),
        absl::StrCat("it was exported on '", Printable(exported_on, 200), "', and this server runs on '", device,
                     "', where other kernels may be faster; tune the graph here"));
  }
  const auto records = json->find("records");
  if (records == json->end() || !records->is_array()) return BadText("records is missing or no array");
  if (records->size() > static_cast<size_t>(kMaxTuningKeys)) {
    return BadText(absl::StrCat("it has ", records->size(), " records, and may have ", kMaxTuningKeys));
  }
  return *std::move(json);
}

}  // namespace

std::string ExportTuning(const KernelRegistry& registry, DeviceKind kind, const std::string& device,
                         const PreparedGraph& graph) {
  Json records = Json::array();
  for (const TuningEntry& entry : graph.tuning().Decided()) {
    KeptRecord kept = Keep(registry, kind, entry);
    Thin(&kept);
    records.push_back(ToJson(kept));
  }
  const Json json = {
      {"format", kFormat}, {"graph", graph.parts().name}, {"device", device}, {"records", std::move(records)}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

StatusOr<TuningChange> ImportTuning(const ForceTools& tools, const std::string& device, const PreparedGraph& graph,
                                    const std::string& text) {
  VICINAL_ASSIGN_OR_RETURN(const Json json, ParseText(device, text));
  TuningChange change;
  for (size_t i = 0; i < json["records"].size(); ++i) {
    StatusOr<KeptRecord> kept = ParseKeptRecord(json["records"][i], absl::StrCat(kField, ".records[", i, "]"));
    if (!kept.ok()) return kept.status();
    Thin(&*kept);
    const TuningWork work = kept->entry.work;
    const auto same = [&](const TuningEntry& other) { return other.work.key == work.key; };
    if (std::any_of(change.entries.begin(), change.entries.end(), same)) {
      return InRecord(InvalidArgument("DUPLICATE_RECORD", "", "an earlier record is of the same work"), i, work.key);
    }
    StatusOr<TuningEntry> entry =
        Usable(*tools.registry, tools.device, graph.ShapeOf(work.adjacency), graph.weighted(), *kept);
    if (!entry.ok()) return InRecord(entry.status(), i, work.key);
    if (entry->record.choice() != nullptr) {
      const Status ready = MakeLayoutOf(tools, graph, work, entry->record.choice()->setting);
      if (!ready.ok()) return InRecord(ready, i, work.key);
      entry->record.note = "imported";
    }
    // What measuring took elsewhere is no part of this graph's budget.
    entry->record.budget_seconds = entry->record.used_seconds = 0.0;
    change.entries.push_back(*std::move(entry));
  }
  std::vector<TuningWork> works;
  for (const TuningEntry& entry : change.entries) works.push_back(entry.work);
  VICINAL_RETURN_IF_ERROR(CheckRoom(works, graph.tuning()));
  return change;
}

}  // namespace vicinal
