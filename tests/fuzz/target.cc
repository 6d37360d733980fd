// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/target.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "client/cpp/formats/text.h"
#include "engine/base/error.h"
#include "tests/support/temporary_directory.h"

namespace vicinal::fuzz {

const std::vector<Target>& Targets() {
  static const std::vector<Target> all = [] {
    std::vector<Target> made = FormatTargets();
    for (auto part : {EngineTargets(), RequestTargets(), StateTargets()}) {
      made.insert(made.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
    }
    return made;
  }();
  return all;
}

const Target* FindTarget(std::string_view name) {
  for (const Target& target : Targets()) {
    if (target.name == name) return &target;
  }
  return nullptr;
}

void Fail(const char* file, int line, const std::string& what) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
  std::abort();
}

void CheckError(const Status& status) {
  const std::string text = status.ToString();
  switch (status.code()) {
    case StatusCode::kInternal:
    case StatusCode::kUnknown:
    case StatusCode::kDataLoss:
    case StatusCode::kUnimplemented:
      Fail(__FILE__, __LINE__, "a code that no input may cause: " + text);
    default:
      break;
  }
  const auto detail = DetailOf(status);
  FUZZ_CHECK(detail && !detail->reason.empty(), text);
  for (const char c : detail->reason) FUZZ_CHECK((c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_', text);
  FUZZ_CHECK(!status.message().empty(), detail->reason);
  FUZZ_CHECK(client::IsUtf8(std::string(status.message())), text);
  FUZZ_CHECK(client::IsUtf8(detail->field) && client::IsUtf8(detail->resource_name), text);
  for (const auto& [key, value] : detail->metadata) FUZZ_CHECK(client::IsUtf8(value), key);
}

const std::string& InFile(std::string_view bytes) {
  static const TemporaryDirectory folder;
  static const std::string path = folder / "input";
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(bytes.data(), bytes.size());
  return path;
}

}  // namespace vicinal::fuzz
