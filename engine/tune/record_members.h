// SPDX-License-Identifier: Apache-2.0
// Reads the members of a JSON object of a tuning record, each with its type and range.
#ifndef VICINAL_ENGINE_TUNE_RECORD_MEMBERS_H_
#define VICINAL_ENGINE_TUNE_RECORD_MEMBERS_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "engine/base/status.h"

namespace vicinal::internal {

// Longest text that is written, and that is read: cutting may end within a character, which JSON then replaces.
inline constexpr size_t kMaxTextWritten = 2000, kMaxTextRead = 2 * kMaxTextWritten;

// The first problem stays in `status`, which several readers may share: INVALID_ARGUMENT (BAD_TUNING_RECORD), naming
// the member below `where`. After it nothing is read. The object must outlive the reader.
class RecordMembers {
 public:
  using Json = nlohmann::json;

  RecordMembers(const Json& object, std::string where, Status* status)
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

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_TUNE_RECORD_MEMBERS_H_
