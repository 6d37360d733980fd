// SPDX-License-Identifier: Apache-2.0
// Settings of the process, applied before it serves.
#ifndef VICINAL_SERVER_PROCESS_H_
#define VICINAL_SERVER_PROCESS_H_

#include <cstdint>

namespace vicinal::server {

// Raises the limit of open files to the hard limit and returns it; 0: unknown. Each connection takes a file descriptor,
// and gRPC 1.51 never accepts a connection again after one accept has failed for lack of descriptors: the usual 1,024
// are too few.
int64_t AllowManyFiles();

// Maps blocks of 1 MiB and more individually, so that freeing them returns memory to the system. By default glibc
// raises this threshold when such blocks are freed, and replaced graphs then fragment the heap: a server with a budget
// of 256 MiB held 900 MiB. No effect with other C libraries. Call before there are threads.
void GiveLargeBlocksBack();

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_PROCESS_H_
