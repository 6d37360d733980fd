// SPDX-License-Identifier: Apache-2.0
// Every command against a server that lies, over a real socket: strings that would steer a terminal in every field,
// numbers out of every range, rows, pages and messages without end. What a command prints is judged by a scan of its
// own, which shares no code with the escaping.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "client/cpp/cli/commands.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/npy.h"
#include "proto/wire/tensors.h"
#include "tests/client/cpp/fake_server.h"
#include "tests/client/cpp/hostile_server.h"
#include "tests/support/temporary_directory.h"
#include "vicinal/v1/graph.pb.h"
#include "vicinal/v1/inference.pb.h"
#include "vicinal/v1/model.pb.h"
#include "vicinal/v1/server.pb.h"

namespace vicinal::client::cli {
namespace {

using ::testing::HasSubstr;

// ESC, BEL, CR, DEL, C1, bidirectional, a zero-width space, a line separator, and a line of its own.
constexpr char kEvil[] =
    "\x1b]0;owned\x07\r\x7f\u009b31m\u202egnp\u2066\u200b\u2028\n"
    "INJECTED line\nvicinal: done";

// The first thing in `text` that must not reach a terminal.
std::string Dangerous(const std::string& text) {
  static const std::regex pattern(
      "[\\x01-\\x09\\x0b-\\x1f\\x7f]|\xc2[\\x80-\\x9f]|\xd8\x9c|\xe2\x80[\\x8b-\\x8f\\xa8-\\xae]|\xe2\x81[\\xa0-\\xaf]|"
      "\xef\xbb\xbf|(^|\n)(INJECTED|vicinal: done)");
  std::smatch match;
  if (!std::regex_search(text, match, pattern)) return "";
  return "at byte " + std::to_string(match.position()) + " of: " + text;
}

template <class Message>
Message Filled(double number) {
  Message message;
  FillAll(kEvil, number, &message);
  return message;
}

v1::ClassifyResponse Rows(int64_t first, int64_t rows, int64_t k = 1) {
  v1::ClassifyResponse piece;
  FillAll(kEvil, 1, piece.mutable_served_by());
  piece.set_first_row(first);
  const std::vector<int32_t> classes(static_cast<size_t>(rows * k), 1);
  const std::vector<float> scores(classes.size(), 0.5F);
  *piece.mutable_classes() = wire::MakeTensor(classes.data(), {rows, k});
  *piece.mutable_scores() = wire::MakeTensor(scores.data(), {rows, k});
  return piece;
}

v1::EmbedResponse Embedded(int64_t first, int64_t rows, int64_t width = 2) {
  v1::EmbedResponse piece;
  FillAll(kEvil, 1, piece.mutable_served_by());
  piece.set_first_row(first);
  const std::vector<float> values(static_cast<size_t>(rows * width), 0.5F);
  *piece.mutable_embeddings() = wire::MakeTensor(values.data(), {rows, width});
  return piece;
}

v1::PredictLinksResponse Links(int64_t first, int64_t rows, bool ends) {
  v1::PredictLinksResponse piece;
  FillAll(kEvil, 1, piece.mutable_served_by());
  piece.set_first_row(first);
  const std::vector<float> scores(static_cast<size_t>(rows), 0.5F);
  *piece.mutable_scores() = wire::MakeTensor(scores.data(), {rows, 1});
  const std::vector<int64_t> links(static_cast<size_t>(2 * rows), int64_t{1} << 40);
  if (ends) *piece.mutable_links() = wire::MakeTensor(links.data(), {rows, 2});
  return piece;
}

v1::TopLinksResponse Partners(int64_t rows, int64_t k) {
  v1::TopLinksResponse reply;
  FillAll(kEvil, 1, reply.mutable_served_by());
  const std::vector<float> scores(static_cast<size_t>(rows * k), 0.5F);
  const std::vector<int64_t> partners(scores.size(), int64_t{1} << 40);
  *reply.mutable_scores() = wire::MakeTensor(scores.data(), {rows, k});
  *reply.mutable_partners() = wire::MakeTensor(partners.data(), {rows, k});
  return reply;
}

v1::ClassifyGraphsResponse Graphs(int64_t rows) {
  const v1::ClassifyResponse piece = Rows(0, rows);
  v1::ClassifyGraphsResponse reply;
  *reply.mutable_served_by() = piece.served_by();
  *reply.mutable_classes() = piece.classes();
  *reply.mutable_scores() = piece.scores();
  return reply;
}

v1::Graph GraphOf(double number, v1::Graph::State state) {
  auto graph = Filled<v1::Graph>(number);
  graph.set_state(state);
  graph.set_node_count(10);
  graph.set_error_code(0);
  return graph;
}

v1::GraphPicture Picture(double number) {
  auto picture = Filled<v1::GraphPicture>(number);
  picture.set_tiles(1);
  picture.set_row_stride(1);
  for (auto* const counts : {picture.mutable_before(), picture.mutable_after()}) {
    counts->Clear();
    counts->Add(1);
  }
  for (int64_t& count : *picture.mutable_degree_counts()) count = 1;
  return picture;
}

template <class Response>
Response Page(double number) {
  auto page = Filled<Response>(number);
  page.clear_next_page_token();
  return page;
}

// Well-formed enough that every command prints all that it prints.
HostileReply Evil(const std::string& path, double number) {
  const std::string method = path.substr(path.rfind('/') + 1);
  const v1::Graph ready = GraphOf(number, v1::Graph::STATE_READY);
  if (method == "GetGraph" || method == "WatchGraph") return Always(ready);
  if (method == "UploadGraph") return Always(Filled<v1::UploadGraphResponse>(number));
  if (method == "UploadModel") return Always(Filled<v1::UploadModelResponse>(number));
  if (method == "UploadFeatures") return Always(Filled<v1::UploadFeaturesResponse>(number));
  if (method == "GetUpload") return Always(Filled<v1::Upload>(number));
  if (method == "ListGraphs") return Always(Page<v1::ListGraphsResponse>(number));
  if (method == "ListModels") return Always(Page<v1::ListModelsResponse>(number));
  if (method == "ListFeatures") return Always(Filled<v1::ListFeaturesResponse>(number));
  if (method == "GetModel") return Always(Filled<v1::Model>(number));
  if (method == "TuneGraph") return Always(Filled<v1::TuneGraphResponse>(number));
  if (method == "GetTuning") return Always(Filled<v1::GetTuningResponse>(number));
  if (method == "GetGraphPicture") return Always(Picture(number));
  if (method == "GetCapabilities") return Always(Filled<v1::Capabilities>(number));
  if (method == "Explain") return Always(Filled<v1::ExplainResponse>(number));
  if (method == "Classify") return Always(Rows(0, 1));
  if (method == "ClassifyStream") return Always(Rows(0, 10));
  if (method == "Embed") return Always(Embedded(0, 1));
  if (method == "EmbedStream") return Always(Embedded(0, 10));
  if (method == "PredictLinks") return Always(Links(0, 1, false));
  if (method == "PredictLinksStream") return Always(Links(0, 10, true));
  if (method == "TopLinks") return Always(Partners(1, 2));
  if (method == "TopLinksStream") return Always(Partners(10, 2));
  if (method == "ClassifyGraphs") return Always(Graphs(2));
  return Always(v1::DeleteGraphResponse());
}

// Every command, once in each way that it prints; a flag of its own where a command prints no string of the server.
struct Line {
  const char* words;
  bool prints = true;
};
const std::vector<Line>& Lines() {
  static const auto* const lines =
      new std::vector<Line>{{"graph upload e.txt --name g"},
                            {"graph upload e.txt --name g --replace --drop_features"},
                            {"graph list"},
                            {"graph get g"},
                            {"graph delete g", false},
                            {"graph plot g --output g.svg"},
                            {"graph explain g"},
                            {"graph explain g --model m"},
                            {"graph explain g --model m --verbose"},
                            {"graph tune g"},
                            {"graph tune g --show --verbose"},
                            {"graph tune g --import imported"},
                            {"features upload x.npy --graph g --name f"},
                            {"features list --graph g"},
                            {"features delete f --graph g", false},
                            {"model upload m.json --weights w --name m"},
                            {"model list"},
                            {"model get m"},
                            {"model delete m", false},
                            {"classify --graph g --model m"},
                            {"classify --graph g --model m --nodes 1 --ids none"},
                            {"embed --graph g --model m"},
                            {"embed --graph g --model m --nodes 1 --ids none"},
                            {"predict-links --graph g --model m --sources 1 --targets 0 --ids none"},
                            {"predict-links --graph g --model m --all_edges"},
                            {"top-links --graph g --model m --nodes 1 --ids none --k 2"},
                            {"top-links --graph g --model m --ids none --k 2"},
                            {"classify-graphs b.npz --model m"},
                            {"sync s.yaml --prune"},
                            {"sync s.yaml --prune --dry_run"},
                            {"status"},
                            {"status --all"}};
  return *lines;
}

class HostileTest : public ::testing::Test {
 protected:
  HostileTest() {
    std::filesystem::current_path(folder_.path());
    EXPECT_TRUE(WriteFile("e.txt", "0 1\n").ok());
    EXPECT_TRUE(WriteFile("m.json", "{}").ok());
    EXPECT_TRUE(WriteFile("w", "weights").ok());
    EXPECT_TRUE(
        WriteFile("s.yaml", "graphs: {g: {file: e.txt}}\nmodels: {m: {architecture: m.json, weights: w}}\n").ok());
    EXPECT_TRUE(WriteFile("imported", "{}").ok());
    const std::vector<float> x(10, 1.0F);
    EXPECT_TRUE(WriteNpy("x.npy", MakeArray(x, {10, 1})).ok());
    const std::vector<int64_t> edges = {1, 1}, graphs = {0, 1};
    EXPECT_TRUE(WriteNpz("b.npz", {{"edge_index", MakeArray(edges, {2, 1})},
                                   {"graph_id", MakeArray(graphs, {2})},
                                   {"x", MakeArray(std::vector<float>{1, 2}, {2, 1})}})
                    .ok());
  }
  ~HostileTest() override { std::filesystem::current_path("/"); }

  int Vicinal(const std::string& line) {
    std::vector<std::string> words;
    std::istringstream stream(line);
    for (std::string word; stream >> word;) words.push_back(word);
    words.insert(words.end(), {"--server", server_.target()});
    out_.str("");
    err_.str("");
    return cli::Run(words, out_, err_, false, [](std::chrono::milliseconds) {});
  }
  void Answer(const std::string& method, const HostileReply& reply) {
    server_.set_answer(
        [=](const std::string& path) { return path.substr(path.rfind('/') + 1) == method ? reply : Evil(path, 1); });
  }
  void ExpectRefused(const std::string& line, const std::string& why) {
    EXPECT_EQ(Vicinal(line), kExitRefused) << line << '\n' << out() << err();
    EXPECT_THAT(err(), HasSubstr(why)) << line;
    EXPECT_EQ(Dangerous(out() + err()), "");
  }
  std::string out() const { return out_.str(); }
  std::string err() const { return err_.str(); }

  const TemporaryDirectory folder_;
  HostileServer server_;
  std::ostringstream out_, err_;
};

TEST_F(HostileTest, NoStringOfAnyCommandReachesTheTerminalRaw) {
  const double kNumbers[] = {1, 1e300, -1e300, 0, std::numeric_limits<double>::quiet_NaN()};
  for (const double number : kNumbers) {
    server_.set_answer([=](const std::string& path) { return Evil(path, number); });
    for (const Line& line : Lines()) {
      const int code = Vicinal(line.words);
      EXPECT_EQ(Dangerous(out()), "") << line.words;
      EXPECT_EQ(Dangerous(err()), "") << line.words;
      if (number != 1) continue;  // a count may be refused
      EXPECT_EQ(code, kExitOk) << line.words << '\n' << err();
      if (line.prints) {
        EXPECT_THAT(out(), HasSubstr("\\x1b]0;owned\\x07\\r\\x7f\\u009b31m\\u202e")) << line.words;
      }
    }
  }
}

TEST_F(HostileTest, JsonHasTheStringsAsSentButEscaped) {
  server_.set_answer([](const std::string& path) { return Evil(path, 1); });
  const std::string escaped =
      "\\u001b]0;owned\\u0007\\r\\u007f\\u009b31m\\u202egnp\\u2066\\u200b\\u2028\\nINJECTED line\\nvicinal: done";
  for (const Line& line : Lines()) {
    EXPECT_EQ(Vicinal(std::string(line.words) + " --json"), kExitOk) << line.words << '\n' << err();
    EXPECT_EQ(Dangerous(out() + err()), "") << line.words;
    const nlohmann::json json = nlohmann::json::parse(out(), nullptr, false);
    ASSERT_FALSE(json.is_discarded()) << line.words << ": " << out();
    if (!line.prints) continue;
    EXPECT_THAT(out(), HasSubstr(escaped)) << line.words;
    EXPECT_THAT(json.dump(-1, ' ', false), HasSubstr(nlohmann::json(kEvil).dump())) << line.words;
  }
}

TEST_F(HostileTest, ErrorsOfEveryCommand) {
  grpc::Status status = StatusWithDetails(grpc::StatusCode::INVALID_ARGUMENT, kEvil, kEvil, {{kEvil, kEvil}});
  for (const int code : {3, 4, 8, 15}) {
    const grpc::Status evil(static_cast<grpc::StatusCode>(code), kEvil, status.error_details());
    server_.set_answer([=](const std::string&) { return HostileReply{{}, 0, evil}; });
    for (const Line& line : Lines()) {
      for (const char* json : {"", " --json"}) {
        EXPECT_NE(Vicinal(std::string(line.words) + json), kExitOk) << line.words;
        EXPECT_EQ(Dangerous(out() + err()), "") << line.words << json;
        EXPECT_THAT(err(), HasSubstr("owned")) << line.words;
      }
    }
  }
}

TEST_F(HostileTest, LinksAreThoseThatWereAskedFor) {
  const std::string pairs = "predict-links --graph g --model m --sources 1 --targets 0 --ids none";
  Answer("PredictLinks", Always(Links(0, 2, false)));
  ExpectRefused(pairs, "more than the 1 rows");
  Answer("PredictLinks", Always(Links(0, 1, true)));
  ExpectRefused(pairs, "links, which were not asked for");
  Answer("PredictLinksStream", Always(Links(0, 3, false)));
  ExpectRefused("predict-links --graph g --model m --all_edges", "contains no links");
  Answer("PredictLinksStream", Always(Links(5, 3, true)));
  ExpectRefused("predict-links --graph g --model m --all_edges", "begins at row 5");
  const std::string top = "top-links --graph g --model m --nodes 1 --ids none --k 2";
  Answer("TopLinks", Always(Partners(1, 3)));
  ExpectRefused(top, "3 partners per node");
  Answer("TopLinks", Always(Partners(2, 2)));
  ExpectRefused(top, "more than the 1 rows");
  v1::TopLinksResponse uneven = Partners(1, 2);
  *uneven.mutable_scores() = Partners(1, 1).scores();
  Answer("TopLinks", Always(uneven));
  ExpectRefused(top, "differ in shape");
  const std::string every = "top-links --graph g --model m --ids none --k 2";
  Answer("TopLinksStream", Always(Partners(2, 2)));
  ExpectRefused(every, "it has 2 rows, 10 were asked for");
  Answer("TopLinksStream", Always(Partners(11, 2)));
  ExpectRefused(every, "more than the 10 rows");
  v1::TopLinksResponse late = Partners(2, 2);
  late.set_first_row(1);
  Answer("TopLinksStream", Always(late));
  ExpectRefused(every, "begins at row 1");
}

TEST_F(HostileTest, ABadPieceAmidGoodOnesOfPartnersIsRefused) {
  // Five pieces of two rows, of which the third is `third`.
  const auto refuse = [&](v1::TopLinksResponse third, int64_t first_row, const std::string& why) {
    third.set_first_row(first_row);
    const auto piece = [third](int64_t i) {
      if (i == 2) return third.SerializeAsString();
      v1::TopLinksResponse good = Partners(2, 2);
      good.set_first_row(2 * i);
      return good.SerializeAsString();
    };
    Answer("TopLinksStream", HostileReply{piece, 5, grpc::Status::OK});
    const std::string line = "top-links --graph g --model m --ids none --k 2";
    if (!why.empty()) return ExpectRefused(line, why);
    EXPECT_EQ(Vicinal(line), kExitOk) << err();
  };
  refuse(Partners(2, 2), 4, "");
  refuse(Partners(2, 2), 5, "begins at row 5");
  refuse(Partners(2, 2), 2, "begins at row 2");
  refuse(Partners(2, 3), 4, "3 partners per node");
  refuse(Partners(0, 2), 4, "a piece has no rows");
  refuse(Partners(7, 2), 4, "more than the 10 rows");
  v1::TopLinksResponse uneven = Partners(2, 2);
  *uneven.mutable_scores() = Partners(2, 1).scores();
  refuse(uneven, 4, "differ in shape");
}

TEST_F(HostileTest, APictureIsCheckedBeforeItIsDrawn) {
  const auto spoilt = [&](const std::function<void(v1::GraphPicture*)>& spoil) {
    v1::GraphPicture picture = Picture(1);
    spoil(&picture);
    Answer("GetGraphPicture", Always(picture));
  };
  const std::string line = "graph plot g --output g.svg";
  for (const int32_t tiles : {-1, 257, std::numeric_limits<int32_t>::max()}) {
    spoilt([=](v1::GraphPicture* picture) { picture->set_tiles(tiles); });
    ExpectRefused(line, "tiles on each side");
  }
  spoilt([](v1::GraphPicture* picture) { picture->set_tiles(2); });
  ExpectRefused(line, "not as many as its tiles");
  spoilt([](v1::GraphPicture* picture) { picture->clear_after(); });
  ExpectRefused(line, "not as many as its tiles");
  spoilt([](v1::GraphPicture* picture) { picture->set_before(0, -1); });
  ExpectRefused(line, "a count below 0");
  spoilt([](v1::GraphPicture* picture) {
    while (picture->degree_counts_size() < 65) picture->add_degree_counts(1);
  });
  ExpectRefused(line, "more than 64 digits");
  spoilt([](v1::GraphPicture* picture) { picture->set_row_stride(0); });
  ExpectRefused(line, "a stride below 1");
  EXPECT_FALSE(ReadFile("g.svg").ok());
  spoilt([](v1::GraphPicture* picture) { picture->set_order("<script>&</text>"); });
  ASSERT_EQ(Vicinal(line), kExitOk) << err();
  EXPECT_THAT(*ReadFile("g.svg"), Not(HasSubstr("script>")));
}

TEST_F(HostileTest, ExportedDecisionsAreEscaped) {
  server_.set_answer([](const std::string& path) { return Evil(path, 1); });
  ASSERT_EQ(Vicinal("graph tune g --export -"), kExitOk) << err();
  // A JSON document keeps its line breaks, and nothing else that steers a terminal.
  const std::string escaped = "\\u001b]0;owned\\u0007";
  EXPECT_THAT(out(), HasSubstr(escaped));
  EXPECT_EQ(out().find('\x1b'), std::string::npos);
  ASSERT_EQ(Vicinal("graph tune g --export exported"), kExitOk) << err();
  EXPECT_THAT(ReadFile("exported").value(), HasSubstr(escaped));
  EXPECT_EQ(Dangerous(out() + err()), "");
}

// Load sends by itself, not through the client of the other commands.
TEST_F(HostileTest, LoadShowsWhatItsCallsMetEscaped) {
  const grpc::Status details = StatusWithDetails(grpc::StatusCode::INVALID_ARGUMENT, kEvil, kEvil, {{kEvil, kEvil}});
  const grpc::Status evil(grpc::StatusCode::INVALID_ARGUMENT, kEvil, details.error_details());
  const std::string line =
      "load --graph g --model m --nodes 1 --calls 2 --duration 60 --warmup 0 --concurrency 1 --mix classify=1,embed=1";
  for (const char* json : {"", " --json"}) {
    server_.set_answer([](const std::string& path) { return Evil(path, 1); });
    EXPECT_EQ(Vicinal(line + json), kExitOk) << err();
    EXPECT_EQ(Dangerous(out() + err()), "");
    server_.set_answer([=](const std::string& path) {
      const bool call = path.ends_with("/Classify") || path.ends_with("/Embed");
      return call ? HostileReply{{}, 0, evil} : Evil(path, 1);
    });
    EXPECT_EQ(Vicinal(line + json), kExitRefused) << err();
    EXPECT_EQ(Dangerous(out() + err()), "");
    EXPECT_THAT(out(), HasSubstr("owned"));
    EXPECT_THAT(err(), HasSubstr("owned"));
  }
}

// Nine calls of ten end with the second error by name; its text is longer than a line and comes whole.
TEST_F(HostileTest, LoadNamesTheMostFrequentFailureAndShowsTextsWhole) {
  const grpc::Status rare(grpc::StatusCode::ABORTED, "rare");
  const std::string advice = "and this is what to do about it";
  const grpc::Status frequent(grpc::StatusCode::UNAVAILABLE,
                              "frequent, and as long as messages are that say what, where and how: the deadline would "
                              "pass first, because about 12.3 ms of work come before this request; retry later, " +
                                  advice);
  server_.set_answer([=](const std::string& path) {
    if (path.ends_with("/Classify")) return HostileReply{{}, 0, frequent};
    return path.ends_with("/Embed") ? HostileReply{{}, 0, rare} : Evil(path, 1);
  });
  const std::string line =
      "load --graph g --model m --nodes 1 --calls 60 --duration 60 --warmup 0 --concurrency 1 --mix classify=9,embed=1";
  EXPECT_EQ(Vicinal(line), kExitUnavailable) << err();
  EXPECT_THAT(err(), HasSubstr("failed with UNAVAILABLE: frequent"));
  EXPECT_LT(out().find("UNAVAILABLE"), out().find("ABORTED"));
  EXPECT_LT(out().rfind("UNAVAILABLE: frequent"), out().rfind("ABORTED: rare"));
  std::string words = out();
  std::replace(words.begin(), words.end(), '\n', ' ');
  words.erase(std::unique(words.begin(), words.end(), [](char a, char b) { return a == ' ' && b == ' '; }),
              words.end());
  EXPECT_THAT(words, HasSubstr(frequent.error_message()));
}

TEST_F(HostileTest, AFailedGraphIsAnErrorWhateverItsCode) {
  for (const int code : {0, -1, 3, 99}) {
    v1::Graph graph = GraphOf(1, v1::Graph::STATE_FAILED);
    graph.set_error_code(code);
    Answer("WatchGraph", Always(graph));
    EXPECT_NE(Vicinal("graph upload e.txt --name g"), kExitOk) << code;
    EXPECT_THAT(err(), HasSubstr("could not be prepared"));
    EXPECT_EQ(Dangerous(out() + err()), "");
  }
}

TEST_F(HostileTest, TheMapOfIdsKeepsItsLines) {
  ASSERT_TRUE(WriteFile("named.txt", "a b\n").ok());
  server_.set_answer([](const std::string& path) { return Evil(path, 1); });
  for (const char* json : {"", " --json"}) {
    ASSERT_EQ(Vicinal(std::string("graph upload named.txt --name g") + json), kExitOk) << err();
    EXPECT_EQ(Dangerous(ReadFile("g.ids.txt").value()), "");
  }
}

constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();

TEST_F(HostileTest, RowsWithoutEnd) {
  std::atomic<int64_t> sent{0};
  const auto rows = [&](int64_t i) {
    ++sent;
    return Rows(i * 1000, 1000).SerializeAsString();
  };
  Answer("ClassifyStream", {rows, kEndless, {}});
  ExpectRefused("classify --graph g --model m --ids none", "more than the 10 rows that were asked for");
  EXPECT_LT(sent, 10'000) << "the client cancels";
  Answer("ClassifyStream", {[](int64_t i) { return Rows(i, 1).SerializeAsString(); }, kEndless, {}});
  ExpectRefused("classify --graph g --model m --ids none", "more than the 10 rows that were asked for");
  Answer("EmbedStream", {[](int64_t i) { return Embedded(i, 1).SerializeAsString(); }, kEndless, {}});
  ExpectRefused("embed --graph g --model m --ids none", "more than the 10 rows that were asked for");
  Answer("ClassifyStream", Always(Rows(0, 0), kEndless));
  ExpectRefused("classify --graph g --model m --ids none", "a piece has no rows");
  // A graph that is said to be as large as the answer: then the answer's size counts.
  server_.set_answer([](const std::string& path) -> HostileReply {
    v1::Graph graph = GraphOf(1, v1::Graph::STATE_READY);
    graph.set_node_count(kEndless);
    if (path.ends_with("GetGraph")) return Always(graph);
    return {[](int64_t i) { return Rows(i * 1000, 1000).SerializeAsString(); }, kEndless, {}};
  });
  EXPECT_EQ(Vicinal("classify --graph g --model m --ids none --max_answer_bytes 100000"), kExitUsage);
  EXPECT_THAT(err(), HasSubstr("the answer has more than 100000 bytes after 13000 rows"));
}

TEST_F(HostileTest, RowsThatWereNotAskedFor) {
  const std::string some = "classify --graph g --model m --ids none --nodes 1,2",
                    all = "classify --graph g --model m --ids none";
  const auto expect = [&](const std::string& line, const v1::ClassifyResponse& reply, const std::string& why) {
    server_.set_answer([=](const std::string& path) {
      return path.find("/Classify") == std::string::npos ? Evil(path, 1) : Always(reply);
    });
    ExpectRefused(line, why);
  };
  expect(some, Rows(0, 1), "it has 1 rows, 2 were asked for");
  expect(some, Rows(0, 3), "more than the 2 rows");
  expect(all, Rows(0, 9), "it has 9 rows, 10 were asked for");
  expect(all, Rows(-1, 10), "a piece begins at row -1, not at 0");
  expect(some, Rows(0, 2, 3), "it has 3 classes per row, 1 were asked for");
  expect(some + " --top_k 5", Rows(0, 2, 3), "it has 3 classes per row, 5 were asked for");
  expect(some + " --logits --out l.npy", Rows(0, 2), "it contains no logits");
  v1::ClassifyResponse reply = Rows(0, 2);
  *reply.mutable_logits() = reply.scores();
  expect(some, reply, "it contains logits, which were not asked for");
  reply = Rows(0, 2);
  reply.mutable_classes()->set_shape(0, int64_t{1} << 62);
  expect(some, reply, "classes: ");
  reply = Rows(0, 2);
  reply.mutable_scores()->set_shape(0, -2);
  expect(some, reply, "scores: negative extent");
  reply = Rows(0, 2);
  reply.mutable_classes()->set_dtype(v1::DATA_TYPE_FLOAT32);
  expect(some, reply, "classes has an unexpected type");
  for (int i = 0; i < 100'000; ++i) reply.mutable_scores()->add_shape(1);
  reply.mutable_classes()->set_dtype(v1::DATA_TYPE_INT32);
  expect(some, reply, "scores is not a matrix");
  EXPECT_LT(err().size(), 1000u);
  expect(some, v1::ClassifyResponse(), "it contains no classes");
  Answer("Embed", Always(Embedded(0, 3)));
  ExpectRefused("embed --graph g --model m --ids none --nodes 1,2", "more than the 2 rows");
  Answer("ClassifyGraphs", Always(Graphs(3)));
  ExpectRefused("classify-graphs b.npz --model m", "more than the 2 rows");
}

TEST_F(HostileTest, PagesWithoutEnd) {
  std::atomic<int64_t> pages{0};
  const auto serve = [&](int entries, bool fresh) {
    server_.set_answer([&pages, entries, fresh](const std::string& path) -> HostileReply {
      const int64_t page = ++pages;
      const std::string token = fresh ? std::to_string(page) : "again";
      if (path.ends_with("ListModels")) {
        v1::ListModelsResponse reply;
        for (int i = 0; i < entries; ++i) reply.add_models();
        reply.set_next_page_token(token);
        return Always(reply);
      }
      v1::ListGraphsResponse reply;
      for (int i = 0; i < entries; ++i) reply.add_graphs();
      reply.set_next_page_token(token);
      return Always(reply);
    });
  };
  for (const char* line : {"graph list", "model list", "graph list --json", "model list --json"}) {
    serve(1, /*fresh=*/false);
    ExpectRefused(line, "a page token repeats");
    serve(0, /*fresh=*/true);
    ExpectRefused(line, "an empty page is followed by another");
    serve(101, /*fresh=*/true);
    ExpectRefused(line, "a page has 101 entries, at most 100 were asked for");
    EXPECT_LT(pages, 20);
    pages = 0;
  }
  serve(1, /*fresh=*/true);
  ExpectRefused("graph list", "it has more than 10000 pages");
  EXPECT_EQ(pages, 10'000);
}

TEST_F(HostileTest, RepliesThatAreTooLarge) {
  v1::Graph graph = GraphOf(1, v1::Graph::STATE_READY);
  graph.set_error_message(std::string(5 << 20, 'x'));
  for (const char* line : {"graph get g", "features upload x.npy --graph g --name f"}) {
    Answer("GetGraph", Always(graph));
    ExpectRefused(line, "sent a reply that is larger than this client accepts");
  }
  Answer("Embed", Always(Embedded(0, 1, 20 << 20)));
  ExpectRefused("embed --graph g --model m --ids none --nodes 1", "larger than this client accepts");
  Answer("Embed", Always(Embedded(0, 1, 1000)));
  ExpectRefused("embed --graph g --model m --ids none --nodes 1 --max_reply_bytes 1000", "larger than this client");
  EXPECT_EQ(Vicinal("embed --graph g --model m --ids none --nodes 1"), kExitOk) << err();
  EXPECT_EQ(Vicinal("status --max_reply_bytes 0"), kExitUsage);
}

TEST_F(HostileTest, OneLongCellDoesNotWidenEveryRow) {
  v1::ListModelsResponse page;
  for (int i = 0; i < 100; ++i) page.add_models()->set_name("m");
  page.mutable_models(0)->set_name(std::string(1 << 20, 'x'));
  Answer("ListModels", Always(page));
  EXPECT_EQ(Vicinal("model list"), kExitOk) << err();
  EXPECT_LT(out().size(), (1u << 20) + 100'000u);
}

// 80 MiB in 80 KiB. gRPC would unpack it before it looks at its size.
TEST(HostileCompressionTest, CompressedRepliesAreNotUnpacked) {
  HostileServer server(/*compress=*/true);
  const std::string zeros(80 << 20, '\0');
  server.set_answer([&](const std::string&) { return HostileReply{[&](int64_t) { return zeros; }, 1, {}}; });
  std::ostringstream out, err;
  EXPECT_EQ(cli::Run({"graph", "get", "g", "--server", server.target()}, out, err, false, {}), kExitRefused);
  EXPECT_THAT(err.str(), HasSubstr("gzip"));
}

}  // namespace
}  // namespace vicinal::client::cli
