// SPDX-License-Identifier: Apache-2.0
// A step without calls is shown with zeros: a load that starts nothing must not look like one that was not asked for.
#include "client/cpp/cli/load_report.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/cli/output.h"

namespace vicinal::client::cli {
namespace {

using load::Histogram;
using load::LoadOptions;
using load::LoadResult;
using load::Ramp;
using load::Record;
using load::Tally;

// What a server takes at a time by default (--max_concurrent_streams), and of one stream of requests.
constexpr int64_t kConnectionCalls = 256, kStreamWindow = 64;

constexpr double kQuantiles[] = {0.5, 0.9, 0.99, 0.999};
constexpr const char* kQuantileNames[] = {"p50", "p90", "p99", "p99.9"};

std::string Time(int64_t nanoseconds) { return FormatSeconds(static_cast<double>(nanoseconds) * 1e-9); }

double Rate(int64_t calls, double seconds) { return seconds > 0 ? static_cast<double>(calls) / seconds : 0; }

std::string ToString(const Ramp& ramp) {
  return ramp.from == ramp.to ? FormatNumber(ramp.from)
                              : absl::StrCat(FormatNumber(ramp.from), "..", FormatNumber(ramp.to));
}

// Steps of the record, with empty ones for steps in which no call started.
std::vector<Record::Step> AllSteps(const LoadOptions& options, const LoadResult& result) {
  std::vector<Record::Step> steps = result.record.steps();
  steps.resize(options.schedule.steps.size());
  return steps;
}

void AddQuantiles(const Histogram& histogram, std::vector<std::string>* row) {
  for (const double q : kQuantiles) row->push_back(histogram.count() == 0 ? "-" : Time(histogram.Quantile(q)));
  row->push_back(histogram.count() == 0 ? "-" : Time(histogram.max()));
}

void PrintSteps(const LoadOptions& options, const LoadResult& result, const std::vector<Record::Step>& steps,
                std::ostream& out) {
  Table table({options.open_loop ? "calls/s" : "in flight", "seconds", "ok", "ok/s", "failed", "p50", "p90", "p99",
               "p99.9", "max"});
  for (size_t i = 0; i < steps.size(); ++i) {
    const Tally total = steps[i].Total();
    const double seconds = result.step_seconds[i];
    std::vector<std::string> row{ToString(options.schedule.steps[i]), FormatFixed(seconds, 2),
                                 absl::StrCat(total.latency.count()), FormatFixed(Rate(steps[i].ended, seconds), 1),
                                 absl::StrCat(total.failed.count())};
    AddQuantiles(total.latency, &row);
    table.Add(std::move(row));
  }
  table.Print(out);
}

void PrintMethods(const Record::Step& all, std::ostream& out) {
  Table table({"method", "time", "calls", "p50", "p90", "p99", "p99.9", "max"});
  const auto add = [&](const char* method, const char* what, const Histogram& histogram) {
    if (histogram.count() == 0) return;
    std::vector<std::string> row{method, what, absl::StrCat(histogram.count())};
    AddQuantiles(histogram, &row);
    table.Add(std::move(row));
  };
  for (const auto& [method, tally] : all.methods) {
    const char* const name = load::TraitsOf(method).name;
    add(name, "intended start to end", tally.latency);
    add(name, "sent to end", tally.service);
    add(name, "on the server", tally.server);
    add(name, "failed calls", tally.failed);
  }
  table.Print(out);
}

// Rows of 1, 2, 5, 10, ... nanoseconds, from the fastest call to the slowest.
void PrintHistogram(const Histogram& histogram, std::ostream& out) {
  constexpr int kWidth = 50;
  constexpr int64_t kSteps[] = {1, 2, 5};
  std::vector<std::pair<int64_t, int64_t>> rows;  // upper bound, calls
  int64_t before = 0, most = 1;
  for (int64_t decade = 1; before < histogram.count(); decade *= 10) {
    for (const int64_t step : kSteps) {
      const int64_t up_to = histogram.CountUpTo(decade * step);
      if (up_to == before && rows.empty()) continue;
      if (before == histogram.count()) break;
      rows.emplace_back(decade * step, up_to - before);
      most = std::max(most, up_to - before);
      before = up_to;
    }
  }
  int64_t seen = 0;
  for (const auto& [bound, count] : rows) {
    seen += count;
    const std::string label = absl::StrCat("<= ", Time(bound));
    const std::string share = FormatShare(static_cast<double>(seen) / static_cast<double>(histogram.count()));
    const auto bar = static_cast<size_t>((count * kWidth + most - 1) / most);
    out << std::string(12 - std::min<size_t>(12, label.size()), ' ') << label << ' '
        << std::string(9 - std::min<size_t>(9, share.size()), ' ') << share << "  " << std::string(bar, '#') << '\n';
  }
}

// The most frequent first.
std::vector<std::pair<std::string, Record::Error>> ErrorsOf(const LoadResult& result) {
  std::vector<std::pair<std::string, Record::Error>> errors(result.record.errors().begin(),
                                                            result.record.errors().end());
  std::stable_sort(errors.begin(), errors.end(),
                   [](const auto& a, const auto& b) { return a.second.count > b.second.count; });
  return errors;
}

void PrintErrors(const LoadResult& result, std::ostream& out) {
  if (result.record.errors().empty()) return;
  constexpr size_t kWidth = 110, kIndent = 4;
  out << '\n';
  Table table({"error", "calls"});
  for (const auto& [name, error] : ErrorsOf(result)) table.Add({name, absl::StrCat(error.count)});
  table.Print(out);
  out << "\nthe first of each:\n";
  for (const auto& [name, error] : ErrorsOf(result)) {
    PrintWrapped(absl::StrCat(name, ": ", error.message), kWidth, kIndent, out);
  }
}

// A closed loop that has more in flight than its connections or streams carry waits for itself.
void PrintHint(const LoadOptions& options, std::ostream& out) {
  if (options.open_loop) return;
  double most = 0;
  for (const Ramp& ramp : options.schedule.steps) most = std::max({most, ramp.from, ramp.to});
  // A thread goes round those connections that others leave to it, with a stream on each.
  const int64_t carriers = options.streams ? std::lcm(options.connections, options.threads) : options.connections;
  const int64_t each = options.streams ? kStreamWindow : kConnectionCalls;
  const auto calls = static_cast<int64_t>(most);
  if (calls <= carriers * each) return;
  const std::string wait =
      absl::StrCat(calls - carriers * each, " of ", calls, " calls wait here, which counts as latency");
  const std::string hint =
      options.streams
          ? absl::StrCat("hint: a server takes ", each, " requests of a stream at a time: with ",
                         FormatCount(carriers, "stream"), ", ", wait, "; more --connections bring more streams")
          : absl::StrCat("hint: a connection carries ", each, " calls at a time, unless the server has another ",
                         "--max_concurrent_streams: with ", FormatCount(carriers, "connection"), ", ", wait,
                         "; give --connections ", (calls + each - 1) / each, " or more");
  PrintWrapped(hint, 110, 0, out);
  out << '\n';
}

Json TimesToJson(const Histogram& histogram) {
  const auto seconds = [](int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; };
  Json json{{"count", histogram.count()}, {"mean", histogram.mean() * 1e-9}, {"min", seconds(histogram.min())}};
  for (size_t i = 0; i < std::size(kQuantiles); ++i)
    json[kQuantileNames[i]] = seconds(histogram.Quantile(kQuantiles[i]));
  json["max"] = seconds(histogram.max());
  return json;
}

Json TallyToJson(const Tally& tally) {
  return {{"ok", tally.latency.count()},
          {"failed", tally.failed.count()},
          {"reply_bytes", tally.reply_bytes},
          {"latency", TimesToJson(tally.latency)},
          {"sent_to_end", TimesToJson(tally.service)},
          {"server", TimesToJson(tally.server)},
          {"failed_latency", TimesToJson(tally.failed)}};
}

Json StepToJson(const Record::Step& step, double seconds) {
  Json json{{"seconds", seconds}, {"ok_per_second", Rate(step.ended, seconds)}};
  json.update(TallyToJson(step.Total()));
  json["late"] = TimesToJson(step.late);
  json["methods"] = Json::object();
  for (const auto& [method, tally] : step.methods) json["methods"][load::TraitsOf(method).name] = TallyToJson(tally);
  return json;
}

struct Whole {
  Record::Step step;
  double seconds = 0;
};
Whole WholeOf(const LoadOptions& options, const LoadResult& result) {
  Whole whole;
  for (const Record::Step& step : AllSteps(options, result)) {
    for (const auto& [method, tally] : step.methods) whole.step.methods[method].Merge(tally);
    whole.step.late.Merge(step.late);
    whole.step.ended += step.ended;
  }
  for (const double seconds : result.step_seconds) whole.seconds += seconds;
  return whole;
}

}  // namespace

void PrintLoad(const LoadOptions& options, const LoadResult& result, std::ostream& out) {
  const Whole whole = WholeOf(options, result);
  out << (options.open_loop ? "open loop" : "closed loop") << ", " << FormatCount(options.connections, "connection")
      << ", " << FormatCount(options.threads, "thread") << ", seed " << options.seed << "\n\n";
  PrintHint(options, out);
  PrintSteps(options, result, AllSteps(options, result), out);
  out << '\n';
  PrintMethods(whole.step, out);
  const Histogram latency = whole.step.Total().latency;
  if (latency.count() > 0) {
    out << "\nlatency of successful calls, and the share of calls up to it:\n";
    PrintHistogram(latency, out);
  }
  if (options.open_loop && whole.step.late.count() > 0) {
    out << "\ncalls were sent " << Time(whole.step.late.Quantile(0.5)) << " (median), "
        << Time(whole.step.late.Quantile(0.99)) << " (p99) after their intended start\n";
  }
  PrintErrors(result, out);
}

Json LoadToJson(const LoadOptions& options, const LoadResult& result) {
  Json json{{"loop", options.open_loop ? "open" : "closed"},
            {"arrivals", !options.open_loop ? ""
                         : options.poisson  ? "poisson"
                                            : "uniform"},
            {"connections", options.connections},
            {"threads", options.threads},
            {"seed", options.seed},
            {"warmup_seconds", options.schedule.warmup_seconds}};
  json["steps"] = Json::array();
  const std::vector<Record::Step> steps = AllSteps(options, result);
  for (size_t i = 0; i < steps.size(); ++i) {
    const Ramp& ramp = options.schedule.steps[i];
    Json step{{"from", ramp.from}, {"to", ramp.to}};
    step.update(StepToJson(steps[i], result.step_seconds[i]));
    json["steps"].push_back(std::move(step));
  }
  const Whole whole = WholeOf(options, result);
  json["total"] = StepToJson(whole.step, whole.seconds);
  json["errors"] = Json::array();
  for (const auto& [name, error] : ErrorsOf(result)) {
    json["errors"].push_back(Json{{"error", name}, {"count", error.count}, {"message", error.message}});
  }
  return json;
}

}  // namespace vicinal::client::cli
