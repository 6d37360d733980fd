// SPDX-License-Identifier: Apache-2.0
// What the process knows of cuBLAS: the loaded library, and the algorithm pinned for each pair of widths. Both are made
// when somebody first asks. Success and refusals are kept for good. A lack of device memory passes: for kRetryInterval
// it is the answer to all requests, so that they do not repeat the attempt at each call; then the next one tries again.
#ifndef VICINAL_ENGINE_CUDA_DENSE_CUBLAS_DETAIL_CUBLAS_PRODUCTS_H_
#define VICINAL_ENGINE_CUDA_DENSE_CUBLAS_DETAIL_CUBLAS_PRODUCTS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/clock.h"
#include "engine/base/mutex.h"
#include "engine/base/status.h"
#include "engine/cuda/dense/cublas/detail/cublas_library.h"

namespace vicinal::cuda {

class PinnedProduct;

// Thread-safe. Whoever asks while another caller makes the answer waits for it, unless the answer is settled.
class CublasProducts {
 public:
  using Pinned = std::shared_ptr<const PinnedProduct>;
  using Widths = std::pair<int64_t, int64_t>;  // inputs and outputs

  static constexpr std::chrono::seconds kRetryInterval{10};

  // What makes the answers; RESOURCE_EXHAUSTED: memory is short.
  struct Makers {
    // Every other error is a refusal for good.
    std::function<StatusOr<LoadedCublas>()> load;
    // FAILED_PRECONDITION: a refusal for good. Other errors are not kept.
    std::function<StatusOr<Pinned>(const LoadedCublas&, const Widths&)> verify;
  };

  // `clock` must outlive the object.
  CublasProducts(Makers makers, const Clock& clock) : makers_(std::move(makers)), clock_(clock) {}

  // FAILED_PRECONDITION (KERNEL_REFUSED): the library cannot be loaded. RESOURCE_EXHAUSTED: memory is short.
  StatusOr<LoadedCublas> Load();
  // The same for tuning, which tries again at once if memory was short.
  StatusOr<LoadedCublas> LoadToTune();
  // The algorithm for products of these widths, verified at once unless it is known. Errors as Load and `verify`.
  StatusOr<Pinned> PinnedFor(const Widths& widths);

  // True: PinnedFor answers without using the device, now and later.
  bool IsSettled(const Widths& widths) const;
  // Keeps the result of a verification. The first settled one stays; others are equal to it, because the library
  // proposes the same.
  void Remember(const Widths& widths, const StatusOr<Pinned>& pinned);

  // The reason as a refusal tells it: whether it will pass, and when it is tried again.
  static std::string RefusalOf(const Status& why);

 private:
  template <class T>
  class Answer {
   public:
    // Null: there is none for good.
    const StatusOr<T>* Settled() const;
    // Null: there is none, or it is time to try again.
    const StatusOr<T>* At(MonotonicTime now) const;
    void Keep(StatusOr<T> value, MonotonicTime now) { value_ = std::move(value), retry_ = now + kRetryInterval; }

   private:
    std::optional<StatusOr<T>> value_;
    MonotonicTime retry_;
  };

  StatusOr<LoadedCublas> LoadNow() VICINAL_REQUIRES(load_mutex_);
  std::optional<StatusOr<Pinned>> Known(const Widths& widths) const VICINAL_EXCLUDES(mutex_);

  const Makers makers_;
  const Clock& clock_;
  // Held while the library is loaded, and while a caller verifies at once, so that two do not do the same.
  Mutex load_mutex_, verify_mutex_;
  Answer<LoadedCublas> loaded_ VICINAL_GUARDED_BY(load_mutex_);
  mutable Mutex mutex_;
  std::map<Widths, Answer<Pinned>> pinned_ VICINAL_GUARDED_BY(mutex_);
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_DENSE_CUBLAS_DETAIL_CUBLAS_PRODUCTS_H_
