// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/kill_loop/history.h"

#include <algorithm>
#include <cstddef>

namespace vicinal::testing {
namespace {

std::string Name(const Contents& contents) { return contents ? std::to_string(*contents) : "nothing"; }

}  // namespace

void History::Durable() { Holds(Last()); }

void History::Holds(Contents contents) {
  durable_ = contents;
  open_.clear();
  serving_ = 0;
}

void History::Stopped() {
  if (serving_ == 0) return;
  durable_ = open_[serving_ - 1];
  open_.erase(open_.begin(), open_.begin() + static_cast<std::ptrdiff_t>(serving_));
  serving_ = 0;
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
