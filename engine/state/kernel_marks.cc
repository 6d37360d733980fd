// SPDX-License-Identifier: Apache-2.0
#include "engine/state/kernel_marks.h"

#include <limits>

#include "engine/state/crc32c.h"
#include "engine/state/file_error.h"
#include "engine/state/sealed_json.h"

namespace vicinal::state {
namespace {

using MarksJson = nlohmann::json;
constexpr std::string_view kMarksPrefix = "kernels-", kMarksSuffix = ".json";
constexpr int64_t kMarksMajor = 1, kMarksMinor = 0;

Status ReadNames(const std::string& file, const MarksJson& json, const char* member, std::set<std::string>* names) {
  const auto found = json.find(member);
  if (found == json.end() || !found->is_array()) return Damaged(file, std::string(member) + " is not an array");
  for (const MarksJson& name : *found) {
    if (!name.is_string()) return Damaged(file, std::string(member) + " has something else than names");
    names->insert(name.get<std::string>());
  }
  return OkStatus();
}

StatusOr<const MarksJson*> ObjectMember(const std::string& file, const MarksJson& json, const char* member) {
  const auto found = json.find(member);
  if (found == json.end() || !found->is_object()) return Damaged(file, std::string(member) + " is not an object");
  return &*found;
}

}  // namespace

std::string KernelMarksFile(std::string_view device) {
  return std::string(kMarksPrefix) + CrcText(Crc32c(device)) + std::string(kMarksSuffix);
}

bool IsKernelMarksFile(std::string_view name) {
  if (name.size() != kMarksPrefix.size() + 8 + kMarksSuffix.size()) return false;
  const std::string_view digits = name.substr(kMarksPrefix.size(), 8);
  return name.starts_with(kMarksPrefix) && name.ends_with(kMarksSuffix) &&
         digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string EncodeKernelMarks(const KernelMarks& marks) {
  MarksJson interrupted = MarksJson::object(), quarantined = MarksJson::object();
  for (const auto& [name, count] : marks.interrupted) interrupted[name] = count;
  for (const auto& [name, reason] : marks.quarantined) quarantined[name] = reason;
  return internal::SealJson({{"major", kMarksMajor},
                             {"minor", kMarksMinor},
                             {"device", marks.device},
                             {"build", marks.build},
                             {"proven", marks.proven},
                             {"running", marks.running},
                             {"interrupted", std::move(interrupted)},
                             {"quarantined", std::move(quarantined)}});
}

StatusOr<KernelMarks> ReadKernelMarks(const FileSystem& files, const std::string& file) {
  VICINAL_ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(files, file, internal::kMaxDocumentBytes));
  VICINAL_ASSIGN_OR_RETURN(const MarksJson json, internal::UnsealJson(file, text));
  VICINAL_RETURN_IF_ERROR(internal::CheckMajor(file, json, kMarksMajor));
  KernelMarks marks;
  VICINAL_ASSIGN_OR_RETURN(marks.device, internal::StringMember(file, json, "device"));
  VICINAL_ASSIGN_OR_RETURN(marks.build, internal::StringMember(file, json, "build"));
  if (KernelMarksFile(marks.device) != file) return Damaged(file, "it is of the device '" + marks.device + "'");
  VICINAL_RETURN_IF_ERROR(ReadNames(file, json, "proven", &marks.proven));
  VICINAL_RETURN_IF_ERROR(ReadNames(file, json, "running", &marks.running));
  VICINAL_ASSIGN_OR_RETURN(const MarksJson* const interrupted, ObjectMember(file, json, "interrupted"));
  for (const auto& [name, count] : interrupted->items()) {
    VICINAL_ASSIGN_OR_RETURN(marks.interrupted[name], internal::IntegerMember(file, *interrupted, name.c_str(), 1,
                                                                              std::numeric_limits<int64_t>::max() - 1));
  }
  VICINAL_ASSIGN_OR_RETURN(const MarksJson* const quarantined, ObjectMember(file, json, "quarantined"));
  for (const auto& [name, reason] : quarantined->items()) {
    VICINAL_ASSIGN_OR_RETURN(marks.quarantined[name], internal::StringMember(file, *quarantined, name.c_str()));
  }
  return marks;
}

Status WriteKernelMarks(FileSystem& files, const KernelMarks& marks) {
  return ReplaceFile(files, KernelMarksFile(marks.device), EncodeKernelMarks(marks));
}

}  // namespace vicinal::state
