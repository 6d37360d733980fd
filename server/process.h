// SPDX-License-Identifier: Apache-2.0
// What the process asks of the system before it serves.
#ifndef VICINAL_SERVER_PROCESS_H_
#define VICINAL_SERVER_PROCESS_H_

#include <cstdint>

namespace vicinal::server {

// Allows as many open files as the process may allow itself, and returns that number; 0: it is not known. A connection
// is a file, and gRPC (1.51) takes no connection any more, ever, once accepting one has failed for want of files: the
// usual 1,024 are too few.
int64_t AllowManyFiles();

// Has blocks of a mebibyte and more mapped one by one, so that they go back to the system when they are freed. By
// default glibc learns from a freed block to keep such ones, and graphs that come and go leave holes among what stays:
// a budget of 256 MiB was seen to hold 900 MiB. No effect with other C libraries. Call before there are threads.
void GiveLargeBlocksBack();

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_PROCESS_H_
