// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/kill_loop/history.h"

#include <algorithm>

namespace vicinal::testing {
namespace {

std::string Name(const Contents& contents) { return contents ? std::to_string(*contents) : "nothing"; }

}  // namespace

void History::Durable() {
  durable_ = Last();
  open_.clear();
}

void History::Holds(Contents contents) {
  durable_ = contents;
  open_.clear();
}

bool History::MayHold(const Contents& contents) const {
  return contents == durable_ || std::find(open_.begin(), open_.end(), contents) != open_.end();
}

std::string History::Describe() const {
  std::string text = "durable: " + Name(durable_) + "; asked for since:";
  for (const Contents& contents : open_) text += " " + Name(contents);
  return text;
}

}  // namespace vicinal::testing
