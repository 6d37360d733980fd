// SPDX-License-Identifier: Apache-2.0
#include "engine/base/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace vicinal {
namespace {

constexpr size_t kMostLetters = 64;

// ASCII alone, whatever the locale.
char Small(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Optimal string alignment: the rows of the usual table, of which three are kept.
size_t Edits(std::string_view a, std::string_view b) {
  const auto equal = [&](size_t i, size_t j) { return Small(a[i]) == Small(b[j]); };
  std::vector<size_t> before, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (equal(i - 1, j - 1) ? 0 : 1)});
      const bool exchanged = i > 1 && j > 1 && equal(i - 1, j - 2) && equal(i - 2, j - 1);
      if (exchanged) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::exchange(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string NearestName(std::string_view word, const std::vector<std::string>& known) {
  if (word.empty() || word.size() > kMostLetters) return "";
  const size_t most = std::min<size_t>(word.size() <= 4 ? 1 : 2, word.size() - 1);
  size_t fewest = most + 1;
  std::string nearest;
  for (const std::string& name : known) {
    const size_t longer = std::max(name.size(), word.size()), shorter = std::min(name.size(), word.size());
    if (longer - shorter >= fewest) continue;
    const size_t edits = Edits(word, name);
    if (edits >= fewest) continue;
    fewest = edits;
    nearest = name;
  }
  return nearest;
}

}  // namespace vicinal
