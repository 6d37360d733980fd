// SPDX-License-Identifier: Apache-2.0
// Binds layers to the tensors of a weights file by name, and finds tensors that no layer uses.
#ifndef VICINAL_ENGINE_MODEL_TENSOR_BINDER_H_
#define VICINAL_ENGINE_MODEL_TENSOR_BINDER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/model/safetensors.h"
#include "engine/model/step.h"

namespace vicinal::internal {

class TensorBinder {
 public:
  // `file` must outlive the binder.
  explicit TensorBinder(const Safetensors& file) : file_(file) {}

  // The tensor `name`, which must have the shape `expected` in the file. Stored with the shape `stored` if given (same
  // number of elements). A tensor may be bound repeatedly (tied weights) and is stored once. `user` names the layer for
  // messages. INVALID_ARGUMENT: TENSOR_MISSING, TENSOR_SHAPE, NOT_FINITE.
  StatusOr<WeightRef> Bind(const std::string& name, const std::vector<int64_t>& expected, const std::string& user,
                           const std::vector<int64_t>& stored = {});
  bool Has(const std::string& name) const { return file_.Find(name) != nullptr; }
  // The shape in the file; null if there is no such tensor.
  const std::vector<int64_t>* ShapeOf(const std::string& name) const {
    const SafetensorsEntry* const entry = file_.Find(name);
    return entry != nullptr ? &entry->shape : nullptr;
  }
  // The names that begin with `prefix`, without it.
  std::vector<std::string> NamesFrom(const std::string& prefix) const;
  // `name` is a second name of the bound tensor `original` (state_dicts contain shared tensors twice): may be absent,
  // must be equal. INVALID_ARGUMENT: TENSOR_SHAPE, TENSOR_VALUE.
  Status BindCopy(const std::string& name, const std::string& original, const std::string& user);
  // `name` occurs in state_dicts, but has no effect: may be absent. INVALID_ARGUMENT: TENSOR_SHAPE.
  Status BindUnread(const std::string& name, const std::vector<int64_t>& expected, const std::string& user);
  // A weight that is made of bound tensors or of constants: the same for equal keys and shapes. `fill` writes its
  // numbers, which are zeros. Documents are untrusted: if all made weights have more than 64 MiB and sixteen times the
  // bytes of the bound tensors, this one has no numbers, and CheckMade refuses the model.
  WeightRef Make(const std::string& key, std::vector<int64_t> shape,
                 const std::function<void(std::vector<float>& values)>& fill);
  // BAD_ARCHITECTURE at `field`, after a Make beyond the limit.
  Status CheckMade(const std::string& field) const;
  // TENSOR_UNUSED, with the first tensor that was not bound. Ignores training state (num_batches_tracked).
  Status CheckAllUsed() const;

  int64_t parameter_count() const { return parameter_count_; }

 private:
  Status CheckShape(const SafetensorsEntry& entry, const std::string& name, const std::vector<int64_t>& expected,
                    const std::string& user) const;
  std::string SomeNames() const;
  // What the layer reads whose tensors are called most like `name`: "layer 'c' (GCNConv) reads 'c.lin.weight'; ". Empty
  // if none has a prefix in common.
  std::string NearestReader(const std::string& name) const;

  const Safetensors& file_;
  std::map<std::string, WeightRef> bound_;
  std::set<std::string> used_;
  std::map<std::string, std::set<std::string>> readers_;  // the bound names of each user
  int64_t parameter_count_ = 0;
  std::map<std::pair<std::string, std::vector<int64_t>>, WeightRef> made_;
  int64_t made_count_ = 0;  // numbers of those
  bool made_too_much_ = false;
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_MODEL_TENSOR_BINDER_H_
