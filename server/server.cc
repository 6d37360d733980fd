// SPDX-License-Identifier: Apache-2.0
#include "server/server.h"

#include <grpcpp/impl/service_type.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error.h"
#include "server/certificate_files.h"
#include "server/component_options.h"
#include "server/core.h"
#include "server/handlers/graph_handler.h"
#include "server/handlers/inference_handler.h"
#include "server/handlers/model_handler.h"
#include "server/handlers/server_handler.h"
#include "server/housekeeper.h"
#include "server/http/listener.h"
#include "server/metrics/engine_state.h"
#include "server/metrics/nvml.h"
#include "server/metrics/page.h"
#include "server/open_inference/open_inference_handler.h"
#include "server/ready_file.h"
#include "server/rpc_server.h"
#include "server/services/services.h"
#include "server/status/site.h"
#include "server/token_files.h"
#include "server/trimmer.h"

namespace vicinal::server {
namespace {

// After the last call: time for its last bytes, and for notifying health watchers.
constexpr std::chrono::seconds kLastBytes{2};

// gRPC ends calls with CANCELLED that arrive after its shutdown has begun and before the client knows of it. This can
// hit a client that calls again as soon as it is answered, if its answer is the last one, in particular a large one. So
// the server itself rejects calls with UNAVAILABLE until none has arrived for kQuiet: those clients then wait or use
// another server. At most kLinger, for clients that do neither.
constexpr std::chrono::milliseconds kQuiet{200};
constexpr std::chrono::seconds kLinger{2};

// From one look at the device's health to the next: about as long as requests fail with DEVICE_LOST before readiness
// goes.
constexpr std::chrono::milliseconds kDevicePeriod{100};

// From one look at how far loading is to the next.
constexpr std::chrono::milliseconds kLoadPeriod{20};

// Lines in the log about callers that are not known.
constexpr std::chrono::seconds kUnknownCallers{10};
constexpr int kUnknownCallersLines = 100;

// From one look at what the allocator keeps to the next: within 10 s of a burst it is given back.
constexpr std::chrono::seconds kTrimPeriod{5};

// How long a token or certificate that was replaced in its file is taken still.
constexpr std::chrono::seconds kFilePeriod{5};

}  // namespace

// Members in the order in which they outlive each other: what comes later uses what comes earlier.
struct Server::Impl {
  Impl(const Config& given, Fakes fakes, std::function<void()> told_of_loss)
      : config(given),
        on_device_lost(std::move(told_of_loss)),
        clock(fakes.clock != nullptr ? *fakes.clock : Clock::Real()),
        log(fakes.log_fd, given.log_level, &clock),
        auth(given.credentials),
        token_files(given, &auth, &log),
        certificates(given, &log, &clock),
        engine(std::move(fakes.engine)) {}

  Status StartEngine();
  void StartHandlers();
  Status ListenForScrapes();
  Status ListenForPeople();
  Status ListenForCalls();
  void WatchFiles();
  Status StartServing();
  StateSnapshot Snapshot();
  void LookAfterDevice();
  // Until the engine's work has ended and what serves is written, at most until `deadline` or a second signal.
  void DrainEngine(MonotonicTime deadline);
  bool IsLoaded() const;
  bool IsReady() const {
    const RpcServer* const serving = rpc_in_use.load();
    return ready.load() && serving != nullptr && serving->has_room();
  }
  void BecomeReady();

  const Config config;
  const std::function<void()> on_device_lost;
  const Clock& clock;
  JsonLog log;
  Auth auth;
  TokenFiles token_files;
  CertificateFiles certificates;
  EdgeCertificates edge;
  Drain drain;
  std::atomic<bool> ready{false};
  std::atomic<bool> device_lost{false};
  std::unique_ptr<Metrics> metrics;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<UploadStore> uploads;
  std::unique_ptr<SilenceWatch> silences, stalls;
  std::unique_ptr<OpenCalls> open_calls;
  LogLimiter unknown_callers{clock, kUnknownCallers, kUnknownCallersLines};
  Refusals refusals{clock, &log};
  std::unique_ptr<Workers> workers;   // finished uploads, explanations
  std::unique_ptr<Workers> encoders;  // large replies: never behind an upload
  std::unique_ptr<Workers> tuners;    // calls that wait for tuning: before them, nothing else may wait
  std::unique_ptr<Housekeeper> housekeeper;
  std::unique_ptr<Housekeeper> file_watch;  // tokens, certificates
  Trimmer trimmer{Trimmer::RealMachine()};
  std::unique_ptr<Housekeeper> trim_watch;
  std::unique_ptr<GraphHandler> graph_handler;
  std::unique_ptr<ModelHandler> model_handler;
  std::unique_ptr<InferenceHandler> inference_handler;
  std::unique_ptr<ServerHandler> server_handler;
  std::unique_ptr<OpenInferenceHandler> open_inference_handler;
  std::optional<Core> core;
  RpcServer::Services services, edge_services;
  std::unique_ptr<RpcServer> rpc;
  std::atomic<RpcServer*> rpc_in_use{nullptr};  // by scrapes and chores, which may come before it serves
  std::unique_ptr<Housekeeper> device_watch;
  std::unique_ptr<Housekeeper> load_watch;
  std::unique_ptr<StatusSite> status_site;
  std::unique_ptr<HttpListener> metrics_listener, status_listener;
  std::string grpc_address, metrics_address, health_address, status_address;
  bool served = false;  // it was said that it serves; else its end is no news
  bool stopped = false;
};

Status Server::Impl::StartEngine() {
  Metrics::Options options;
  options.max_label_names = config.limits.max_label_names;
  options.version = Version();
  options.instruction_set = Engine::InstructionSet();
  options.clock = &clock;
  metrics = std::make_unique<Metrics>(options);
  if (engine == nullptr) {
    EngineOptions engine_options = EngineOptionsOf(config, &clock, metrics.get(), &log);
    // No call comes before StartHandlers, and all of them end before the encoders do.
    engine_options.run_elsewhere = [this](std::function<void()> job) { encoders->PostAdmitted(std::move(job)); };
    VICINAL_ASSIGN_OR_RETURN(engine, Engine::Create(engine_options));
  }
  if (const std::vector<DeviceInfo> devices = engine->Devices(); !devices.empty())
    metrics->SetDevice(devices.front().name, OpenNvml(devices.front(), log));
  return OkStatus();
}

void Server::Impl::StartHandlers() {
  uploads = std::make_unique<UploadStore>(UploadOptionsOf(config.limits, *engine, &clock));
  silences = std::make_unique<SilenceWatch>(clock, config.limits.upload_ttl);
  stalls = std::make_unique<SilenceWatch>(clock, config.limits.send_timeout);
  OpenCalls::Options calls;
  calls.most = config.limits.max_open_calls;
  calls.message_timeout = config.message_timeout;
  open_calls = std::make_unique<OpenCalls>(calls, clock, &log);
  drain.OnDrain([this] { open_calls->EndWaits(Drain::Refusal()); });
  workers = std::make_unique<Workers>(2, config.limits.max_worker_queue);
  encoders = std::make_unique<Workers>(1, config.limits.max_worker_queue);
  tuners = std::make_unique<Workers>(1, config.limits.max_worker_queue);
  const auto period = std::clamp<std::chrono::milliseconds>(
      std::min({config.limits.upload_ttl, config.limits.send_timeout, config.message_timeout}) / 8,
      std::chrono::milliseconds(50), std::chrono::seconds(10));
  housekeeper = std::make_unique<Housekeeper>(period, [this] {
    uploads->Expire(), silences->Sweep(), stalls->Sweep(), open_calls->Sweep();
    if (RpcServer* const serving = rpc_in_use.load()) serving->SweepHealth();
  });
  graph_handler = std::make_unique<GraphHandler>(*engine, *uploads, *metrics, config.limits);
  model_handler = std::make_unique<ModelHandler>(*engine, *uploads, *metrics, config.limits);
  inference_handler =
      std::make_unique<InferenceHandler>(*engine, *metrics, *encoders, config.limits, &clock, config.threads);
  server_handler = std::make_unique<ServerHandler>(*engine, config.limits, WarningsOf(config), &clock);
  open_inference_handler = std::make_unique<OpenInferenceHandler>(
      *engine, *inference_handler, config.limits, [this] { return IsReady(); }, &clock);
  metrics->SetSource([this] { return Snapshot(); });
  core.emplace(Core{clock, log, *metrics, auth, drain, *workers, *tuners, config.limits, *engine, *silences, *stalls,
                    *open_calls, unknown_callers, refusals, !config.tls_client_ca_file.empty(),
                    config.edge_listen.empty() ? nullptr : &edge});
  for (RpcServer::Services* const all : {&services, &edge_services}) {
    all->push_back(MakeGraphService(*core, *graph_handler));
    all->push_back(MakeModelService(*core, *model_handler));
    all->push_back(MakeInferenceService(*core, *inference_handler));
    all->push_back(MakeServerService(*core, *server_handler));
    all->push_back(MakeOpenInferenceService(*core, *open_inference_handler));
  }
}

Status Server::Impl::ListenForScrapes() {
  if (config.metrics_listen.empty()) return OkStatus();
  VICINAL_ASSIGN_OR_RETURN(const auto address, SplitAddress(config.metrics_listen, "metrics_listen"));
  const auto answer = [this](const HttpRequest& request) { return MetricsPage(*metrics, request); };
  HttpListener::Tls tls;
  if (config.metrics_tls) tls = [this] { return certificates.context(); };
  VICINAL_ASSIGN_OR_RETURN(metrics_listener,
                           HttpListener::Start(address.first, address.second, "metrics_listen", answer, tls));
  metrics_address = absl::StrCat(address.first, ":", metrics_listener->port());
  return OkStatus();
}

Status Server::Impl::ListenForPeople() {
  if (config.status_listen.empty()) return OkStatus();
  VICINAL_ASSIGN_OR_RETURN(const auto address, SplitAddress(config.status_listen, "status_listen"));
  StatusSource source{engine.get(), [this] { return Snapshot(); }, [this] { return metrics->Latencies(); },
                      [this] { return metrics->CompiledKernels(); }, Version()};
  status_site = std::make_unique<StatusSite>(std::move(source), auth, clock, IsLoopback(address.first));
  const auto answer = [this](const HttpRequest& request) { return status_site->Answer(request); };
  VICINAL_ASSIGN_OR_RETURN(status_listener,
                           HttpListener::Start(address.first, address.second, "status_listen", answer, {}));
  status_address = absl::StrCat(address.first, ":", status_listener->port());
  return OkStatus();
}

Status Server::Impl::ListenForCalls() {
  VICINAL_ASSIGN_OR_RETURN(
      rpc, RpcServer::Start(config, *core, UsesTls(config) ? &certificates : nullptr, services, edge_services));
  rpc_in_use.store(rpc.get());
  grpc_address = rpc->address();
  health_address = rpc->health_address();
  if (config.advertise_address.empty() && !config.grpc_listen.empty()) {
    const Status told = engine->Advertise(grpc_address);
    if (!told.ok()) {
      log.Log(LogLevel::kWarning, "address not written to the state directory: replicas cannot name this server",
              {{"error", std::string(told.message())}});
    }
  }
  return OkStatus();
}

void Server::Impl::WatchFiles() {
  if (token_files.empty() && !UsesTls(config)) return;
  file_watch = std::make_unique<Housekeeper>(kFilePeriod, [this] {
    token_files.Reread();
    if (UsesTls(config)) certificates.Reread();
  });
}

Status Server::Impl::StartServing() {
  // A second server on one machine needs two other ports, so the error names both.
  const Status scrapes = ListenForScrapes(), calls = ListenForCalls();
  if (!scrapes.ok() && !calls.ok()) {
    return FailedPrecondition("CANNOT_LISTEN",
                              absl::StrCat(std::string(calls.message()), "\n", std::string(scrapes.message())));
  }
  VICINAL_RETURN_IF_ERROR(calls);
  VICINAL_RETURN_IF_ERROR(scrapes);
  VICINAL_RETURN_IF_ERROR(ListenForPeople());
  if (IsLoaded()) {
    BecomeReady();
  } else {
    load_watch = std::make_unique<Housekeeper>(kLoadPeriod, [this] {
      if (!ready.load() && IsLoaded()) BecomeReady();
    });
  }
  if (!config.ready_file.empty())
    VICINAL_RETURN_IF_ERROR(
        WriteReadyFile(config.ready_file, grpc_address, metrics_address, health_address, status_address));
  const std::vector<DeviceInfo> devices = engine->Devices();
  WatchFiles();
  trimmer.Look();  // what it takes before anyone calls
  trim_watch = std::make_unique<Housekeeper>(kTrimPeriod, [this] { trimmer.Look(); });
  const bool has_gpu = !devices.empty() && devices.front().name != "cpu";
  if (has_gpu || config.state_read_only)  // a replica ends once its directory is another one
    device_watch = std::make_unique<Housekeeper>(kDevicePeriod, [this] { LookAfterDevice(); });
  return OkStatus();
}

bool Server::Impl::IsLoaded() const {
  if (engine->loaded()) return true;
  if (config.ready_when == ReadyWhen::kAll) return false;
  const std::vector<GraphResource> graphs = engine->ListGraphs();
  return std::any_of(graphs.begin(), graphs.end(),
                     [](const GraphResource& graph) { return graph.serving && graph.serving->in_memory(); });
}

void Server::Impl::BecomeReady() {
  if (device_lost.load()) return;
  rpc->SetReady(true);
  ready.store(true);
}

void Server::Impl::LookAfterDevice() {
  const Status status = engine->Health();
  if (status.ok() || device_lost.exchange(true)) return;
  const auto detail = DetailOf(status);
  const bool replaced = detail && detail->reason == "INCARNATION_CHANGED";
  log.Log(LogLevel::kError,
          absl::StrCat(replaced ? "the state directory was replaced" : "the device is lost",
                       "; the process must be restarted"),
          {{"error", std::string(status.message())}});
  ready.store(false);
  rpc->SetReady(false);
  drain.Begin();
  if (on_device_lost) on_device_lost();
}

void Server::Impl::DrainEngine(MonotonicTime deadline) {
  if (device_lost.load()) return;  // nothing ends there any more
  const auto hurry = [this] { return drain.hurried() ? Drain::Refusal() : OkStatus(); };
  const bool drained = engine->Drain(deadline, hurry);
  const int64_t unwritten = engine->durable() ? engine->Counts().not_durable : 0;
  if (!drained) log.Log(LogLevel::kWarning, "stops before its work has ended: a longer --drain_timeout lets it", {});
  if (unwritten > 0) {
    log.Log(LogLevel::kError, "stops with versions that could not be written to the state directory",
            {{"versions", absl::StrCat(unwritten)}});
  }
}

StateSnapshot Server::Impl::Snapshot() {
  StateSnapshot state;
  AddEngineState(*engine, &state);
  state.open_uploads = uploads->open_uploads();
  state.ready = IsReady();
  if (const RpcServer* const serving = rpc_in_use.load()) state.connections = serving->Connections();
  state.open_calls = open_calls->open();
  state.max_open_calls = config.limits.max_open_calls;
  state.stream_bytes = inference_handler->stream_shares().bytes();
  state.stream_refusals = inference_handler->stream_shares().refusals();
  state.exposed = IsExposed(config);
  state.certificate_expiry_seconds = certificates.expiry_seconds();
  return state;
}

StatusOr<std::unique_ptr<Server>> Server::Start(const Config& config, Fakes fakes,
                                                std::function<void()> on_device_lost) {
  VICINAL_RETURN_IF_ERROR(CheckConfig(config));
  if (!config.ready_file.empty()) VICINAL_RETURN_IF_ERROR(RemoveReadyFile(config.ready_file));
  auto impl = std::make_unique<Impl>(config, std::move(fakes), std::move(on_device_lost));
  if (UsesTls(config)) VICINAL_RETURN_IF_ERROR(impl->certificates.Load());
  VICINAL_RETURN_IF_ERROR(impl->StartEngine());
  impl->StartHandlers();
  std::unique_ptr<Server> server(new Server(std::move(impl)));
  // Before the ready file, so that whoever waits for that finds them in the log.
  for (const std::string& warning : WarningsOf(config)) server->impl_->log.Log(LogLevel::kWarning, warning, {});
  VICINAL_RETURN_IF_ERROR(server->impl_->StartServing());
  server->impl_->served = true;
  server->impl_->log.Log(LogLevel::kInfo, "serving",
                         {{"grpc", server->grpc_address()},
                          {"metrics", server->metrics_address()},
                          {"health", server->impl_->health_address},
                          {"tls", !UsesTls(config)                    ? "off"
                                  : config.tls_client_ca_file.empty() ? "on"
                                                                      : "client certificates required"},
                          {"version", Version()}});
  return server;
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() {
  Hurry();
  Stop();
}

const std::string& Server::grpc_address() const { return impl_->grpc_address; }
const std::string& Server::metrics_address() const { return impl_->metrics_address; }

bool Server::Stop() {
  if (std::exchange(impl_->stopped, true)) return true;
  bool clean = true;
  impl_->device_watch.reset();
  impl_->load_watch.reset();
  if (impl_->rpc != nullptr) {
    if (impl_->served) impl_->log.Log(LogLevel::kInfo, "stopping", {});
    impl_->ready.store(false);
    impl_->rpc->SetReady(false);
    // Load balancers see that this replica stops before it rejects calls. Without a device it already rejects them.
    if (!impl_->device_lost.load()) {
      impl_->drain.Delay(std::chrono::steady_clock::now() + impl_->config.drain_delay);
    }
    impl_->drain.Begin();
    const MonotonicTime deadline = std::chrono::steady_clock::now() + impl_->config.drain_timeout;
    clean = impl_->drain.Wait(deadline);
    impl_->drain.Linger(kQuiet, std::chrono::steady_clock::now() + kLinger);
    impl_->rpc->Shutdown(std::chrono::system_clock::now() + kLastBytes);
    impl_->DrainEngine(deadline);
  }
  // No call is left: destroys what they used, in reverse order of construction.
  impl_->housekeeper.reset();
  impl_->file_watch.reset();
  impl_->trim_watch.reset();
  impl_->tuners.reset();
  impl_->workers.reset();
  impl_->encoders.reset();
  impl_->status_listener.reset();
  impl_->metrics_listener.reset();
  impl_->metrics->SetSource(nullptr);
  impl_->engine.reset();
  if (impl_->served) impl_->log.Log(LogLevel::kInfo, clean ? "stopped" : "stopped with calls cut off", {});
  return clean;
}

void Server::Hurry() { impl_->drain.Hurry(); }

}  // namespace vicinal::server
