// SPDX-License-Identifier: Apache-2.0
// Words, exit codes, help, models and status, from the command line (run_testing.h).
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <new>
#include <streambuf>
#include <string>

#include "client/cpp/formats/files.h"
#include "tests/client/cpp/cli/run_testing.h"

namespace vicinal::client::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST_F(RunTest, ATimeoutUnderAMillisecondIsStillOne) {
  // Takes connections and never says a word.
  const int mute = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(mute, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(mute, 8), 0);
  ASSERT_EQ(getsockname(mute, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string target = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  EXPECT_EQ(cli::Run({"graph", "list", "--timeout", "0.0001", "--server", target}, out_, err_, false),
            kExitUnavailable);
  EXPECT_THAT(err(), HasSubstr("DEADLINE_EXCEEDED: the server at " + target + " did not answer in time"));
  EXPECT_THAT(err(), HasSubstr("--timeout SECONDS allows more time"));
  ASSERT_TRUE(WriteFile("e.txt", "0 1\n").ok());
  EXPECT_EQ(cli::Run({"graph", "upload", "e.txt", "--name", "g", "--timeout", "0.0001", "--server", target}, out_, err_,
                     false),
            kExitUnavailable)
      << "an upload has no deadline, but does not begin where nothing answers";
  close(mute);
}

// A stream that finds no memory, in place of a file that is larger than memory.
class NoMemory final : public std::streambuf {
 protected:
  int_type overflow(int_type) override { throw std::bad_alloc(); }
  std::streamsize xsputn(const char*, std::streamsize) override { throw std::bad_alloc(); }
};

TEST_F(RunTest, MemoryThatEndsIsSaid) {
  NoMemory buffer;
  std::ostream out(&buffer);
  out.exceptions(std::ios::badbit);  // lets what the buffer throws through
  EXPECT_EQ(cli::Run({"graph", "list", "--server", server_.target()}, out, err_, false), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("not enough memory"));
}

TEST_F(RunTest, UsageErrorsAreTwo) {
  EXPECT_EQ(Vicinal("graph lst"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("did you mean graph list?"));
  EXPECT_EQ(Vicinal("classify --graph g"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("needs --model"));
  EXPECT_THAT(err(), HasSubstr("Try 'vicinal classify --help'"));
  EXPECT_EQ(Vicinal("features list g"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("takes no further argument 'g'; did you mean --graph g?"));
  EXPECT_EQ(Vicinal("features list --graph g h"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("takes no further argument 'h'\n"));
  EXPECT_EQ(Vicinal("classify half --nodes 1"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("takes no further argument 'half'\n"))
      << "the graph and the model are missing: which is it?";
  EXPECT_EQ(Vicinal("classify --model m --nodes 1, 2"), kExitUsage);
  EXPECT_THAT(err(),
              HasSubstr("takes no further argument '2'; write the list of --nodes without spaces, or in quotes\n"));
  EXPECT_EQ(Vicinal("classify --model m --logits yes"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("takes no further argument 'yes'; --logits takes no value\n"));
  EXPECT_EQ(Vicinal("graph upload missing.txt --name g"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("missing.txt: cannot read"));
  EXPECT_EQ(Vicinal("graph delete g --if_version 0"), kExitUsage) << "0 would mean whatever the version";
  EXPECT_THAT(err(), HasSubstr("--if_version must be at least 1, not 0"));
  EXPECT_EQ(Vicinal("graph explain g --output act"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("--output concerns the plan, so it needs --model MODEL"));
  EXPECT_EQ(Vicinal("graph upload missing.txt --name Bad/Name"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("does not match"));
  EXPECT_EQ(Vicinal("status --timeout 0"), kExitUsage);
  EXPECT_TRUE(out().empty());
}

TEST_F(RunTest, UsageErrorsAreJsonWhereJsonWasAskedFor) {
  for (const char* line : {"graph lst --json", "--json classify --graph g", "graph list --no_such_option --json",
                           "status --timeout 0 --json"}) {
    EXPECT_EQ(Vicinal(line), kExitUsage) << line;
    EXPECT_TRUE(out().empty()) << line;
    const auto error = nlohmann::json::parse(err(), nullptr, false);
    ASSERT_TRUE(error.is_object()) << line << ": " << err();
    EXPECT_EQ(error["error"]["code"], "INVALID_ARGUMENT") << line;
    EXPECT_FALSE(error["error"]["message"].get<std::string>().empty()) << line;
  }
}

TEST_F(RunTest, Version) {
  EXPECT_EQ(Vicinal("--version"), kExitOk);
  EXPECT_THAT(out(), MatchesRegex("vicinal [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  EXPECT_EQ(Vicinal("--json --version"), kExitOk);
  EXPECT_THAT(Json()["version"].get<std::string>(), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_EQ(Vicinal("graph list --version"), kExitUsage);  // it is no option of a command
}

TEST_F(RunTest, TheEnvironmentNamesTheServer) {
  const auto list = [this](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"graph", "list", "--timeout", "60"};
    words.insert(words.end(), more.begin(), more.end());
    return cli::Run(words, out_, err_, false);
  };
  setenv("VICINAL_SERVER", server_.target().c_str(), 1);
  EXPECT_EQ(list({}), kExitOk) << err();
  EXPECT_EQ(cli::Run({"status"}, out_, err_, false), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("server " + server_.target() + ", version fake"));
  setenv("VICINAL_SERVER", "127.0.0.1:1", 1);
  EXPECT_EQ(list({"--server", server_.target()}), kExitOk) << "what is said counts more: " << err();
  EXPECT_EQ(list({}), kExitUnavailable);
  EXPECT_THAT(err(), HasSubstr("cannot reach the server at 127.0.0.1:1"));
  setenv("VICINAL_SERVER", "http://127.0.0.1:1/", 1);
  EXPECT_EQ(list({}), kExitUsage);
  EXPECT_THAT(
      err(),
      HasSubstr(
          "vicinal: VICINAL_SERVER 'http://127.0.0.1:1/': this is a URL, not an address: write only 127.0.0.1:1"));
  EXPECT_EQ(list({"--server", "localhost"}), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("vicinal: --server 'localhost': the port is missing"));
  unsetenv("VICINAL_SERVER");
}

TEST_F(RunTest, HelpIsZeroForEveryCommand) {
  EXPECT_EQ(Vicinal("--help"), kExitOk);
  EXPECT_THAT(out(), HasSubstr("Exit codes"));
  for (const Command& command : Commands()) {
    EXPECT_EQ(Vicinal(command.syntax.command + " --help"), kExitOk);
    EXPECT_THAT(out(), HasSubstr("Usage: vicinal " + command.syntax.command));
    EXPECT_THAT(out(), HasSubstr("Exit codes"));
  }
}

TEST_F(RunTest, RefusalsNotFoundAndUnavailable) {
  EXPECT_EQ(Vicinal("graph get nope"), kExitNotFound);
  EXPECT_THAT(err(), HasSubstr("vicinal: NOT_FOUND: graph 'nope' does not exist\n  reason: GRAPH_NOT_FOUND"));
  EXPECT_EQ(Vicinal("graph get nope --json"), kExitNotFound);
  const auto error = nlohmann::json::parse(err(), nullptr, false);
  EXPECT_EQ(error["error"]["code"], "NOT_FOUND");
  EXPECT_EQ(error["error"]["reason"], "GRAPH_NOT_FOUND");
  server_.faults().abort_version = true;
  ASSERT_TRUE(WriteFile("e.txt", "0 1\n").ok());
  EXPECT_EQ(Vicinal("graph upload e.txt --name g --if_version 3"), kExitRefused);
  EXPECT_THAT(err(), HasSubstr("ABORTED"));
  std::ostringstream out, err;
  EXPECT_EQ(cli::Run({"status", "--server", "127.0.0.1:1"}, out, err, false), kExitUnavailable);
  EXPECT_THAT(err.str(), HasSubstr("cannot reach the server at 127.0.0.1:1"));
}

TEST_F(RunTest, ModelsGoWithTheirFiles) {
  ASSERT_TRUE(WriteFile("m.json", "{}").ok());
  ASSERT_TRUE(WriteFile("m.safetensors", "weights").ok());
  ASSERT_TRUE(WriteFile("r.safetensors", "logits").ok());
  ASSERT_EQ(Vicinal("model upload m.json --weights m.safetensors --name m --reference r.safetensors "
                    "--reference_graph cora --tolerance 1e-5"),
            kExitOk)
      << err();
  EXPECT_EQ(server_.Uploaded("weights"), "weights");
  EXPECT_EQ(server_.Uploaded("reference"), "logits");
  EXPECT_EQ(server_.seen().model_spec.architecture_json(), "{}");
  EXPECT_EQ(server_.seen().model_spec.reference().graph(), "cora");
  EXPECT_EQ(server_.seen().model_spec.reference().tolerance(), 1e-5);
  EXPECT_EQ(Vicinal("model upload m.json --weights m.safetensors --name m --tolerance 1"), kExitUsage);
  ASSERT_TRUE(WriteFile("bytes", "\xFF\xFE").ok());
  EXPECT_EQ(Vicinal("model upload bytes --weights m.safetensors --name m"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("bytes: is not UTF-8 text"));
}

TEST_F(RunTest, ALayerNormWithoutAModeIsTold) {
  ASSERT_TRUE(WriteFile("m.safetensors", "weights").ok());
  const auto note = [&](const std::string& architecture, const std::string& rest) {
    EXPECT_TRUE(WriteFile("norm.json", architecture).ok());
    EXPECT_EQ(Vicinal("model upload norm.json --weights m.safetensors --name m --replace" + rest), kExitOk) << err();
    return out();
  };
  const std::string open = R"({"layers": [{"name": "n1", "type": "LayerNorm"}, {"name": "act", "type": "ReLU"},
      {"name": "n2", "type": "LayerNorm", "args": {"mode": "graph"}},
      {"name": "conv", "type": "GINConv", "args": {"nn": [{"type": "Linear"}, {"type": "LayerNorm", "args": {}}]}}]})";
  EXPECT_THAT(note(open, ""), HasSubstr("note: layers 'n1', 'conv.nn[1]' (LayerNorm) without a mode: "));
  note(open, " --json");
  EXPECT_THAT(Json()["notes"][0], HasSubstr("\"mode\": \"node\""));
  EXPECT_THAT(note(open, " --reference m.safetensors"), Not(HasSubstr("note:"))) << "met, so it is settled";
  EXPECT_THAT(note(R"({"class": "GCN", "kwargs": {"norm": "layer_norm"}})", ""), Not(HasSubstr("note:")));
  EXPECT_THAT(note(R"({"layers": [{"name": "n", "type": "LayerNorm", "args": {"mode": "node"}}]})", ""),
              Not(HasSubstr("note:")));
  // What the server alone judges is no concern of the note.
  for (const char* odd : {"[1]", "{", R"({"layers": 3})", R"({"layers": [3, {"type": 1, "args": []}]})"}) {
    EXPECT_THAT(note(odd, ""), Not(HasSubstr("note:"))) << odd;
  }
}

TEST_F(RunTest, StatusForPeopleAndScripts) {
  ASSERT_EQ(Vicinal("status"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("server " + server_.target() + ", version fake"));
  EXPECT_THAT(out(), HasSubstr("no graphs"));
  EXPECT_THAT(out(), Not(HasSubstr("max_chunk_bytes")));
  ASSERT_EQ(Vicinal("status --all"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("max_chunk_bytes"));
  ASSERT_EQ(Vicinal("status --json"), kExitOk) << err();
  EXPECT_EQ(Json()["readiness"], "SERVING");
  EXPECT_EQ(Json()["capabilities"]["limits"][0]["value"], 64);
}

TEST_F(RunTest, HealthIsAnExitCode) {
  EXPECT_EQ(Vicinal("health"), kExitNotFound) << "the fake server does not know readiness yet";
  server_.SetServing("readiness", true);
  server_.SetServing("liveness", true);
  EXPECT_EQ(Vicinal("health"), kExitOk) << err();
  EXPECT_EQ(out(), "readiness is SERVING\n");
  EXPECT_EQ(Vicinal("health --json"), kExitOk) << err();
  EXPECT_EQ(Json(), nlohmann::json({{"readiness", "SERVING"}}));
  server_.SetServing("readiness", false);
  EXPECT_EQ(Vicinal("health"), kExitUnavailable);
  EXPECT_EQ(err(), "vicinal: readiness is NOT_SERVING\n");
  EXPECT_EQ(Vicinal("health --service liveness"), kExitOk) << "draining is not dying";
  EXPECT_EQ(Vicinal("health --server 127.0.0.1:1"), kExitUsage) << "--server twice";
  EXPECT_EQ(cli::Run({"health", "--server", "127.0.0.1:1"}, out_, err_, false), kExitUnavailable);
}

TEST_F(RunTest, StatusShowsTheServersWarnings) {
  ASSERT_EQ(Vicinal("status"), kExitOk) << err();
  EXPECT_THAT(out(), Not(HasSubstr("WARNING")));
  const std::string warning = "open to the network: \x1b[2J";
  server_.faults().warning = warning;
  ASSERT_EQ(Vicinal("status"), kExitOk) << err();
  EXPECT_THAT(out(), HasSubstr("\nWARNING: open to the network: \\x1b[2J\n"));
  ASSERT_EQ(Vicinal("status --json"), kExitOk) << err();
  EXPECT_EQ(Json()["capabilities"]["warnings"][0], warning);
}

TEST_F(RunTest, TokenFile) {
  ASSERT_TRUE(WriteFile("token", "secret\n").ok());
  ASSERT_EQ(Vicinal("graph list --token_file token"), kExitOk) << err();
  EXPECT_EQ(server_.seen().authorization, "Bearer secret");
  ASSERT_TRUE(WriteFile("empty", "\n").ok());
  EXPECT_EQ(Vicinal("graph list --token_file empty"), kExitUsage);
  ASSERT_TRUE(WriteFile("two", "one two\n").ok());
  EXPECT_EQ(Vicinal("graph list --token_file two"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("vicinal: two: the token contains a character that cannot be sent"));
  ASSERT_TRUE(WriteFile("long", std::string(4097, 't') + "\n").ok());
  EXPECT_EQ(Vicinal("graph list --token_file long"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("vicinal: long: the token has 4097 characters; at most 4096 can be sent"));
}

}  // namespace
}  // namespace vicinal::client::cli
