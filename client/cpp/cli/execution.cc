// SPDX-License-Identifier: Apache-2.0
// Which operations and kernels there are is the server's to know: `vicinal status` lists them.
#include "client/cpp/cli/execution.h"

#include "absl/strings/str_cat.h"

namespace vicinal::client::cli {

std::vector<Option> ExecutionOptionsOf(bool receptive_field) {
  std::vector<Option> options = {
      {"kernel", OptionKind::kText, "OP=NAME", "force the kernel of an operation", {}, false, true},
      {"precision",
       OptionKind::kText,
       "TYPE",
       "storage of the rows gathered along edges: float32 (unless said), bfloat16 or float16",
       {"float32", "bfloat16", "float16"}},
      {"product_precision",
       OptionKind::kText,
       "TYPE",
       "what factors of products may be rounded to: float32 (unless said), tf32, bfloat16 or float16",
       {"float32", "tf32", "bfloat16", "float16"}}};
  if (receptive_field) {
    options.push_back({"receptive_field",
                       OptionKind::kText,
                       "WHEN",
                       "compute only what the nodes depend on: auto (unless said), never or always",
                       {"auto", "never", "always"}});
  }
  return options;
}

namespace {

v1::ProductPrecision ProductPrecisionOf(const std::string& word) {
  return word == "tf32"       ? v1::PRODUCT_PRECISION_TF32
         : word == "bfloat16" ? v1::PRODUCT_PRECISION_BFLOAT16
         : word == "float16"  ? v1::PRODUCT_PRECISION_FLOAT16
         : word == "float32"  ? v1::PRODUCT_PRECISION_FLOAT32
                              : v1::PRODUCT_PRECISION_UNSPECIFIED;
}

}  // namespace

absl::Status AddExecution(const Arguments& args, v1::ExecutionOptions* execution) {
  const std::string precision = args.Text("precision"), field = args.Text("receptive_field");
  execution->set_precision(precision == "bfloat16"  ? v1::PRECISION_BFLOAT16
                           : precision == "float16" ? v1::PRECISION_FLOAT16
                           : precision == "float32" ? v1::PRECISION_FLOAT32
                                                    : v1::PRECISION_UNSPECIFIED);
  execution->set_product_precision(ProductPrecisionOf(args.Text("product_precision")));
  execution->set_receptive_field(field == "always"  ? v1::RECEPTIVE_FIELD_ALWAYS
                                 : field == "never" ? v1::RECEPTIVE_FIELD_NEVER
                                 : field == "auto"  ? v1::RECEPTIVE_FIELD_AUTO
                                                    : v1::RECEPTIVE_FIELD_UNSPECIFIED);
  for (const std::string& word : args.All("kernel")) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == word.size()) {
      return absl::InvalidArgumentError(absl::StrCat("--kernel needs OPERATION=KERNEL, not '", word, "'"));
    }
    const std::string operation = word.substr(0, equals);
    if (execution->kernels().count(operation) != 0) {
      return absl::InvalidArgumentError(absl::StrCat("--kernel names the operation '", operation, "' twice"));
    }
    (*execution->mutable_kernels())[operation] = word.substr(equals + 1);
  }
  return absl::OkStatus();
}

}  // namespace vicinal::client::cli
