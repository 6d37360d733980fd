// SPDX-License-Identifier: Apache-2.0
// The flat form of layouts: named arrays of bytes and named numbers, in which a layout outlives the process. A kernel
// whose layouts have a flat form implements LayoutCodec beside its kernel interface. Who stores the form, and whether
// that pays, is not the kernel's concern (engine/durable/layout_keeper.h).
#ifndef VICINAL_ENGINE_KERNELS_LAYOUT_CODEC_H_
#define VICINAL_ENGINE_KERNELS_LAYOUT_CODEC_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/kernels/adjacency_layout.h"
#include "engine/kernels/kernel.h"

namespace vicinal {

// An array of a layout in memory of the device, which the layout owns. Names match [a-z0-9_.]{1,63}.
struct LayoutArray {
  std::string name;
  const void* data = nullptr;
  int64_t bytes = 0;
};

struct FlatLayout {
  std::vector<LayoutArray> arrays;  // may be empty arrays; no name twice
  std::map<std::string, int64_t> numbers;
};

// A stored flat form. Errors are those of the storage: a codec passes them on.
class LayoutInput {
 public:
  virtual ~LayoutInput() = default;
  // Bytes of the array; DATA_LOSS if there is none of that name.
  virtual StatusOr<int64_t> BytesOf(std::string_view array) const = 0;
  // Reads and verifies the whole array, to as many bytes of host memory.
  virtual Status Read(std::string_view array, void* to) const = 0;
  // DATA_LOSS if there is none of that name.
  virtual StatusOr<int64_t> Number(std::string_view name) const = 0;
  // DATA_LOSS naming the storage: what was read makes no layout of this adjacency.
  virtual Status Bad(std::string_view problem) const = 0;

  // The array as values of T; DATA_LOSS if it is no whole number of them, or if they are more than `most`, before
  // memory is allocated.
  template <class T>
  Status Fill(std::string_view array, int64_t most, std::vector<T>* values) const {
    VICINAL_ASSIGN_OR_RETURN(const int64_t bytes, BytesOf(array));
    constexpr auto kSize = static_cast<int64_t>(sizeof(T));
    if (bytes % kSize != 0 || bytes / kSize > most) return Bad(SizeProblem(array, bytes, most * kSize));
    values->resize(static_cast<size_t>(bytes / kSize));
    return Read(array, values->data());
  }

 private:
  static std::string SizeProblem(std::string_view array, int64_t bytes, int64_t most);
};

// Thread-safe.
class LayoutCodec {
 public:
  virtual ~LayoutCodec();
  // Of the flat form and of what the layouts mean. To be raised whenever a build would make other layouts, or read
  // stored ones otherwise: layouts of other versions are made again.
  virtual int64_t layout_version() const = 0;
  // The flat form of a layout that the kernel has made, or nothing if this one has none. Valid as long as the layout.
  virtual FlatLayout Flatten(const AdjacencyLayout& layout) const = 0;
  // The layout of that name (Kernel::LayoutName) for source.adjacency(), from its flat form, with the same bits as a
  // new one. Trusts nothing: everything that a run indexes with is checked against the adjacency. DATA_LOSS; errors of
  // the device.
  virtual StatusOr<AdjacencyLayoutRef> Unflatten(std::string_view name, const LayoutInput& input,
                                                 LayoutSource& source) const = 0;
};

// The codec of a kernel; null: its layouts have no flat form.
const LayoutCodec* LayoutCodecOf(const AggregateKernel& kernel);

}  // namespace vicinal

#endif  // VICINAL_ENGINE_KERNELS_LAYOUT_CODEC_H_
