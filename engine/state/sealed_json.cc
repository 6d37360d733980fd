// SPDX-License-Identifier: Apache-2.0
#include "engine/state/sealed_json.h"

#include <limits>

#include "engine/base/error.h"
#include "engine/base/printable.h"
#include "engine/base/strict_json.h"
#include "engine/state/crc32c.h"
#include "engine/state/file_error.h"

namespace vicinal::state::internal {
namespace {
using Json = nlohmann::json;
constexpr std::string_view kBegin = "{\"crc32c\":\"", kMiddle = "\",";
constexpr size_t kSealBytes = 11 + 8 + 2;
}  // namespace

std::string SealJson(const Json& object) {
  const std::string rest = object.dump(-1, ' ', false, Json::error_handler_t::replace).substr(1) + "\n";
  return std::string(kBegin) + CrcText(Crc32c(rest)) + std::string(kMiddle) + rest;
}

StatusOr<Json> UnsealJson(const std::string& path, std::string_view text) {
  if (text.size() <= kSealBytes) return Damaged(path, "it has " + std::to_string(text.size()) + " bytes");
  const std::string expected = CrcText(Crc32c(text.substr(kSealBytes)));
  const std::string seal = std::string(kBegin) + expected + std::string(kMiddle);
  if (text.substr(0, kSealBytes) != seal) {
    return Damaged(
        path, "it begins with " + Printable(text.substr(0, kSealBytes)) + ", " + seal + " expected by its contents");
  }
  auto object = ::vicinal::internal::ParseStrictJson(text, "STATE_DAMAGED", path);
  if (!object.ok()) return Damaged(path, std::string(object.status().message()));
  if (!object->is_object()) return Damaged(path, "it is not a JSON object");
  return object;
}

StatusOr<std::string> StringMember(const std::string& path, const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return Damaged(path, std::string(key) + " is not a string");
  return found->get<std::string>();
}

StatusOr<int64_t> IntegerMember(const std::string& path, const Json& object, const char* key, int64_t least,
                                int64_t most) {
  const auto found = object.find(key);
  const auto bad = [&] { return Damaged(path, std::string(key) + " is not an integer in its range"); };
  if (found == object.end() || !found->is_number_integer()) return bad();
  if (found->is_number_unsigned() &&
      found->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return bad();
  }
  const auto value = found->get<int64_t>();
  return value < least || value > most ? StatusOr<int64_t>(bad()) : value;
}

Status CheckMajor(const std::string& path, const Json& object, int64_t major) {
  VICINAL_ASSIGN_OR_RETURN(const int64_t found, IntegerMember(path, object, "major", 1, 1 << 30));
  if (found == major) return OkStatus();
  return FailedPrecondition("STATE_FORMAT_TOO_NEW", "'" + path + "' has format " + std::to_string(found) +
                                                        ".x; this build reads " + std::to_string(major) +
                                                        ".x: use the build that wrote it");
}

}  // namespace vicinal::state::internal
