// SPDX-License-Identifier: Apache-2.0
// The metadata of manifests: small facts about a version as JSON (docs/state.md lists the members). Written and read by
// the same list of members, so that the two cannot differ.
#ifndef VICINAL_ENGINE_DURABLE_METADATA_H_
#define VICINAL_ENGINE_DURABLE_METADATA_H_

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/status.h"

namespace vicinal::durable {

// Puts members into an object. Doubles keep all their bits.
class MetadataWriter {
 public:
  template <class T>
  void operator()(const char* key, const T& value) {
    object_[key] = value;
  }
  // `fields(visitor)` lists the members of an object within this one.
  template <class Fields>
  void Object(const char* key, const Fields& fields) {
    MetadataWriter inner;
    fields(inner);
    object_[key] = std::move(inner.object_);
  }
  std::string Text() const { return object_.dump(); }

 private:
  nlohmann::json object_ = nlohmann::json::object();
};

// Takes members out of an object. Members that it is not asked for are ignored: a later minor format may have added
// them. The first member that is missing or not as it should be sets status(), DATA_LOSS (STATE_DAMAGED).
class MetadataReader {
 public:
  // `path` names the manifest in errors. DATA_LOSS unless `text` is an object.
  static StatusOr<MetadataReader> Parse(std::string path, const std::string& text);

  void operator()(const char* key, bool& value);
  void operator()(const char* key, int64_t& value);  // not negative: nothing here ever is
  void operator()(const char* key, double& value);   // finite
  void operator()(const char* key, std::string& value);
  template <size_t N>
  void operator()(const char* key, std::array<int64_t, N>& values) {
    Elements(key, values);
  }
  template <size_t N>
  void operator()(const char* key, std::array<double, N>& values) {
    Elements(key, values);
  }
  template <class Fields>
  void Object(const char* key, const Fields& fields) {
    MetadataReader inner(path_, Find(key, nlohmann::json::value_t::object));
    if (status_.ok()) fields(inner);
    Merge(inner.status_);
  }

  bool Has(const char* key) const { return object_.contains(key); }
  // Sets status(), unless it is set.
  void Fail(const std::string& what);
  const Status& status() const { return status_; }
  const std::string& path() const { return path_; }

 private:
  MetadataReader(std::string path, nlohmann::json object) : path_(std::move(path)), object_(std::move(object)) {}

  // The member; a null value if it is missing or of another type, which sets status().
  nlohmann::json Find(const char* key, nlohmann::json::value_t type);
  void Merge(const Status& inner);
  template <class Array>
  void Elements(const char* key, Array& values) {
    const nlohmann::json list = Find(key, nlohmann::json::value_t::array);
    if (!status_.ok()) return;
    if (list.size() != values.size()) return Fail(std::string(key) + " has another number of elements");
    for (size_t i = 0; i < values.size(); ++i) {
      MetadataReader element(path_, {{key, list[i]}});
      element(key, values[i]);
      Merge(element.status_);
    }
  }

  std::string path_;
  nlohmann::json object_;
  Status status_;
};

// Times are kept as nanoseconds since 1970.
inline int64_t ToNanoseconds(WallTime time) {
  return std::chrono::duration_cast<Nanoseconds>(time.time_since_epoch()).count();
}
inline WallTime FromNanoseconds(int64_t count) {
  return WallTime(std::chrono::duration_cast<WallTime::duration>(Nanoseconds(count)));
}

}  // namespace vicinal::durable

#endif  // VICINAL_ENGINE_DURABLE_METADATA_H_
