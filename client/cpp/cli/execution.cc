// SPDX-License-Identifier: Apache-2.0
// Which operations and kernels there are is the server's to know: `vicinal status` lists them.
#include "client/cpp/cli/execution.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace vicinal::client::cli {

std::vector<Option> ExecutionOptionsOf(bool receptive_field) {
  std::vector<Option> options = {
      {"kernel", OptionKind::kText, "OP=NAME[:P=V,...]", "force the kernel of an operation", {}, false, true},
      {"precision",
       OptionKind::kText,
       "TYPE",
       "storage of rows that are gathered along edges: float32 (default), bfloat16 or float16",
       {"float32", "bfloat16", "float16"}},
      {"product_precision",
       OptionKind::kText,
       "TYPE",
       "precision to which factors of products may be rounded: float32 (default), tf32, bfloat16 or float16",
       {"float32", "tf32", "bfloat16", "float16"}}};
  options.push_back(
      {"priority",
       OptionKind::kText,
       "PRIORITY",
       "interactive, or batch, which takes what interactive requests leave (default: what the caller may)",
       {"interactive", "batch"}});
  if (receptive_field) {
    options.push_back({"receptive_field",
                       OptionKind::kText,
                       "WHEN",
                       "compute only what the nodes depend on: auto (default), never or always",
                       {"auto", "never", "always"}});
  }
  return options;
}

absl::Status AddExecution(const Arguments& args, v1::ExecutionOptions* execution) {
  // The words are the names of the values, without their prefix; without a word a value stays unspecified.
  const auto named = [&](const char* prefix, const char* option) {
    return absl::StrCat(prefix, absl::AsciiStrToUpper(args.Text(option)));
  };
  v1::Precision precision = v1::PRECISION_UNSPECIFIED;
  v1::Precision_Parse(named("PRECISION_", "precision"), &precision);
  execution->set_precision(precision);
  v1::ProductPrecision products = v1::PRODUCT_PRECISION_UNSPECIFIED;
  v1::ProductPrecision_Parse(named("PRODUCT_PRECISION_", "product_precision"), &products);
  execution->set_product_precision(products);
  v1::ReceptiveField field = v1::RECEPTIVE_FIELD_UNSPECIFIED;
  v1::ReceptiveField_Parse(named("RECEPTIVE_FIELD_", "receptive_field"), &field);
  execution->set_receptive_field(field);
  v1::Priority priority = v1::PRIORITY_UNSPECIFIED;
  v1::Priority_Parse(named("PRIORITY_", "priority"), &priority);
  execution->set_priority(priority);
  for (const std::string& word : args.All("kernel")) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == word.size()) {
      return absl::InvalidArgumentError(absl::StrCat("--kernel must be OPERATION=KERNEL, not '", word, "'"));
    }
    const std::string operation = word.substr(0, equals);
    if (execution->kernels().count(operation) != 0) {
      return absl::InvalidArgumentError(absl::StrCat("--kernel names the operation '", operation, "' twice"));
    }
    (*execution->mutable_kernels())[operation] = word.substr(equals + 1);
  }
  return absl::OkStatus();
}

bool AllowsFloat16(const Arguments& args) {
  return args.Text("precision") == "float16" || args.Text("product_precision") == "float16";
}

}  // namespace vicinal::client::cli
