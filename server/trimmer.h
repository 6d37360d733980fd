// SPDX-License-Identifier: Apache-2.0
// Gives memory back to the system that the allocator keeps after a burst, such as an attack, and bit by bit where
// graphs come and go for hours: small blocks, which malloc returns only from the end of its heaps.
#ifndef VICINAL_SERVER_TRIMMER_H_
#define VICINAL_SERVER_TRIMMER_H_

#include <cstdint>
#include <functional>
#include <utility>

namespace vicinal::server {

// Not thread-safe.
class Trimmer {
 public:
  // Less than this is not worth the time, a millisecond or two for as much, in which allocations wait.
  static constexpr int64_t kWorthwhileBytes = int64_t{16} << 20;

  struct Machine {
    std::function<int64_t()> resident_bytes;  // of this process; 0: unknown
    std::function<int64_t()> free_bytes;      // that the allocator holds, returned to the system or not
    std::function<void()> trim;
  };
  static Machine RealMachine();

  explicit Trimmer(Machine machine) : machine_(std::move(machine)) {}

  // To be called now and then. Trims if, since the last trim or since there was least of it, the process has grown by
  // kWorthwhileBytes and the allocator has as much that is free, or so much has become free: after a trim at the height
  // of a burst the process does not grow any more.
  void Look();

 private:
  const Machine machine_;
  int64_t least_ = -1;       // resident bytes after the last trim, or less
  int64_t least_free_ = -1;  // free bytes likewise
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_TRIMMER_H_
