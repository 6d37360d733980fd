// SPDX-License-Identifier: Apache-2.0
// The C++ client for all methods of the server. Uploads survive a broken connection, and errors keep the server's
// details. A Client owns one channel; its methods are thread-safe. Calls about a graph send its name in the metadata
// `vicinal-graph`, so that a proxy can route by it. Errors have the server's canonical codes (errors.h gives access to
// the details); UNAVAILABLE also means that the server cannot be reached. The server is not trusted: replies are
// limited and checked (INTERNAL if they are not what was asked for), and texts of errors are printable.
#ifndef VICINAL_CLIENT_CPP_CLIENT_H_
#define VICINAL_CLIENT_CPP_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "vicinal/v1/graph.pb.h"
#include "vicinal/v1/inference.pb.h"
#include "vicinal/v1/model.pb.h"
#include "vicinal/v1/server.pb.h"

namespace vicinal::client {

// Retries calls that change nothing up to four times if the server is busy (UNAVAILABLE), after the server's pushback.
// Replies other than inference are limited to 4 MiB, as everywhere in gRPC.
extern const char kDefaultServiceConfig[];

// Encryption, and who each side is. Read when the client is made: make a new one to use a new certificate.
struct TlsOptions {
  bool enabled = false;
  // Certificates of the authorities that may sign the server's (PEM); empty: those that this machine trusts.
  std::string authorities;
  // The client's own certificate, first in its chain, and its private key (PEM); empty: none.
  std::string certificate, key;
  // The name that the server's certificate must have; empty: the host in `target`.
  std::string server_name;
};

struct ClientOptions {
  // HOST:PORT, or another address that gRPC understands (address.h).
  std::string target = "127.0.0.1:8500";
  // Bearer token; empty: none.
  std::string token;
  TlsOptions tls;
  // Timeout of calls other than uploads, watches and TuneGraph; zero: none.
  std::chrono::milliseconds call_timeout{60'000};
  // Timeout of one upload attempt, of a watch, and of TuneGraph; zero: none.
  std::chrono::milliseconds upload_timeout{0};
  // Maximum number of attempts of an upload whose stream breaks; at least 1.
  int upload_attempts = 5;
  // gRPC keepalive: idle time during calls after which the client sends a ping. Without an answer within the same time,
  // the connection is closed (UNAVAILABLE; uploads resume over a new connection). Zero: no pings. A server closes
  // connections that ping more often than every 10 s.
  std::chrono::milliseconds keepalive{20'000};
  // Size of an upload's chunks, limited by the server's max_chunk_bytes.
  int64_t chunk_bytes = 1 << 20;
  // Largest reply, and largest piece of a streamed one; above 0. A larger one ends the call with RESOURCE_EXHAUSTED.
  // The service config may allow less. Compressed replies are rejected: their size would be unknown until unpacked.
  int64_t max_reply_bytes = 64 << 20;
  // True: strings of replies come as Printable (printable.h) makes them, so that they can be shown as they are; that
  // changes names that no server of ours gives. False: as the server sent them.
  bool printable = true;
  // gRPC service config (JSON) with the retry policy; empty: no retries.
  std::string service_config = kDefaultServiceConfig;
  // Waits between attempts; tests replace it. Empty: sleeps.
  std::function<void(std::chrono::milliseconds)> sleep;
  // True: a connection of this channel's own. Otherwise channels of a process to the same server share one.
  bool own_connection = false;
};

// A tensor to upload. `data` is not owned and must have product(shape) * size(dtype) bytes, little-endian, row-major.
struct UploadTensor {
  std::string name;
  v1::DataType dtype = v1::DATA_TYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
  std::string_view data;
};

struct UploadProgress {
  // Bytes sent, including those that the server already had.
  int64_t sent_bytes = 0;
  int64_t total_bytes = 0;
};

struct UploadOptions {
  // Called on the calling thread after every chunk.
  std::function<void(const UploadProgress&)> progress;
  // Graphs: called on the calling thread with each change of state or progress, until the graph is READY.
  std::function<void(const v1::Graph&)> watch;
  // Called on the calling thread when the upload begins to wait for the server's disk.
  std::function<void()> writing;
  // When the call returns. READY: if preparation fails, also that of a replacement (the old version then continues to
  // serve), it returns its error. DURABLE: also why the version could not be written, though it serves.
  // FAILED_PRECONDITION (NO_STATE_DIRECTORY) if the server keeps nothing on disk; the upload then serves. No deadline
  // but upload_timeout: the upload goes on after DEADLINE_EXCEEDED, and the error carries its id.
  v1::WaitFor wait_for = v1::WAIT_FOR_READY;
};

// A stream of requests that are answered one by one (InferStream). One thread may send while another receives; each of
// the two is one thread at a time. The destructor cancels what has not ended. The client must outlive it.
class QueryStream {
 public:
  ~QueryStream();
  QueryStream(const QueryStream&) = delete;
  QueryStream& operator=(const QueryStream&) = delete;

  // Blocks while the server takes no more, which is until answers are received. False: the stream has ended, and
  // Receive tells why. `request`: with an id of the caller's choice; its order is the stream's.
  bool Send(v1::InferStreamRequest request);
  // No further request: the stream ends after the last answer.
  void CloseSending();
  // Blocks for the next answer. False: the stream has ended. An answer is not checked against its request, which is the
  // caller's; a request's own error is in `answer->error()`, and ErrorOf makes a status of it.
  bool Receive(v1::InferStreamResponse* answer);
  // After Receive has returned false: why the stream ended; OK after CloseSending and all answers.
  absl::Status Finish();
  // Ends the stream now.
  void Cancel();

 private:
  friend class Client;
  struct Impl;
  explicit QueryStream(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

// The error of an answer, as a call that failed with it would return it; OK if there is none.
absl::Status ErrorOf(const v1::InferStreamResponse& answer);

class Client {
 public:
  // Creates the channel; sends nothing before the first call. INVALID_ARGUMENT: invalid options.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const ClientOptions& options);
  ~Client();

  // As given to Connect.
  const ClientOptions& options() const;

  // Uploads. Fills in the spec's `tensors`, and its `upload_id` with a random one if it is empty; a given id resumes
  // the upload with that id. A broken stream (IsBrokenOff, or ABORTED for a chunk) is resumed from the server's
  // offsets; if the reply to finish is lost, finish is sent again. If the upload can be resumed later, also by another
  // process, the error carries the upload id (UploadIdOf).
  absl::StatusOr<v1::Graph> UploadGraph(v1::UploadGraphSpec spec, const std::vector<UploadTensor>& tensors,
                                        const UploadOptions& options = {});
  absl::StatusOr<v1::FeatureSet> UploadFeatures(v1::UploadFeaturesSpec spec, const std::vector<UploadTensor>& tensors,
                                                const UploadOptions& options = {});
  absl::StatusOr<v1::Model> UploadModel(v1::UploadModelSpec spec, const std::vector<UploadTensor>& tensors,
                                        const UploadOptions& options = {});
  absl::StatusOr<v1::Upload> GetUpload(const std::string& upload_id);

  absl::StatusOr<v1::Graph> GetGraph(const std::string& name);
  // All pages. Lists end with INTERNAL if pages repeat, are longer than asked for, or do not end (10,000 pages, 256
  // MiB).
  absl::StatusOr<std::vector<v1::Graph>> ListGraphs();
  // Blocks until the graph is READY and returns it; FAILED is an error with the graph's own code and message.
  absl::StatusOr<v1::Graph> WatchGraph(const std::string& name, const std::function<void(const v1::Graph&)>& on_change);
  // Measures the graph's kernels again, forces one or resets. Unless `no_wait` is set, it takes as long as the
  // request's budgets. Timeout: upload_timeout.
  absl::StatusOr<v1::TuneGraphResponse> TuneGraph(const v1::TuneGraphRequest& request);
  // The tuning records of the graph.
  absl::StatusOr<v1::GetTuningResponse> GetTuning(const std::string& name);
  // What the status page draws of the graph. `tiles`: on each side of the adjacency, up to 256; 0: 64. The counts are
  // complete and not negative.
  absl::StatusOr<v1::GraphPicture> GetGraphPicture(const std::string& name, int32_t tiles = 0);
  // Its decisions as text, for TuneGraphRequest::import_text on a server with the same kind of device.
  absl::StatusOr<std::string> ExportTuning(const std::string& name);
  // `if_version` 0: any version.
  absl::Status DeleteGraph(const std::string& name, int64_t if_version = 0);

  // Of nodes, or (EDGES) of edges.
  absl::StatusOr<std::vector<v1::FeatureSet>> ListFeatures(const std::string& graph,
                                                           v1::FeatureKind kind = v1::FEATURE_KIND_NODES);
  // `if_version` 0: any version.
  absl::Status DeleteFeatures(const std::string& graph, const std::string& name,
                              v1::FeatureKind kind = v1::FEATURE_KIND_NODES, int64_t if_version = 0);

  absl::StatusOr<v1::Model> GetModel(const std::string& name);
  absl::StatusOr<std::vector<v1::Model>> ListModels();
  absl::Status DeleteModel(const std::string& name, int64_t if_version = 0);

  absl::StatusOr<v1::ClassifyResponse> Classify(const v1::ClassifyRequest& request);
  absl::StatusOr<v1::EmbedResponse> Embed(const v1::EmbedRequest& request);
  absl::StatusOr<v1::ClassifyGraphsResponse> ClassifyGraphs(const v1::ClassifyGraphsRequest& request);
  // Calls `piece` for each piece, in order; an error from it ends the call and is returned. The pieces have exactly the
  // rows that were asked for. For all nodes that takes `node_count` (Graph.node_count); 0: their number is unchecked.
  absl::Status ClassifyStream(const v1::ClassifyRequest& request,
                              const std::function<absl::Status(const v1::ClassifyResponse&)>& piece,
                              int64_t node_count = 0);
  absl::Status EmbedStream(const v1::EmbedRequest& request,
                           const std::function<absl::Status(const v1::EmbedResponse&)>& piece, int64_t node_count = 0);

  // With `all_edges` the number of links is unchecked.
  absl::StatusOr<v1::PredictLinksResponse> PredictLinks(const v1::PredictLinksRequest& request);
  // As ClassifyStream.
  absl::Status PredictLinksStream(const v1::PredictLinksRequest& request,
                                  const std::function<absl::Status(const v1::PredictLinksResponse&)>& piece);
  absl::StatusOr<v1::TopLinksResponse> TopLinks(const v1::TopLinksRequest& request);
  // As ClassifyStream.
  absl::Status TopLinksStream(const v1::TopLinksRequest& request,
                              const std::function<absl::Status(const v1::TopLinksResponse&)>& piece,
                              int64_t node_count = 0);

  // Opens a stream of queries. `graph`: the graph of all its requests, for proxies that route by it; empty: they may be
  // about several. No timeout unless `timeout` is above zero.
  std::unique_ptr<QueryStream> OpenQueryStream(v1::AnswerOrder order, const std::string& graph = {},
                                               std::chrono::milliseconds timeout = std::chrono::milliseconds(0));

  absl::StatusOr<v1::Capabilities> GetCapabilities();
  absl::StatusOr<v1::ExplainResponse> Explain(const v1::ExplainRequest& request);
  // grpc.health.v1: "SERVING", "NOT_SERVING", "UNKNOWN" or "SERVICE_UNKNOWN". `service` is "liveness", "readiness" or
  // the name of a service; empty: the whole server.
  absl::StatusOr<std::string> CheckHealth(const std::string& service);

 private:
  struct Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace vicinal::client

#endif  // VICINAL_CLIENT_CPP_CLIENT_H_
