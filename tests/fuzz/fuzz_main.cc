// SPDX-License-Identifier: Apache-2.0
// The libFuzzer program: vicinal_fuzz --target=NAME [libFuzzer's own arguments]; --list prints the names. To reproduce
// a finding: vicinal_fuzz --target=NAME FILE.
#include <google/protobuf/stubs/logging.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "tests/fuzz/mutate.h"
#include "tests/fuzz/target.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {
const vicinal::fuzz::Target* chosen = nullptr;
}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  google::protobuf::SetLogHandler(nullptr);
  constexpr std::string_view kTarget = "--target=";
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = (*argv)[i];
    if (argument == "--list") {
      for (const auto& target : vicinal::fuzz::Targets()) {
        std::printf("%s %s\n", target.name.c_str(), target.corpus.c_str());
      }
      std::exit(0);
    }
    if (argument.substr(0, kTarget.size()) == kTarget) {
      chosen = vicinal::fuzz::FindTarget(argument.substr(kTarget.size()));
    }
  }
  if (chosen == nullptr) {
    std::fprintf(stderr, "vicinal_fuzz: needs --target=NAME; --list prints the names\n");
    std::exit(2);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  chosen->run(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  if (chosen->methods.empty()) return LLVMFuzzerMutate(data, size, max_size);
  const std::string before(reinterpret_cast<const char*>(data), size);
  const std::string text = vicinal::fuzz::MutateCalls(before, chosen->methods, seed);
  if (text.size() > max_size) return size;
  std::memcpy(data, text.data(), text.size());
  return text.size();
}
