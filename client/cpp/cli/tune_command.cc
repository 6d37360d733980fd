// SPDX-License-Identifier: Apache-2.0
// `vicinal graph tune`: measure a graph's kernels, force one, forget what was measured, or just look.
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/describe_tuning.h"
#include "client/cpp/cli/output.h"
#include "client/cpp/errors.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/status_macros.h"
#include "client/cpp/formats/text.h"
#include "client/cpp/printable.h"

namespace vicinal::client::cli {
namespace {

std::vector<std::string> List(const Arguments& args, std::string_view option) {
  if (!args.Has(option)) return {};
  return absl::StrSplit(args.Text(option), ',', absl::SkipEmpty());
}

absl::StatusOr<std::vector<int64_t>> Integers(const Arguments& args, const std::string& option) {
  std::vector<int64_t> values;
  for (const std::string& word : List(args, option)) {
    if (!ParseInt(word, &values.emplace_back())) {
      return absl::InvalidArgumentError(absl::StrCat("--", option, " must be a list of integers, not '", word, "'"));
    }
  }
  return values;
}

// Of any length: what is too large gets a message of its own.
bool IsWholeNumber(const std::string& word) {
  const size_t digits = word.starts_with('-') ? 1 : 0;
  return word.size() > digits && word.find_first_not_of("0123456789", digits) == std::string::npos;
}

// "KERNEL" or "KERNEL:parameter=value,parameter=value".
absl::Status ParseForce(const std::string& text, v1::ForcedKernel* force) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  force->set_kernel(parts.first);
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(parts.second, ',', absl::SkipEmpty()))) {
    const std::pair<std::string, std::string> parameter = absl::StrSplit(word, absl::MaxSplits('=', 1));
    int64_t value = 0;
    if (parameter.first.empty() || !IsWholeNumber(parameter.second)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--force must be KERNEL or KERNEL:PARAMETER=VALUE,..., not '", text, "'"));
    }
    if (!ParseInt(parameter.second, &value) || value != static_cast<int32_t>(value)) {
      return absl::InvalidArgumentError(absl::StrCat("--force gives '", parameter.first, "' the value ",
                                                     parameter.second, "; it must be a 32-bit number"));
    }
    if (force->parameters().count(parameter.first) != 0) {
      return absl::InvalidArgumentError(absl::StrCat("--force names the parameter '", parameter.first, "' twice"));
    }
    (*force->mutable_parameters())[parameter.first] = static_cast<int32_t>(value);
  }
  if (parts.first.empty()) return absl::InvalidArgumentError("--force needs the name of a kernel");
  return absl::OkStatus();
}

absl::StatusOr<v1::TuneGraphRequest> MakeTuneRequest(const Arguments& args) {
  v1::TuneGraphRequest request;
  request.set_name(args.Positional(0));
  request.set_operation(args.Text("operation"));
  for (const std::string& kind : List(args, "kinds")) request.add_kinds(kind);
  CLIENT_ASSIGN_OR_RETURN(const std::vector<int64_t> widths, Integers(args, "widths"));
  CLIENT_ASSIGN_OR_RETURN(const std::vector<int64_t> heads, Integers(args, "heads"));
  request.mutable_widths()->Add(widths.begin(), widths.end());
  request.mutable_heads()->Add(heads.begin(), heads.end());
  CLIENT_ASSIGN_OR_RETURN(const std::vector<int64_t> outputs, Integers(args, "outputs"));
  request.mutable_outputs()->Add(outputs.begin(), outputs.end());
  for (const std::string& weights : List(args, "weights")) request.add_weights(weights);
  for (const std::string& program : List(args, "programs")) request.add_programs(program);
  if (args.Has("budget")) {
    const double seconds = args.Number("budget", 0);
    if (!(seconds > 0 && seconds <= 600)) {
      return absl::InvalidArgumentError("--budget must be above 0 and at most 600 seconds");
    }
    const double whole = std::floor(seconds);
    request.mutable_budget()->set_seconds(static_cast<int64_t>(whole));
    request.mutable_budget()->set_nanos(static_cast<int32_t>(std::lround((seconds - whole) * 1e9) % 1'000'000'000));
  }
  if (args.Has("strategy")) {
    request.set_strategy(args.Text("strategy") == "estimated" ? v1::TUNING_STRATEGY_ESTIMATED
                                                              : v1::TUNING_STRATEGY_MEASURED);
  }
  request.set_reset(args.Has("reset"));
  if (args.Has("force")) CLIENT_RETURN_IF_ERROR(ParseForce(args.Text("force"), request.mutable_force()));
  request.set_no_wait(args.Has("no_wait"));
  if (args.Has("import")) {
    CLIENT_ASSIGN_OR_RETURN(std::string text, ReadFile(args.Text("import")));
    request.set_import_text(std::move(text));
  }
  return request;
}

template <class Response>
void Print(const Context& context, const Response& response) {
  if (context.json) return context.PrintJson(ToJson(response));
  context.out << "graph '" << response.name() << "' version " << response.version() << "\n\n";
  const bool verbose = context.args.Has("verbose");
  PrintTuning({response.records().begin(), response.records().end()}, verbose, context.out);
  if (!verbose && response.records_size() > 0)
    context.out << "--verbose shows what was tried and what is not supported\n";
  PrintLeftOut(response.records_left_out(), "kinds of work, older than these", context.out);
}

// Without --widths a kernel is forced for all work that is known; one kind of it may be none of the kernel's.
absl::Status WhichWork(const Arguments& args, const absl::Status& status) {
  const bool refused = DetailsOf(status).reason == "KERNEL_REFUSED";
  if (!refused || !args.Has("force") || (args.Has("operation") && args.Has("widths"))) return status;
  return AddToMessage(status, "; limit --force with --operation OP, --kinds K,... or --widths W,...");
}

// What selects work.
constexpr const char* kWorkOptions[] = {"operation", "kinds", "widths", "heads", "outputs", "weights", "programs"};

std::string OfAllDecisions(std::string_view option, std::string_view other) {
  return absl::StrCat("--", std::string(option), " is about all decisions of the graph: remove --", std::string(other));
}

// Options that exclude others.
absl::Status CheckAlone(const Arguments& args) {
  for (const char* alone : {"show", "export", "import"}) {
    if (!args.Has(alone)) continue;
    for (const char* other : {"budget", "strategy", "reset", "force", "no_wait", "show", "export", "import"}) {
      if (other == std::string_view(alone) || !args.Has(other)) continue;
      return absl::InvalidArgumentError(std::string_view(alone) == "show"
                                            ? absl::StrCat("--show changes nothing: remove --", other)
                                            : OfAllDecisions(alone, other));
    }
    for (const char* limit : kWorkOptions) {
      if (std::string_view(alone) == "show" || !args.Has(limit)) continue;  // it shows those records
      return absl::InvalidArgumentError(OfAllDecisions(alone, limit));
    }
  }
  return absl::OkStatus();
}

// Whether `value` is one of those listed; an empty list stands for all.
template <class List, class T>
bool Fits(const List& listed, const T& value) {
  return listed.empty() || std::find(listed.begin(), listed.end(), value) != listed.end();
}

// Leaves the records of the work that `wanted` selects.
void Select(const v1::TuneGraphRequest& wanted, v1::GetTuningResponse* response) {
  auto* const records = response->mutable_records();
  const auto unwanted = [&wanted](const v1::TuningRecord& record) {
    const v1::TuningKey& key = record.key();
    return !((wanted.operation().empty() || wanted.operation() == key.operation()) &&
             Fits(wanted.kinds(), key.kind()) && Fits(wanted.widths(), key.width()) &&
             Fits(wanted.heads(), key.heads()) && Fits(wanted.outputs(), key.outputs()) &&
             Fits(wanted.weights(), key.weights()) && Fits(wanted.programs(), key.program()));
  };
  records->erase(std::remove_if(records->begin(), records->end(), unwanted), records->end());
}

absl::Status Show(const Context& context) {
  CLIENT_ASSIGN_OR_RETURN(const v1::TuneGraphRequest wanted, MakeTuneRequest(context.args));
  CLIENT_ASSIGN_OR_RETURN(v1::GetTuningResponse response, context.client.GetTuning(context.args.Positional(0)));
  const int known = response.records_size();
  Select(wanted, &response);
  if (response.records_size() > 0 || known == 0 || context.json) {
    Print(context, response);
  } else {
    context.out << "graph '" << response.name() << "' version " << response.version() << "\n\nno such work among the "
                << FormatCount(known, "kind") << " that it knows; --show alone lists all\n";
    PrintLeftOut(response.records_left_out(), "kinds of work, older than these", context.out);
  }
  return absl::OkStatus();
}

absl::Status Export(const Context& context) {
  const std::string& name = context.args.Positional(0);
  const std::string path = context.args.Text("export");
  CLIENT_ASSIGN_OR_RETURN(const std::string sent, context.client.ExportTuning(name));
  // The same document, fit for a terminal.
  const std::string text = PrintableJson(sent);
  if (path == "-") {
    context.out << text;
    return absl::OkStatus();
  }
  CLIENT_RETURN_IF_ERROR(WriteFile(path, text));
  if (!context.json) context.out << "wrote the tuning decisions of graph '" << name << "' to " << path << "\n";
  return absl::OkStatus();
}

absl::Status Tune(const Context& context) {
  const Arguments& args = context.args;
  CLIENT_RETURN_IF_ERROR(CheckAlone(args));
  if (args.Has("export")) return Export(context);
  if (args.Has("show")) return Show(context);
  if (args.Has("reset") && args.Has("force")) {
    return absl::InvalidArgumentError("--reset and --force exclude each other");
  }
  CLIENT_ASSIGN_OR_RETURN(const v1::TuneGraphRequest request, MakeTuneRequest(args));
  const absl::StatusOr<v1::TuneGraphResponse> response = context.client.TuneGraph(request);
  if (!response.ok()) return WhichWork(args, response.status());
  Print(context, *response);
  return absl::OkStatus();
}

}  // namespace

Command TuneCommand() {
  return {
      {"graph tune",
       {"NAME"},
       "Measures the kernels of a graph again, forces one, or discards the measurements.",
       "Without --widths: the kinds of work that models have used on the graph so far, limited by --operation, "
       "--kinds,\n"
       "--heads, --outputs, --weights and --programs. On a CPU results keep every bit; on a GPU the last bits may "
       "change, and then "
       "the "
       "numerics\n"
       "revision changes, too. Needs the admin token, if the server has one; --show and --export do not.",
       {{"show", OptionKind::kFlag, "",
         "change nothing; print what is known so far, of the work that --operation, --kinds, --widths and the like "
         "select"},
        {"verbose", OptionKind::kFlag, "",
         "for each kind of work, also what was tried, predicted and measured, and what is not supported"},
        {"operation",
         OptionKind::kText,
         "OP",
         "aggregate, attention, dense_update (products with weights) or expression (message functions)",
         {"aggregate", "attention", "dense_update", "expression"}},
        {"kinds", OptionKind::kText, "KINDS",
         "sum,mean,max,min; attention: gat,gatv2,dot; products: float32,tf32,bfloat16,float16; expressions: also "
         "var,std,softmax,several"},
        {"widths", OptionKind::kText, "WIDTHS", "floats per row: 16,32,64; attention: per head; products: inputs"},
        {"heads", OptionKind::kText, "HEADS", "attention: numbers of heads; default: 1"},
        {"outputs", OptionKind::kText, "OUTPUTS", "products: numbers of outputs"},
        {"weights", OptionKind::kText, "WEIGHTS", "none,per_edge,per_source; default: as models use them"},
        {"programs", OptionKind::kText, "PROGRAMS", "expressions: names of programs, as --show prints them"},
        {"budget", OptionKind::kNumber, "SECONDS", "time per kind of work; default: the server's"},
        {"strategy",
         OptionKind::kText,
         "STRATEGY",
         "measured: all promising kernels are; estimated: models rank many settings, and the best few are measured; "
         "default: the server's",
         {"measured", "estimated"}},
        {"force", OptionKind::kText, "KERNEL[:P=V,...]",
         "use this kernel, with these parameters, for the selected work (of --operation, or of all operations that "
         "have the kernel); measure nothing"},
        {"reset", OptionKind::kFlag, "", "discard the measurements; the default kernels serve"},
        {"export", OptionKind::kText, "FILE",
         "change nothing; write the decisions as text (-: to the output), for --import"},
        {"import", OptionKind::kText, "FILE",
         "use the decisions of an export from the same kind of device; measure nothing"},
        {"no_wait", OptionKind::kFlag, "", "do not wait for the end; --show returns the progress"}}},
      Tune};
}

}  // namespace vicinal::client::cli
