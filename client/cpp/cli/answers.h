// SPDX-License-Identifier: Apache-2.0
// Inference answers: joins the pieces of a stream, prints them, compares them with labels, writes them to files.
#ifndef VICINAL_CLIENT_CPP_CLI_ANSWERS_H_
#define VICINAL_CLIENT_CPP_CLI_ANSWERS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/cli/proto_json.h"
#include "client/cpp/formats/array.h"
#include "vicinal/v1/inference.pb.h"

namespace vicinal::client::cli {

inline constexpr int64_t kDefaultMaxAnswerBytes = int64_t{4} << 30;

// Matrices by name ("classes", "scores", "logits", "probabilities", "embeddings", "edges", "weights", "links",
// "partners"), all with `rows` rows.
struct Answer {
  v1::ServedBy served_by;
  v1::Timing timing;
  int64_t rows = 0;
  // Largest total size of the matrices, in bytes.
  int64_t max_bytes = kDefaultMaxAnswerBytes;
  std::map<std::string, Array> matrices;

  // Appends the rows of a piece. INTERNAL: the piece does not match the previous ones. INVALID_ARGUMENT: over
  // max_bytes.
  absl::Status Add(const v1::ClassifyResponse& piece);
  absl::Status Add(const v1::EmbedResponse& piece);
  absl::Status Add(const v1::ClassifyGraphsResponse& piece);
  absl::Status Add(const v1::PredictLinksResponse& piece);
  absl::Status Add(const v1::TopLinksResponse& piece);
};

// Row r of a matrix, as numbers.
std::vector<double> RowOf(const Array& matrix, int64_t row);

// Maximum number of rows that are printed; further rows are counted.
inline constexpr int64_t kShownRows = 10;

// Prints a table of the first rows: class and probability for each of the top k, or the first values of an embedding.
// `name_of` gives a row's first column, `what` its title ("node", "graph"). `kept`: the file with all rows; if empty,
// the text says how to write one.
void PrintAnswer(const Answer& answer, const std::string& what, const std::function<std::string(int64_t)>& name_of,
                 const std::string& kept, std::ostream& out);

// A sentence about the rows that contain NaN or infinities; empty if there are none. `name_of` as above. `float16`:
// values may have been rounded to float16.
std::string NotFiniteNote(const Answer& answer, const std::string& what,
                          const std::function<std::string(int64_t)>& name_of, bool float16);

// Share of rows whose first class is the label; rows with a label below 0 do not count.
struct Accuracy {
  int64_t right = 0;
  int64_t counted = 0;
};
// `labels` has one entry per row.
Accuracy Compare(const Answer& answer, const std::vector<int64_t>& labels);
// "accuracy 0.7950 (795/1000)"
std::string ToString(const Accuracy& accuracy);

// An error if the path ends neither in .npy nor in .npz, or cannot be written. Call it before the request.
absl::Status CheckAnswerPath(const std::string& path);

// --out: writes all matrices to an .npz, or the one named `main` to an .npy. Adds `nodes` to an .npz unless empty.
absl::Status WriteAnswer(const std::string& path, const Answer& answer, const std::string& main,
                         const std::vector<int64_t>& nodes);

// {"served_by", "timing", matrices as lists of rows}. `out` is the path of a file that WriteAnswer wrote with `main`:
// it is named as "out", and matrices that it has, which as text would be several times as long, are left out.
Json ToJson(const Answer& answer, const std::string& out = "", const std::string& main = "");

// Times of calls, measured by the client, in seconds.
struct Latency {
  double least = 0;
  double median = 0;
  double p99 = 0;
};
// REQUIRES at least one.
Latency Summarise(std::vector<double> seconds);

}  // namespace vicinal::client::cli

#endif  // VICINAL_CLIENT_CPP_CLI_ANSWERS_H_
