// SPDX-License-Identifier: Apache-2.0
// Messages in double precision, for the oracles of kernels that are made of them.
#ifndef VICINAL_TESTS_CONFORMANCE_MESSAGES_H_
#define VICINAL_TESTS_CONFORMANCE_MESSAGES_H_

#include <string>

#include "engine/kernels/operations.h"

namespace vicinal::conformance {

inline constexpr Message kMessages[] = {Message::kSource, Message::kAdd, Message::kSubtract, Message::kMultiply};

inline std::string NameOf(Message message) {
  switch (message) {
    case Message::kSource:
      return "u";
    case Message::kAdd:
      return "u + v";
    case Message::kSubtract:
      return "u - v";
    case Message::kMultiply:
      return "u * v";
  }
  return "";
}

inline double MessageOf(Message message, double u, double v) {
  switch (message) {
    case Message::kSource:
      return u;
    case Message::kAdd:
      return u + v;
    case Message::kSubtract:
      return u - v;
    case Message::kMultiply:
      return u * v;
  }
  return u;
}

}  // namespace vicinal::conformance

#endif  // VICINAL_TESTS_CONFORMANCE_MESSAGES_H_
