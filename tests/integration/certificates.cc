// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/certificates.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace vicinal::testing {
namespace {

// Small keys, made fast.
constexpr char kNewKey[] = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";

void Run(const std::string& command) {
  const std::string output = OutputOf(absl::StrCat("(", command, ") || echo FAILED"));
  EXPECT_EQ(output.find("FAILED"), std::string::npos) << command << "\n" << output;
}

}  // namespace

std::string OutputOf(const std::string& command) {
  std::string output;
  std::FILE* const pipe = popen(absl::StrCat("(", command, ") 2>&1 </dev/null").c_str(), "r");
  if (pipe == nullptr) return "no pipe";
  char buffer[4096];
  for (size_t n = 0; (n = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;) output.append(buffer, n);
  pclose(pipe);
  return output;
}

TestAuthority::TestAuthority(const std::string& folder) : folder_(folder) {
  std::filesystem::create_directories(folder);
  Run(absl::StrCat("openssl req -x509 ", kNewKey, " -keyout ", folder_, "/ca.key -out ", certificate(),
                   " -days 2 -subj /CN=test-authority"));
}

CertificateFilesOf TestAuthority::Sign(const std::string& name, const std::string& alternative_names, int days) const {
  const std::string base = absl::StrCat(folder_, "/", name);
  Run(absl::StrCat("openssl req ", kNewKey, " -keyout ", base, ".key -out ", base, ".csr -subj /CN=", name));
  std::ofstream(base + ".ext") << "subjectAltName=" << alternative_names << "\n";
  Run(absl::StrCat("openssl x509 -req -in ", base, ".csr -CA ", certificate(), " -CAkey ", folder_,
                   "/ca.key -CAcreateserial -days ", days, " -extfile ", base, ".ext -out ", base, ".pem"));
  return {base + ".pem", base + ".key"};
}

}  // namespace vicinal::testing
