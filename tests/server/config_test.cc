// SPDX-License-Identifier: Apache-2.0
#include "server/config.h"

#include <gtest/gtest.h>

#include <functional>

namespace vicinal::server {
namespace {

TEST(ConfigTest, DefaultsAreSound) { EXPECT_TRUE(CheckConfig(Config()).ok()) << CheckConfig(Config()); }

TEST(ConfigTest, FaultsNameTheirFlag) {
  const std::pair<const char*, std::function<void(Config&)>> cases[] = {
      {"grpc_listen", [](Config& c) { c.grpc_listen = "8500"; }},
      {"grpc_listen", [](Config& c) { c.grpc_listen = ":8500"; }},
      {"grpc_listen", [](Config& c) { c.grpc_listen = "host:99999"; }},
      {"grpc_listen", [](Config& c) { c.grpc_listen = "::1:8500"; }},
      {"metrics_listen", [](Config& c) { c.metrics_listen = "nonsense"; }},
      {"metrics_tls", [](Config& c) { c.metrics_tls = true; }},
      {"status_listen", [](Config& c) { c.status_listen = "nonsense"; }},
      {"status_listen", [](Config& c) { c.status_listen = "0.0.0.0:8503"; }},
      {"advertise_address", [](Config& c) { c.advertise_address = "host"; }},
      {"advertise_address", [](Config& c) { c.advertise_address = "host:0"; }},
      {"threads", [](Config& c) { c.threads = -1; }},
      {"max_chunk_bytes", [](Config& c) { c.limits.max_chunk_bytes = 33 << 20; }},
      {"max_chunk_bytes", [](Config& c) { c.limits.max_message_bytes = 1 << 20, c.limits.max_chunk_bytes = 1 << 20; }},
      {"max_arriving_bytes", [](Config& c) { c.limits.max_arriving_bytes = -1; }},
      {"max_arriving_bytes", [](Config& c) { c.limits.max_arriving_bytes = 4 * c.limits.max_message_bytes - 1; }},
      {"max_answer_bytes", [](Config& c) { c.limits.max_answer_bytes = -1; }},
      {"device_memory_bytes", [](Config& c) { c.limits.device_memory_bytes = -1; }},
      {"max_nodes", [](Config& c) { c.limits.max_nodes = int64_t{1} << 31; }},
      {"upload_ttl", [](Config& c) { c.limits.upload_ttl = std::chrono::milliseconds(0); }},
      {"tuning_budget", [](Config& c) { c.tuning_budget = std::chrono::milliseconds(-1); }},
      {"tuning_budget", [](Config& c) { c.tuning_budget = std::chrono::hours(2); }},
      {"max_tuning_per_graph", [](Config& c) { c.max_tuning_per_graph = std::chrono::milliseconds(-1); }},
      {"drain_timeout", [](Config& c) { c.drain_timeout = std::chrono::milliseconds(-1); }},
      {"drain_timeout", [](Config& c) { c.drain_timeout = std::chrono::milliseconds::max(); }},
      {"drain_delay", [](Config& c) { c.drain_delay = std::chrono::milliseconds(-1); }},
      {"drain_delay", [](Config& c) { c.drain_delay = std::chrono::hours(25); }},
      {"upload_ttl", [](Config& c) { c.limits.upload_ttl = std::chrono::hours(3'000'000); }},
      {"upload_ttl", [](Config& c) { c.limits.upload_ttl = std::chrono::milliseconds::max(); }},
      {"max_connection_age", [](Config& c) { c.max_connection_age = std::chrono::hours(1000); }},
      {"max_connection_age_grace", [](Config& c) { c.max_connection_age_grace = std::chrono::milliseconds::max(); }},
      {"max_connection_age_grace", [](Config& c) { c.max_connection_age_grace = std::chrono::milliseconds(-1); }},
      {"keepalive_time", [](Config& c) { c.keepalive_time = std::chrono::milliseconds::max(); }},
      {"grpc_listen", [](Config& c) { c.credentials.admin_token = "x", c.grpc_listen = "0.0.0.0:1"; }},
      {"infer_token_file", [](Config& c) { c.credentials.infer_token = "x"; }},
      {"infer_token_file", [](Config& c) { c.credentials.infer_token = c.credentials.admin_token = "x"; }},
  };
  for (const auto& [flag, spoil] : cases) {
    Config config;
    spoil(config);
    const Status status = CheckConfig(config);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << flag;
    EXPECT_NE(std::string(status.message()).find(std::string("--") + flag), std::string::npos) << status;
  }
}

// What a flag takes besides its range is told where a value is outside of both.
TEST(ConfigTest, RangesNameWhatMinusOneMeans) {
  const auto message = [](int64_t Limits::*limit, int64_t value) {
    Config config;
    config.limits.*limit = value;
    return std::string(CheckConfig(config).message());
  };
  EXPECT_EQ(message(&Limits::max_answer_bytes, -2),
            "--max_answer_bytes: -2 is neither within 0..1152921504606846976 nor -1, which means a quarter of the "
            "memory budget");
  for (const auto& [flag, limit] : std::initializer_list<std::pair<const char*, int64_t Limits::*>>{
           {"max_message_bytes", &Limits::max_message_bytes},
           {"max_queue_per_client", &Limits::max_queue_per_client},
           {"max_connections", &Limits::max_connections},
           {"max_connections_per_address", &Limits::max_connections_per_address},
           {"max_open_calls", &Limits::max_open_calls},
           {"memory_budget_bytes", &Limits::memory_budget_bytes},
           {"max_answer_bytes", &Limits::max_answer_bytes},
           {"max_reply_bytes_per_client", &Limits::max_reply_bytes_per_client},
           {"max_stream_bytes_per_client", &Limits::max_stream_bytes_per_client},
           {"max_arriving_bytes", &Limits::max_arriving_bytes}}) {
    const std::string text = message(limit, -2);
    EXPECT_EQ(text.find(std::string("--") + flag + ": -2 is neither within "), 0u) << text;
    EXPECT_NE(text.find(" nor -1, which means "), std::string::npos) << text;
  }
  EXPECT_EQ(message(&Limits::max_nodes, 0), "--max_nodes: 0 is outside 1..2147483647");
}

TEST(ConfigTest, ABudgetThatNoUploadFitsInIsRefused) {
  Config config;
  for (const int64_t bytes : {int64_t{1}, (int64_t{1} << 20) - 1}) {
    config.limits.memory_budget_bytes = bytes;
    const std::string text(CheckConfig(config).message());
    EXPECT_NE(text.find("--memory_budget_bytes"), std::string::npos) << text;
    EXPECT_NE(text.find("at least 1048576"), std::string::npos) << text;
  }
  for (const int64_t bytes : {int64_t{0}, int64_t{1} << 20}) {
    config.limits.memory_budget_bytes = bytes;
    EXPECT_TRUE(CheckConfig(config).ok()) << CheckConfig(config);
  }
}

TEST(ConfigTest, TheLongestDurationsAreTaken) {
  Config config;
  config.limits.upload_ttl = std::chrono::hours(240);
  config.max_connection_age = std::chrono::hours(240);
  config.max_connection_age_grace = std::chrono::hours(240);
  config.keepalive_time = std::chrono::hours(24);
  EXPECT_TRUE(CheckConfig(config).ok()) << CheckConfig(config);
  config.limits.upload_ttl += std::chrono::milliseconds(1);
  const Status status = CheckConfig(config);
  EXPECT_NE(status.message().find("--upload_ttl: must be within 1s and 240h"), absl::string_view::npos) << status;
}

TEST(ConfigTest, DefaultsForMessages) {
  struct Case {
    int64_t budget, chunk, message, arriving;  // MiB
  };
  const Case cases[] = {{0, 4, 64, 0},        {1, 4, 8, 32},      {256, 4, 8, 32},
                        {257, 4, 8, 32},      {1024, 4, 32, 128}, {2048, 4, 64, 256},
                        {65536, 4, 64, 8192}, {256, 32, 64, 256}, {256, 1, 8, 32}};
  for (const Case& expected : cases) {
    Config config;
    config.limits.memory_budget_bytes = expected.budget << 20;
    config.limits.max_chunk_bytes = expected.chunk << 20;
    config.limits.max_message_bytes = DefaultMessageBytes(config.limits);
    config.limits.max_arriving_bytes = DefaultArrivingBytes(config.limits);
    EXPECT_TRUE(CheckConfig(config).ok()) << CheckConfig(config);
    EXPECT_EQ(config.limits.max_message_bytes >> 20, expected.message) << expected.budget;
    EXPECT_EQ(config.limits.max_arriving_bytes >> 20, expected.arriving) << expected.budget;
  }
}

TEST(ConfigTest, TokensInPlainText) {
  Config config;
  config.credentials.admin_token = "x";
  for (const char* loopback :
       {"127.0.0.1:0", "localhost:0", "[::1]:0", "127.3.2.1:0", "[::ffff:127.0.0.1]:0", "[0:0:0:0:0:0:0:1]:0"}) {
    config.grpc_listen = loopback;
    EXPECT_TRUE(CheckConfig(config).ok()) << loopback;
  }
  for (const char* other : {"127.0.0.1.nip.io:0", "127.example.com:0", "127.:0", "[::]:0", "[::ffff:10.0.0.1]:0",
                            "[127.0.0.1]:0", "localhost.example.com:0", "128.0.0.1:0", "[::1:0", "10.0.0.1:0"}) {
    config.grpc_listen = other;
    EXPECT_FALSE(CheckConfig(config).ok()) << other;
  }
  config.grpc_listen = "0.0.0.0:0";
  config.allow_plaintext_tokens = true;
  EXPECT_TRUE(CheckConfig(config).ok());
}

TEST(ConfigTest, TuningStrategies) {
  EXPECT_EQ(*ParseTuningStrategy("measured"), TuningStrategy::kMeasured);
  EXPECT_EQ(*ParseTuningStrategy("estimated"), TuningStrategy::kEstimated);
  for (const char* bad : {"", "Measured", "guessed"}) {
    EXPECT_EQ(ParseTuningStrategy(bad).status().code(), StatusCode::kInvalidArgument) << bad;
  }
}

TEST(ConfigTest, UserIds) {
  EXPECT_EQ(*ParseUids(""), std::vector<uid_t>());
  EXPECT_EQ(*ParseUids("0,65532"), (std::vector<uid_t>{0, 65532}));
  for (const char* bad : {"root", "1;2", "-1", "4294967296"}) {
    EXPECT_EQ(ParseUids(bad).status().code(), StatusCode::kInvalidArgument) << bad;
  }
}

TEST(ConfigTest, WhoMayConnectFromTheNetwork) {
  Config config;
  EXPECT_FALSE(IsExposed(config));
  config.grpc_listen = "0.0.0.0:8500";
  EXPECT_TRUE(IsExposed(config));
  config.tls_cert_file = "c", config.tls_key_file = "k";
  EXPECT_TRUE(IsExposed(config));  // encrypted, but open to all
  config.tls_client_ca_file = "a";
  EXPECT_FALSE(IsExposed(config));
  config = Config();
  config.grpc_listen = "";
  EXPECT_EQ(CheckConfig(config).code(), StatusCode::kInvalidArgument);
  config.edge_listen = "/run/edge.sock";
  EXPECT_TRUE(CheckConfig(config).ok());
  EXPECT_FALSE(IsExposed(config));
}

}  // namespace
}  // namespace vicinal::server
