// SPDX-License-Identifier: Apache-2.0
#include "engine/model/tensor_binder.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/strip.h"
#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/nearest_name.h"
#include "engine/base/printable.h"
#include "engine/base/tensor.h"

namespace vicinal::internal {
namespace {

bool IsBookkeeping(std::string_view name) {
  constexpr std::string_view kSuffix = "num_batches_tracked";
  return name.size() >= kSuffix.size() && name.substr(name.size() - kSuffix.size()) == kSuffix;
}

// Bytes of the parts, up to a dot, that both names begin with. 0 for parts of modules with other numbers, such as
// convs.0 and convs.1.
size_t SharedPrefix(std::string_view a, std::string_view b) {
  const auto differ = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const size_t shared = a.substr(0, differ.first - a.begin()).rfind('.') + 1;
  const auto numbered = [shared](std::string_view name) {
    return shared < name.size() && name[shared] >= '0' && name[shared] <= '9';
  };
  return numbered(a) && numbered(b) ? 0 : shared;
}

}  // namespace

StatusOr<WeightRef> TensorBinder::Bind(const std::string& name, const std::vector<int64_t>& expected,
                                       const std::string& user, const std::vector<int64_t>& stored) {
  const SafetensorsEntry* entry = file_.Find(name);
  if (entry == nullptr) {
    return InvalidArgument("TENSOR_MISSING", name,
                           "the weights file has no tensor '" + Printable(name) + "' " + ShapeToString(expected) +
                               ", which " + user + " needs; " + SomeNames());
  }
  VICINAL_RETURN_IF_ERROR(CheckShape(*entry, name, expected, user));
  used_.insert(name);
  readers_[user].insert(name);
  const std::vector<int64_t>& shape = stored.empty() ? expected : stored;
  WeightRef& known = bound_[name];
  if (known != nullptr && known->shape == shape) return known;
  VICINAL_ASSIGN_OR_RETURN(std::vector<float> values, Safetensors::ToFloats(*entry, name));
  parameter_count_ += static_cast<int64_t>(values.size());
  known = std::make_shared<const Weight>(Weight{name, shape, std::move(values)});
  return known;
}

WeightRef TensorBinder::Make(const std::string& key, std::vector<int64_t> shape,
                             const std::function<void(std::vector<float>& values)>& fill) {
  constexpr int64_t kFreeCount = int64_t{16} << 20, kMostPerParameter = 16;
  WeightRef& known = made_[{key, shape}];
  if (known != nullptr) return known;
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  made_count_ += count;
  auto weight = std::make_shared<Weight>(Weight{key, std::move(shape), {}});
  if (made_count_ > kFreeCount + kMostPerParameter * parameter_count_) {
    made_too_much_ = true;
  } else {
    weight->values.resize(count);
    fill(weight->values);
  }
  known = std::move(weight);
  return known;
}

Status TensorBinder::CheckMade(const std::string& field) const {
  if (!made_too_much_) return OkStatus();
  return InvalidArgument("BAD_ARCHITECTURE", field,
                         "the layers up to " + field +
                             " are made of matrices with more than 16 Mi numbers and 16 times "
                             "those of the weights file; use narrower layers, or fewer");
}

std::vector<std::string> TensorBinder::NamesFrom(const std::string& prefix) const {
  std::vector<std::string> names;
  for (auto entry = file_.entries().lower_bound(prefix); entry != file_.entries().end(); ++entry) {
    if (entry->first.compare(0, prefix.size(), prefix) != 0) break;
    names.push_back(entry->first.substr(prefix.size()));
  }
  return names;
}

Status TensorBinder::BindCopy(const std::string& name, const std::string& original, const std::string& user) {
  const SafetensorsEntry* entry = file_.Find(name);
  if (entry == nullptr) return OkStatus();
  const SafetensorsEntry* first = file_.Find(original);
  VICINAL_CHECK(first != nullptr);
  used_.insert(name);
  VICINAL_RETURN_IF_ERROR(CheckShape(*entry, name, first->shape, user));
  if (entry->dtype == first->dtype && entry->bytes == first->bytes) return OkStatus();
  return InvalidArgument("TENSOR_VALUE", name,
                         "tensor '" + Printable(name) + "' differs from '" + Printable(original) + "', but " + user +
                             " shares its weights between them");
}

Status TensorBinder::BindUnread(const std::string& name, const std::vector<int64_t>& expected,
                                const std::string& user) {
  const SafetensorsEntry* entry = file_.Find(name);
  if (entry == nullptr) return OkStatus();
  used_.insert(name);
  return CheckShape(*entry, name, expected, user);
}

Status TensorBinder::CheckShape(const SafetensorsEntry& entry, const std::string& name,
                                const std::vector<int64_t>& expected, const std::string& user) const {
  if (entry.shape == expected) return OkStatus();
  return InvalidArgument("TENSOR_SHAPE", name,
                         "tensor '" + Printable(name) + "' has the shape " + ShapeToString(entry.shape) +
                             " in the weights file, " + user + " needs " + ShapeToString(expected) +
                             "; the architecture and the weights do not belong together");
}

Status TensorBinder::CheckAllUsed() const {
  for (const auto& [name, entry] : file_.entries()) {
    if (used_.contains(name) || IsBookkeeping(name)) continue;
    return InvalidArgument("TENSOR_UNUSED", name,
                           "tensor '" + Printable(name) + "' " + ShapeToString(entry.shape) +
                               " of the weights file belongs to no layer of the architecture; " + NearestReader(name) +
                               "declare the layer that uses it, or remove the tensor");
  }
  return OkStatus();
}

std::string TensorBinder::NearestReader(const std::string& name) const {
  constexpr size_t kMax = 4;
  const std::string* user = nullptr;
  size_t most = 0;
  for (const auto& [reader, tensors] : readers_) {
    for (const std::string& tensor : tensors) {
      const size_t shared = SharedPrefix(name, tensor);
      if (shared <= most) continue;
      most = shared;
      user = &reader;
    }
  }
  if (user == nullptr) return "";
  const std::set<std::string>& read = readers_.at(*user);
  if (const std::string module = std::string(absl::StripSuffix(name, ".bias"));
      module != name && read.contains(module + ".weight")) {
    return *user + " reads " + Quoted(module + ".weight") +
           " alone: an expression reads both where linear names the module, and a layer where its arguments have a "
           "bias; ";
  }
  std::vector<std::string> known(read.begin(), read.end());
  // What is spelt most like it comes first.
  if (const std::string first = NearestName(name, known); !first.empty())
    std::rotate(known.begin(), std::find(known.begin(), known.end(), first), known.end());
  std::string names;
  for (size_t i = 0; i < std::min(known.size(), kMax); ++i) names += (i == 0 ? "" : ", ") + Quoted(known[i]);
  return *user + " reads " + names + (known.size() > kMax ? ", ...; " : "; ");
}

std::string TensorBinder::SomeNames() const {
  constexpr size_t kMax = 4;
  std::string names;
  size_t shown = 0;
  for (const auto& [name, entry] : file_.entries()) {
    if (used_.contains(name) || IsBookkeeping(name)) continue;
    if (shown == kMax) return "not yet used are " + names + ", ...";
    names += (shown == 0 ? "" : ", ") + Printable(name) + " " + ShapeToString(entry.shape);
    ++shown;
  }
  return shown == 0 ? "it has no tensors beside those already used" : "not yet used are " + names;
}

}  // namespace vicinal::internal
