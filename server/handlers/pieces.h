// SPDX-License-Identifier: Apache-2.0
// A result that is sent in pieces. Each piece is made after the previous one was sent, so that memory holds one encoded
// piece.
#ifndef VICINAL_SERVER_HANDLERS_PIECES_H_
#define VICINAL_SERVER_HANDLERS_PIECES_H_

#include "engine/base/status.h"

namespace vicinal::server {

// One stream's; calls come one at a time.
template <class Response>
class Pieces {
 public:
  virtual ~Pieces() = default;
  // Makes the next piece in `response` (whatever it held). True when it was the last. There is at least one. After an
  // error (CANCELLED, DEADLINE_EXCEEDED) there is none.
  virtual StatusOr<bool> Next(Response* response) = 0;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_HANDLERS_PIECES_H_
