// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda/report.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>

namespace vicinal::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kWorst = 15;

__attribute__((format(printf, 1, 2))) std::string Format(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

std::optional<double> Get(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

// "1.23", or nothing.
std::string Ratio(std::optional<double> value) { return value ? Format("%.2f", *value) : "-"; }

// The title of a cell, as if its graph were in `order`.
std::string Title(const Json& cell, const std::string& order) {
  const std::string graph = cell.at("graph"), operation = cell.at("operation");
  return Format("%s%s%s %s %d", graph.c_str(), order == "none" ? "" : " @", order == "none" ? "" : order.c_str(),
                operation.c_str(), cell.at("width").get<int>());
}

std::string Title(const Json& cell) { return Title(cell, cell.at("order")); }

std::string NameOf(const Json& kernel) {
  const std::string parameters = kernel.value("parameters", "");
  return kernel.at("kernel").get<std::string>() + (parameters.empty() ? "" : " " + parameters);
}

// The kernel that a cell's index names; null where it has none.
const Json* Chosen(const Json& cell, const char* index) {
  const auto found = cell.find(index);
  return found == cell.end() ? nullptr : &cell.at("kernels").at(found->get<size_t>());
}

void CompleteKernel(const Json& cell, Json* kernel) {
  const double us = kernel->at("median_us");
  const std::optional<double> same = Get(cell, "cusparse_us"), sum = Get(cell, "cusparse_sum_us");
  if (same) (*kernel)["times_cusparse"] = *same / us;
  if (sum) (*kernel)["times_sum"] = *sum / us;
  if (const std::optional<double> listed = Get(cell, "listed_us")) (*kernel)["times_listed"] = *listed / us;
  (*kernel)["over_dram_floor"] = us / cell.at("dram_floor_us").get<double>();
  (*kernel)["over_gather_floor"] = us / cell.at("gather_floor_us").get<double>();
  (*kernel)["gather_gbps"] = cell.at("gather_bytes").get<double>() / us * 1e-3;
}

std::string Line(const Json& cell, const Json& kernel) {
  return Format(
      "%-34s %-44s %10.1f us [%.1f - %.1f] %7.0f GB/s | x cuSPARSE %s | x its sum %s | x listed %s | %.1f x "
      "DRAM floor, %.2f x gather floor, launched in %.1f us%s%s\n",
      Title(cell).c_str(), NameOf(kernel).c_str(), kernel.at("median_us").get<double>(),
      kernel.at("p10_us").get<double>(), kernel.at("p90_us").get<double>(), kernel.at("gather_gbps").get<double>(),
      Ratio(Get(kernel, "times_cusparse")).c_str(), Ratio(Get(kernel, "times_sum")).c_str(),
      Ratio(Get(kernel, "times_listed")).c_str(), kernel.at("over_dram_floor").get<double>(),
      kernel.at("over_gather_floor").get<double>(), Get(kernel, "host_us").value_or(0.0),
      kernel.at("right").get<bool>() ? "" : " WRONG", kernel.at("first_choice").get<bool>() ? " *" : "");
}

// The sum of logarithms, for a geometric mean, and the minimum.
struct Mean {
  double logs = 0, least = 0;
  int count = 0;

  void Add(std::optional<double> value) {
    if (!value || *value <= 0) return;
    logs += std::log(*value);
    least = count == 0 ? *value : std::min(least, *value);
    ++count;
  }
  std::string text() const { return count == 0 ? "-" : Format("%.2f", std::exp(logs / count)); }
  std::string with_least() const { return count == 0 ? "-" : text() + Format(" (%.2f)", least); }
};

struct OperationMeans {
  int cells = 0, behind = 0;
  Mean best, first, sum, listed, dram, gather;
};

std::string MeansTable(const std::vector<Json>& cells) {
  std::vector<std::pair<std::string, OperationMeans>> operations;
  for (const Json& cell : cells) {
    const Json* const best = Chosen(cell, "best");
    if (best == nullptr) continue;
    const std::string name = cell.at("operation");
    auto at = std::find_if(operations.begin(), operations.end(), [&](const auto& one) { return one.first == name; });
    if (at == operations.end()) at = operations.insert(at, {name, {}});
    OperationMeans& means = at->second;
    ++means.cells;
    means.best.Add(Get(*best, "times_cusparse"));
    means.behind += Get(*best, "times_cusparse").value_or(1.0) < 1.0;
    means.sum.Add(Get(*best, "times_sum"));
    means.listed.Add(Get(*best, "times_listed"));
    means.dram.Add(Get(*best, "over_dram_floor"));
    means.gather.Add(Get(*best, "over_gather_floor"));
    if (const Json* first = Chosen(cell, "first")) means.first.Add(Get(*first, "times_cusparse"));
  }
  std::string text =
      "Geometric means, the lowest cell in brackets; above 1 we are faster. \"Untuned\": what a plan takes before "
      "anything was measured.\n\n"
      "| operation | cells | x cuSPARSE, same result | below 1 | untuned | x cuSPARSE's float32 sum | x best listed "
      "peer | x DRAM floor | x gather floor |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n";
  for (const auto& [name, m] : operations) {
    text += Format("| %s | %d | %s | %d | %s | %s | %s | %s | %s |\n", name.c_str(), m.cells,
                   m.best.with_least().c_str(), m.behind, m.first.with_least().c_str(), m.sum.text().c_str(),
                   m.listed.with_least().c_str(), m.dram.text().c_str(), m.gather.text().c_str());
  }
  return text;
}

// A graph in the order as sent, and the best time over all its orders.
struct SentGraph {
  const Json* cell = nullptr;
  double best_us = INFINITY;
  int orders = 0;
};

// Compares a server that may renumber graphs with peers that take them as sent.
std::string RenumberedTable(const std::vector<Json>& cells) {
  std::map<std::string, SentGraph> graphs;
  for (const Json& cell : cells) {
    const Json* const best = Chosen(cell, "best");
    if (best == nullptr) continue;
    SentGraph& graph = graphs[Title(cell, "none")];
    if (cell.at("order") == "none") graph.cell = &cell;
    graph.best_us = std::min(graph.best_us, best->at("median_us").get<double>());
    ++graph.orders;
  }
  std::map<std::string, OperationMeans> operations;
  for (const auto& named : graphs) {
    const SentGraph& graph = named.second;
    if (graph.cell == nullptr || graph.orders < 2) continue;
    OperationMeans& means = operations[graph.cell->at("operation").get<std::string>()];
    const auto ratio = [&](const char* peer_us) -> std::optional<double> {
      const std::optional<double> us = Get(*graph.cell, peer_us);
      return us ? std::optional<double>(*us / graph.best_us) : std::nullopt;
    };
    ++means.cells;
    means.best.Add(ratio("cusparse_us"));
    means.sum.Add(ratio("cusparse_sum_us"));
    means.listed.Add(ratio("listed_us"));
  }
  if (operations.empty()) return "";
  std::string text =
      "\nThe best order of each graph beside peers on the graph as it was sent:\n\n"
      "| operation | cells | x cuSPARSE, same result | x cuSPARSE's float32 sum | x best listed peer |\n"
      "|---|---:|---:|---:|---:|\n";
  for (const auto& [name, m] : operations) {
    text += Format("| %s | %d | %s | %s | %s |\n", name.c_str(), m.cells, m.best.with_least().c_str(),
                   m.sum.with_least().c_str(), m.listed.with_least().c_str());
  }
  return text;
}

// The cells in which the best kernel has the lowest `ratio`.
std::string WorstTable(const std::vector<Json>& cells, const char* ratio, const char* peer_us, const char* title) {
  std::vector<std::pair<double, const Json*>> ranked;
  for (const Json& cell : cells) {
    const Json* const best = Chosen(cell, "best");
    if (best == nullptr) continue;
    if (const std::optional<double> value = Get(*best, ratio)) ranked.emplace_back(*value, &cell);
  }
  if (ranked.empty()) return "";
  std::sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  ranked.resize(std::min(ranked.size(), kWorst));
  std::string text = Format(
      "\nWorst %s:\n\n| cell | ratio | ours us | peer us | kernel | x DRAM floor | x gather floor |\n"
      "|---|---:|---:|---:|---|---:|---:|\n",
      title);
  for (const auto& [value, cell] : ranked) {
    const Json& best = *Chosen(*cell, "best");
    text += Format("| %s | %.2f | %.1f | %.1f | %s | %.1f | %.2f |\n", Title(*cell).c_str(), value,
                   best.at("median_us").get<double>(), Get(*cell, peer_us).value_or(0.0), NameOf(best).c_str(),
                   best.at("over_dram_floor").get<double>(), best.at("over_gather_floor").get<double>());
  }
  return text;
}

// Whether a kernel was run at all.
bool Ran(const Json& cell) {
  const Json& kernels = cell.at("kernels");
  return std::any_of(kernels.begin(), kernels.end(), [](const Json& kernel) { return !kernel.contains("refused"); });
}

// Lists kernels that failed or gave a wrong result, and operations that no kernel supports.
std::string Faults(const std::vector<Json>& cells) {
  std::string text;
  std::map<std::string, int> refused;
  for (const Json& cell : cells) {
    for (const Json& kernel : cell.at("kernels")) {
      if (kernel.contains("failed")) {
        text += Title(cell) + ": " + NameOf(kernel) + " failed: " + kernel.at("failed").get<std::string>() + "\n";
      } else if (!kernel.value("right", true)) {
        text += Title(cell) + ": " + NameOf(kernel) +
                Format(" is wrong, relative error %.1e\n", Get(kernel, "relative_error").value_or(INFINITY));
      }
    }
    if (!Ran(cell)) {
      ++refused[cell.at("operation").get<std::string>()];
    } else if (!cell.contains("best")) {
      text += Title(cell) + ": no kernel has a right result\n";
    }
  }
  if (!text.empty()) text = "\nFAULTS:\n" + text;
  for (const auto& [operation, count] : refused) {
    text += Format("\nNo kernel takes %s: %d cells left out.", operation.c_str(), count);
  }
  return refused.empty() ? text : text + "\n";
}

}  // namespace

void Complete(Json* cell) {
  std::optional<size_t> best;
  Json& kernels = cell->at("kernels");
  for (size_t i = 0; i < kernels.size(); ++i) {
    Json& kernel = kernels[i];
    if (!kernel.contains("median_us")) continue;
    CompleteKernel(*cell, &kernel);
    if (kernel.at("first_choice").get<bool>()) (*cell)["first"] = i;
    if (!kernel.at("right").get<bool>() || !kernel.value("deterministic", true)) continue;
    if (!best || kernel.at("median_us") < kernels[*best].at("median_us")) best = i;
  }
  if (best) (*cell)["best"] = *best;
}

std::string Lines(const Json& cell) {
  std::map<std::string, const Json*> fastest;
  std::vector<std::string> names;
  std::string text;
  for (const Json& kernel : cell.at("kernels")) {
    const std::string name = kernel.at("kernel");
    if (kernel.contains("refused") && !Ran(cell)) {
      text += Format("%-34s %s refuses: %s\n", Title(cell).c_str(), name.c_str(),
                     kernel.at("refused").get<std::string>().c_str());
    }
    if (!kernel.contains("median_us")) continue;
    const Json*& at = fastest[name];
    if (at == nullptr) names.push_back(name);
    if (at == nullptr || kernel.at("median_us") < at->at("median_us")) at = &kernel;
  }
  for (const std::string& name : names) text += Line(cell, *fastest[name]);
  if (const std::optional<double> us = Get(cell, "cusparse_us")) {
    text +=
        Format("%-34s cuSPARSE %s %.1f us\n", Title(cell).c_str(), cell.at("cusparse").get<std::string>().c_str(), *us);
  }
  return text;
}

std::string Summary(const std::vector<Json>& cells) {
  return MeansTable(cells) + RenumberedTable(cells) +
         WorstTable(cells, "times_cusparse", "cusparse_us", "against cuSPARSE") +
         WorstTable(cells, "times_listed", "listed_us", "against the best listed peer") + Faults(cells);
}

}  // namespace vicinal::bench
