// SPDX-License-Identifier: Apache-2.0
#include "engine/base/strict_json.h"

#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/printable.h"

namespace vicinal::internal {
namespace {

using Json = nlohmann::json;

// Builds the document from the parser's events, so that it can reject what the parser itself accepts.
class StrictBuilder final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return Put(Json()); }
  bool boolean(bool value) override { return Put(Json(value)); }
  bool number_integer(number_integer_t value) override { return Put(Json(value)); }
  bool number_unsigned(number_unsigned_t value) override { return Put(Json(value)); }
  bool number_float(number_float_t value, const string_t&) override { return Put(Json(value)); }
  bool string(string_t& value) override { return Put(Json(std::move(value))); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return Open(Json::object()); }
  bool start_array(std::size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& value) override {
    if (open_.back()->contains(value)) {
      problem_ = "the key '" + Printable(value) + "' occurs twice in one object";
      return false;
    }
    key_ = std::move(value);
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    std::string text = error.what();
    // The library's own prefix is of no use to a client.
    if (size_t end = text.find("] "); end != std::string::npos) text = text.substr(end + 2);
    problem_ = Printable(text, 240);
    return false;
  }

  const std::string& problem() const { return problem_; }
  Json TakeRoot() { return std::move(root_); }

 private:
  // Where the next value goes. Pointers into an array stay good: it does not grow while something inside it is open.
  Json* Place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    Json& slot = parent[key_];
    slot = std::move(value);
    return &slot;
  }
  bool Put(Json value) {
    Place(std::move(value));
    return true;
  }
  bool Open(Json value) {
    if (open_.size() >= kMaxJsonDepth) {
      problem_ = "it is nested deeper than " + std::to_string(kMaxJsonDepth) + " levels";
      return false;
    }
    open_.push_back(Place(std::move(value)));
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Json*> open_;
  std::string key_;
  std::string problem_;
};

}  // namespace

StatusOr<Json> ParseStrictJson(std::string_view text, std::string_view reason, std::string_view what) {
  StrictBuilder builder;
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) {
    return InvalidArgument(reason, "", std::string(what) + " is not valid JSON: " + builder.problem());
  }
  return builder.TakeRoot();
}

}  // namespace vicinal::internal
