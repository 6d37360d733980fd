// SPDX-License-Identifier: Apache-2.0
// `vicinal state`: looks at a state directory without a server. The only file of the client that includes the engine,
// and of it only the folder that knows the files (docs/adr/0021-state-commands.md).
#include <unistd.h>

#include <chrono>
#include <climits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cpp/cli/commands.h"
#include "client/cpp/cli/output.h"
#include "client/cpp/errors.h"
#include "client/cpp/formats/status_macros.h"
#include "client/cpp/printable.h"
#include "engine/base/error.h"
#include "engine/state/inspect.h"
#include "engine/state/posix_file_system.h"

namespace vicinal::client::cli {
namespace {

constexpr int64_t kDefaultAgeSeconds = 60;

// An error of the engine's, with its reason and metadata as the client tells them.
absl::Status Told(const absl::Status& status) {
  const auto detail = DetailOf(status);
  if (status.ok() || !detail) return status;
  return LocalError(status, detail->reason, detail->metadata);
}

absl::StatusOr<std::unique_ptr<state::PosixFileSystem>> OpenFiles(const LocalContext& context) {
  auto files = state::PosixFileSystem::Open(context.args.Positional(0), state::PosixFileSystem::Root::kMustExist);
  if (!files.ok()) return Told(files.status());
  return files;
}

// For the lock file.
state::LockHolder Self(const std::string& command) {
  char host[HOST_NAME_MAX + 1] = {};
  if (gethostname(host, HOST_NAME_MAX) != 0) host[0] = '\0';
  return {absl::StrCat(host, " (vicinal state ", command, ")"), getpid(),
          absl::FormatTime(absl::Now(), absl::UTCTimeZone()), ""};
}

std::string TimeText(WallTime time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromChrono(time), absl::UTCTimeZone());
}

std::string ReasonOf(const absl::Status& status) {
  const auto detail = DetailOf(status);
  return detail ? detail->reason : CodeName(status.code());
}

Json IdJson(const state::VersionId& id) {
  Json json = {{"store", std::string(state::ToString(id.store))}, {"name", id.name}, {"version", id.version}};
  if (state::BelongsToGraph(id.store)) json["graph"] = id.graph, json["graph_version"] = id.graph_version;
  return json;
}

Json ProblemJson(const state::ListedProblem& problem) {
  Json json = {{"path", problem.path}, {"reason", ReasonOf(problem.error)}, {"message", problem.error.message()}};
  if (problem.id) json.update(IdJson(*problem.id));
  return json;
}

Json InventoryJson(const state::Inventory& inventory) {
  Json json = {{"incarnation", inventory.incarnation}};
  if (inventory.holder) {
    json["writer"] = {{"host", inventory.holder->host},
                      {"pid", inventory.holder->pid},
                      {"start_time", inventory.holder->start_time},
                      {"address", inventory.holder->address}};
  }
  json["versions"] = Json::array();
  for (const state::VersionInfo& version : inventory.versions) {
    Json entry = IdJson(version.id);
    entry.update({{"files", version.files},
                  {"bytes", version.bytes},
                  {"disk_bytes", version.disk_bytes},
                  {"publish_time", TimeText(version.publish_time)},
                  {"replaced", version.replaced}});
    json["versions"].push_back(std::move(entry));
  }
  json["problems"] = Json::array();
  for (const state::ListedProblem& problem : inventory.problems) json["problems"].push_back(ProblemJson(problem));
  json["unpublished"] = inventory.unpublished;
  json["quarantined"] = inventory.quarantined;
  json["lost"] = Json::array();
  for (const state::LostVersion& lost : inventory.lost) {
    Json entry = IdJson(lost.id);
    entry.update({{"reason", lost.reason}, {"quarantine", lost.quarantine}});
    json["lost"].push_back(std::move(entry));
  }
  json["quarantined_kernels"] = Json::array();
  for (const state::QuarantinedKernel& kernel : inventory.kernels) {
    json["quarantined_kernels"].push_back(
        {{"device", kernel.device}, {"configuration", kernel.configuration}, {"reason", kernel.reason}});
  }
  return json;
}

// Names of files, and what files say: whoever wrote the directory chose them.
std::string Escaped(absl::string_view text) { return Printable({text.data(), text.size()}); }

void PrintInventory(const state::Inventory& inventory, std::ostream& out) {
  out << "incarnation " << (inventory.incarnation.empty() ? "unknown (damaged)" : Escaped(inventory.incarnation))
      << '\n';
  if (inventory.holder) {
    out << "last written by process " << inventory.holder->pid << " on " << Escaped(inventory.holder->host)
        << ", started " << Escaped(inventory.holder->start_time) << '\n';
  }
  Table table({"kind", "name", "version", "of graph", "on disk", "published"});
  int64_t disk_bytes = 0;
  for (const state::VersionInfo& version : inventory.versions) {
    const state::VersionId& id = version.id;
    const bool features = state::BelongsToGraph(id.store);
    table.Add({std::string(state::ToString(id.store)), Shorten(id.name), absl::StrCat(id.version),
               features ? absl::StrCat(Shorten(id.graph), " version ", id.graph_version) : "",
               FormatBytes(version.disk_bytes),
               absl::StrCat(TimeText(version.publish_time), version.replaced ? ", replaced" : "")});
    disk_bytes += version.disk_bytes;
  }
  if (!inventory.versions.empty()) table.Print(out);
  out << FormatCount(static_cast<int64_t>(inventory.versions.size()), "version") << ", " << FormatBytes(disk_bytes)
      << " on disk\n";
  for (const state::ListedProblem& problem : inventory.problems) {
    out << "UNUSABLE " << Escaped(problem.path) << ": " << Escaped(problem.error.message()) << '\n';
  }
  for (const std::string& path : inventory.unpublished)
    out << "unpublished " << Escaped(path) << " (being written, or swept)\n";
  for (const std::string& path : inventory.quarantined)
    out << "quarantined " << Escaped(path) << " (see REASON.json)\n";
  for (const state::LostVersion& lost : inventory.lost) {
    out << "LOST " << Escaped(state::Describe(lost.id))
        << ": requests get DATA_LOSS until it is uploaded again or deleted; see " << Escaped(lost.quarantine) << '\n';
  }
  for (const state::QuarantinedKernel& kernel : inventory.kernels) {
    out << "quarantined kernel '" << Escaped(kernel.configuration) << "' on " << Escaped(kernel.device) << ": "
        << Escaped(kernel.reason) << '\n';
  }
}

absl::Status ListState(const LocalContext& context) {
  CLIENT_ASSIGN_OR_RETURN(const auto files, OpenFiles(context));
  const auto inventory = state::TakeInventory(*files);
  if (!inventory.ok()) return Told(inventory.status());
  if (context.json) {
    context.PrintJson(InventoryJson(*inventory));
  } else {
    PrintInventory(*inventory, context.out);
  }
  return absl::OkStatus();
}

absl::Status CheckState(const LocalContext& context) {
  CLIENT_ASSIGN_OR_RETURN(const auto files, OpenFiles(context));
  Json list = Json::array();
  int64_t good = 0, bad = 0, bytes = 0;
  const auto on_file = [&](const state::FileVerdict& verdict) {
    const bool ok = verdict.status.ok();
    ++(ok ? good : bad);
    bytes += verdict.bytes;
    if (context.json) {
      Json entry = {
          {"path", verdict.path}, {"bytes", verdict.bytes}, {"verdict", ok ? "OK" : ReasonOf(verdict.status)}};
      if (!ok) entry["message"] = verdict.status.message();
      list.push_back(std::move(entry));
    } else if (ok) {
      context.out << "ok       " << Escaped(verdict.path) << "  " << FormatBytes(verdict.bytes) << '\n';
    } else {
      context.out << (absl::IsDataLoss(verdict.status) ? "DAMAGED  " : "UNUSABLE ") << Escaped(verdict.path) << ": "
                  << Escaped(verdict.status.message()) << '\n';
    }
  };
  if (const absl::Status status = state::CheckFiles(*files, on_file); !status.ok()) return Told(status);
  if (context.json) {
    context.PrintJson({{"ok", bad == 0}, {"good", good}, {"bad", bad}, {"bytes", bytes}, {"files", std::move(list)}});
  } else {
    context.out << FormatCount(good, "file") << " ok, " << bad << " not; " << FormatBytes(bytes) << " read\n";
  }
  if (bad == 0) return absl::OkStatus();
  return LocalError(absl::DataLossError(absl::StrCat(
                        FormatCount(bad, "file"),
                        " of the state directory cannot be used; a server moves the version of "
                        "a damaged one to quarantine/ and serves the others. Restore a backup, or upload it again")),
                    "STATE_DAMAGED", {});
}

Json SweptJson(const state::SweepReport& report) { return {{"files", report.files}, {"bytes", report.bytes}}; }

absl::Status SweepState(const LocalContext& context) {
  CLIENT_ASSIGN_OR_RETURN(const auto files, OpenFiles(context));
  const std::chrono::seconds age(context.args.Integer("older_than", kDefaultAgeSeconds));
  const auto report = state::SweepOffline(*files, Self("sweep"), age, Clock::Real());
  if (!report.ok()) return Told(report.status());
  if (context.json) {
    context.PrintJson({{"swept", SweptJson(*report)}});
  } else {
    context.out << "deleted " << FormatCount(report->files, "file") << ", " << FormatBytes(report->bytes) << '\n';
  }
  return absl::OkStatus();
}

absl::Status LiftState(const LocalContext& context) {
  CLIENT_ASSIGN_OR_RETURN(const auto files, OpenFiles(context));
  const std::string configuration = context.args.Positional(1);
  const absl::Status lifted = state::LiftQuarantine(*files, Self("lift"), configuration, Clock::Real());
  if (!lifted.ok()) return Told(lifted);
  if (context.json) {
    context.PrintJson({{"lifted", configuration}});
  } else {
    context.out << "'" << configuration << "' may run again\n";
  }
  return absl::OkStatus();
}

absl::Status RestoreState(const LocalContext& context) {
  CLIENT_ASSIGN_OR_RETURN(const auto files, OpenFiles(context));
  const auto restored = state::Restore(*files, Self("restore"), Clock::Real());
  if (!restored.ok()) return Told(restored.status());
  if (context.json) {
    context.PrintJson({{"incarnation", restored->incarnation},
                       {"former_incarnation", restored->former_incarnation},
                       {"repairs", restored->repairs},
                       {"swept", SweptJson(restored->swept)}});
    return absl::OkStatus();
  }
  context.out << "incarnation " << restored->incarnation << ", formerly "
              << (restored->former_incarnation.empty() ? "unknown (damaged)" : Escaped(restored->former_incarnation))
              << '\n';
  for (const std::string& repair : restored->repairs) context.out << Escaped(repair) << '\n';
  context.out << "deleted " << FormatCount(restored->swept.files, "half-written file") << '\n';
  return absl::OkStatus();
}

Command Local(Syntax syntax, absl::Status (*run)(const LocalContext&)) {
  syntax.details = absl::StrCat(syntax.details, "Works on the directory itself, without a server.");
  return {std::move(syntax), nullptr, run};
}

}  // namespace

std::vector<Command> StateCommands() {
  return {
      Local({"state list", {"DIR"}, "Lists what is in a state directory: versions, sizes, times.", "", {}}, ListState),
      Local({"state check",
             {"DIR"},
             "Reads every file of a state directory and compares all checksums.",
             "Exit code 5 if a file cannot be used. A server may be writing meanwhile.\n",
             {}},
            CheckState),
      Local(
          {"state sweep",
           {"DIR"},
           "Deletes what crashes and removed versions left in a state directory.",
           "Refused while a server writes the directory: servers sweep by themselves.\n",
           {AtLeast(0, {"older_than", OptionKind::kInteger, "SECONDS",
                        "age at which something is left over; default: 60, time for a replica that still reads it"})}},
          SweepState),
      Local({"state lift",
             {"DIR", "CONFIGURATION"},
             "Ends the quarantine of a kernel configuration, as 'state list' names it.",
             "The server's next start tries it again. Refused while a server writes the directory.\n",
             {}},
            LiftState),
      Local({"state restore",
             {"DIR"},
             "Makes a copy of a state directory usable: gives it a new incarnation.",
             "Run it once on a copy (a backup, a clone) before a server starts on it. Clients that require the former\n"
             "incarnation are refused then, instead of getting other versions under numbers that they know.\n",
             {}},
            RestoreState),
  };
}

}  // namespace vicinal::client::cli
