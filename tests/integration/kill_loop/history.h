// SPDX-License-Identifier: Apache-2.0
// What a server may hold under one name after it was killed, given what was asked of it and what it acknowledged. An
// oracle for durability: it knows names, seeds of contents and acknowledgements, and nothing of files.
#ifndef VICINAL_TESTS_INTEGRATION_KILL_LOOP_HISTORY_H_
#define VICINAL_TESTS_INTEGRATION_KILL_LOOP_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace vicinal::testing {

// What a name holds: contents are made from a seed; nullopt: the name does not exist.
using Contents = std::optional<int64_t>;

class History {
 public:
  // An upload of these contents, or a deletion (nullopt), is about to be asked for.
  void Asked(Contents contents) { open_.push_back(contents); }
  // The server refused the last one: it has no effect.
  void Refused() { open_.pop_back(); }
  // The last one serves: an orderly stop writes it.
  void Serves() { serving_ = open_.size(); }
  // The last one is durable, or a restarted server holds it: nothing older may come back.
  void Durable();
  void Holds(Contents contents);
  // In an orderly way: what served is durable.
  void Stopped();

  // What may be there now: what was durable last, or anything that was asked for since.
  bool MayHold(const Contents& contents) const;
  Contents Last() const { return open_.empty() ? durable_ : open_.back(); }
  std::string Describe() const;

 private:
  Contents durable_;
  std::vector<Contents> open_;  // asked for since, oldest first
  size_t serving_ = 0;          // so many of them, and the last of these served
};

// Version numbers stand for one content each, for ever.
class VersionNumbers {
 public:
  // False if `version` was seen with another seed.
  bool Note(int64_t version, int64_t seed) { return seeds_.emplace(version, seed).first->second == seed; }

 private:
  std::map<int64_t, int64_t> seeds_;
};

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_INTEGRATION_KILL_LOOP_HISTORY_H_
