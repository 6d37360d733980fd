// SPDX-License-Identifier: Apache-2.0
#include "engine/tune/first_runs.h"

#include "absl/strings/str_cat.h"

namespace vicinal {

std::string ConfigurationName(std::string_view operation, std::string_view kernel,
                              const std::vector<NamedParameter>& parameters) {
  std::string name = absl::StrCat(std::string(operation), " ", std::string(kernel));
  for (const NamedParameter& parameter : parameters) absl::StrAppend(&name, " ", parameter.name, "=", parameter.value);
  return name;
}

std::string ConfigurationName(const TuningKey& key, const TuningCandidate& candidate) {
  return ConfigurationName(key.operation, candidate.setting.kernel, candidate.parameters);
}

}  // namespace vicinal
