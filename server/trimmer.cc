// SPDX-License-Identifier: Apache-2.0
#include "server/trimmer.h"

#include <malloc.h>
#include <unistd.h>

#include <fstream>

namespace vicinal::server {
namespace {

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, resident = 0;
  return file >> total >> resident ? resident * sysconf(_SC_PAGESIZE) : 0;
}

}  // namespace

Trimmer::Machine Trimmer::RealMachine() {
  return {ResidentBytes, [] { return static_cast<int64_t>(mallinfo2().fordblks); }, [] { malloc_trim(0); }};
}

void Trimmer::Look() {
  const int64_t resident = machine_.resident_bytes(), free = machine_.free_bytes();
  if (least_ < 0 || resident < least_) least_ = resident;
  if (least_free_ < 0 || free < least_free_) least_free_ = free;
  const bool grown = resident - least_ >= kWorthwhileBytes && free >= kWorthwhileBytes;
  const bool freed = free - least_free_ >= kWorthwhileBytes;
  if (!grown && !freed) return;
  machine_.trim();
  least_ = machine_.resident_bytes();
  least_free_ = machine_.free_bytes();
}

}  // namespace vicinal::server
