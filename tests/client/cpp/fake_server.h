// SPDX-License-Identifier: Apache-2.0
// A server for the client's tests: real gRPC on a port of its own, uploads kept by the rules of the API (offsets,
// CRC-32C, idempotent finish), faults on command. It computes nothing: answers of inference are made of the node ids,
// so that a test knows them.
#ifndef VICINAL_TESTS_CLIENT_CPP_FAKE_SERVER_H_
#define VICINAL_TESTS_CLIENT_CPP_FAKE_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "vicinal/v1/graph.grpc.pb.h"
#include "vicinal/v1/inference.grpc.pb.h"
#include "vicinal/v1/model.grpc.pb.h"
#include "vicinal/v1/server.grpc.pb.h"

namespace vicinal::client {

// A status with google.rpc details in its trailer, as the server makes them.
grpc::Status StatusWithDetails(grpc::StatusCode code, const std::string& message, const std::string& reason,
                               const std::map<std::string, std::string>& metadata);

// Faults, each used up when it strikes.
struct Faults {
  int break_after_chunks = -1;  // the stream ends with `break_code` after so many chunks of it were kept
  int breaks = 0;               // how many streams are broken so
  grpc::StatusCode break_code = grpc::StatusCode::UNAVAILABLE;
  std::string break_reason;          // in the details; empty: there are none, as where gRPC itself breaks a call off
  bool silent = false;               // GetUpload answers DEADLINE_EXCEEDED, as where the client's time is up
  bool damage_chunk = false;         // one chunk is taken for damaged: ABORTED with its offset
  bool lose_finish = false;          // finish is carried out, its answer is UNAVAILABLE
  bool abort_version = false;        // ABORTED because of if_version, without an offset
  bool fail_preparation = false;     // the graph ends FAILED
  std::function<void()> on_prepare;  // called before a graph is made or replaced; may be empty
  bool fail_replace = false;         // the graph keeps its version and READY, with the error beside it
  int busy_calls = 0;                // so many calls of GetGraph answer UNAVAILABLE
  std::string warning;               // of GetCapabilities; empty: none
  bool durable_state = false;        // the server says that it has a state directory
  bool disk_full = false;            // a finish that waits for DURABLE is RESOURCE_EXHAUSTED
  bool lose_wait = false;            // one that waits for DURABLE is UNAVAILABLE
};

// What was seen.
struct Seen {
  std::vector<std::string> first_messages;              // "spec" or "resume" of each upload stream
  std::vector<std::pair<std::string, int64_t>> chunks;  // tensor and offset of each chunk kept, over all streams
  int64_t largest_chunk = 0;
  int finishes = 0;
  std::vector<v1::WaitFor> waits;           // of each finish
  int prepared = 0;                         // how often a graph was really made
  std::vector<std::string> graph_metadata;  // `vicinal-graph` of each call, "-" when absent
  std::string authorization;
  v1::ClassifyRequest classify;
  v1::ClassifyGraphsRequest classify_graphs;
  v1::UploadGraphSpec graph_spec;
  v1::UploadFeaturesSpec features_spec;
  v1::UploadModelSpec model_spec;
  v1::TuneGraphRequest tune;
};

class FakeServer {
 public:
  FakeServer();
  ~FakeServer();
  // "127.0.0.1:PORT"
  const std::string& target() const;
  Faults& faults();
  // What grpc.health.v1 answers about `service`; "" is SERVING from the start, others are unknown.
  void SetServing(const std::string& service, bool serving);
  const Seen& seen() const;
  // Bytes of a tensor of the last upload.
  std::string Uploaded(const std::string& tensor) const;
  int64_t max_chunk_bytes() const { return 64; }

 private:
  struct Services;
  std::unique_ptr<Services> services_;
  std::unique_ptr<grpc::Server> server_;
  std::string target_;
};

}  // namespace vicinal::client

#endif  // VICINAL_TESTS_CLIENT_CPP_FAKE_SERVER_H_
