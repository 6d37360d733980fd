// SPDX-License-Identifier: Apache-2.0
#include "engine/durable/metadata.h"

#include "engine/base/strict_json.h"
#include "engine/state/file_error.h"

namespace vicinal::durable {

using Json = nlohmann::json;

StatusOr<MetadataReader> MetadataReader::Parse(std::string path, const std::string& text) {
  StatusOr<Json> object = ::vicinal::internal::ParseStrictJson(text, "STATE_DAMAGED", path);
  if (!object.ok()) return state::Damaged(path, std::string(object.status().message()));
  if (!object->is_object()) return state::Damaged(path, "its metadata is not a JSON object");
  return MetadataReader(std::move(path), *std::move(object));
}

void MetadataReader::Fail(const std::string& what) {
  if (status_.ok()) status_ = state::Damaged(path_, "metadata: " + what);
}

void MetadataReader::Merge(const Status& inner) {
  if (status_.ok() && !inner.ok()) status_ = inner;
}

Json MetadataReader::Find(const char* key, Json::value_t type) {
  const auto found = object_.find(key);
  if (found == object_.end() || found->type() != type) {
    Fail(std::string(key) + " is missing or of another type");
    return Json();
  }
  return *found;
}

void MetadataReader::operator()(const char* key, bool& value) {
  const Json found = Find(key, Json::value_t::boolean);
  if (status_.ok()) value = found.get<bool>();
}

void MetadataReader::operator()(const char* key, std::string& value) {
  const Json found = Find(key, Json::value_t::string);
  if (status_.ok()) value = found.get<std::string>();
}

void MetadataReader::operator()(const char* key, int64_t& value) {
  const Json found = Find(key, Json::value_t::number_unsigned);
  if (!status_.ok()) return;
  const uint64_t number = found.get<uint64_t>();
  if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return Fail(std::string(key) + " is too large");
  value = static_cast<int64_t>(number);
}

void MetadataReader::operator()(const char* key, double& value) {
  const auto found = object_.find(key);
  if (found == object_.end() || !found->is_number()) return Fail(std::string(key) + " is missing or not a number");
  const double number = found->get<double>();
  if (!std::isfinite(number)) return Fail(std::string(key) + " is not finite");
  if (status_.ok()) value = number;
}

}  // namespace vicinal::durable
